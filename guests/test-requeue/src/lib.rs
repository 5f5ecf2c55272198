//! Runs again after every reconcile: it requeues, or writes to an object that it watches. Entry point: [`Requeue`].

use serde::Deserialize;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;
use windlass_sdk::{PatchType, WriteOptions};

/// The annotation that counts runs.
const RUNS: &str = "test.windlass.dev/runs";

/// How it runs again.
#[derive(Deserialize)]
struct Config {
    /// Requeues after this number of milliseconds; 0 is at once.
    after: Option<u32>,
    /// Writes the number of runs to the object of the request.
    #[serde(default)]
    counts: bool,
}

/// The guest.
struct Requeue;
windlass_sdk::guest!(Requeue);

impl Reconciler for Requeue {
    fn describe() -> Result<Description> {
        Ok(Description::new("asks to run again")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let config = config::<Config>()?;
        if config.counts && !count(request, cluster)? {
            return Ok(Action::Done);
        }
        Ok(config.after.map_or(Action::Done, Action::RequeueAfterMs))
    }
}

/// Whether the object is there.
fn count(request: &Request, cluster: &Cluster) -> Result<bool> {
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    let Some(object) = cluster.of(kind.clone()).get(&request.key)? else {
        return Ok(false);
    };
    let before = object.annotation(RUNS).and_then(|runs| runs.parse().ok());
    let runs = before.unwrap_or(0_u32) + 1;
    let patch = format!(r#"{{"metadata":{{"annotations":{{"{RUNS}":"{runs}"}}}}}}"#);
    let options = WriteOptions::default();
    let raw = cluster.raw();
    raw.patch(&kind, &request.key, PatchType::Merge, &patch, &options)?;
    Ok(true)
}
