//! Cases about how a reconcile ends. Entry point: [`end`].

use crate::Scene;
use crate::words::ConfigMap;
use std::time::Duration;
use windlass_sdk::prelude::*;

/// Ends the reconcile in the way of the case.
pub(crate) fn end(case: &str, scene: &Scene) -> Result<Action> {
    match case {
        "done" => Ok(Action::Done),
        "requeue" => Ok(Action::requeue_after(Duration::from_secs(90))),
        "requeue-now" => Ok(Action::requeue_after(Duration::ZERO)),
        "retry" => Err(Error::retry("not yet")),
        "terminal" => Err(Error::terminal("never")),
        "terminal-cut" => Err(Error::terminal(crate::settings::cut())),
        "retry-api" => {
            unavailable(scene)?;
            Ok(Action::Done)
        }
        "terminal-api" => {
            unavailable(scene).context("reading").terminal()?;
            Ok(Action::Done)
        }
        "exception" => Err(std::io::Error::other("broken"))?,
        _ => Err(Error::terminal(format!("there is no case {case:?}"))),
    }
}

/// A call that fails.
fn unavailable(scene: &Scene) -> Result<Option<ConfigMap>, ApiError> {
    scene.cluster.get_live(&scene.at("answers-503"))
}
