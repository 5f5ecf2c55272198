//! Logs more than it may. Entry point: [`Log`].

use serde::Deserialize;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// How much.
#[derive(Deserialize)]
struct Config {
    lines: u32,
    /// Bytes of each line.
    length: usize,
}

/// The guest.
struct Log;
windlass_sdk::guest!(Log);

impl Reconciler for Log {
    fn describe() -> Result<Description> {
        Ok(Description::new("logs more than it may")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        let Config { lines, length } = config()?;
        let text = "x".repeat(length);
        for line in 0..lines {
            info!(&text, line = line);
        }
        Ok(Action::Done)
    }
}
