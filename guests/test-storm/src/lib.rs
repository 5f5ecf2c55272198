//! Makes a hundred thousand calls in one run. Entry point: [`Storm`].

use serde::Deserialize;
use windlass_sdk::prelude::*;
use windlass_sdk::{GetOptions, GroupVersionKind};

/// How many.
const CALLS: u32 = 100_000;

/// What the operator may configure.
#[derive(Deserialize)]
struct Config {
    /// Whether each call goes to the API server.
    live: bool,
}

/// The guest. It stops at the first error, and says which and when.
struct Storm;
windlass_sdk::guest!(Storm);

impl Reconciler for Storm {
    fn describe() -> Result<Description> {
        let watch = Watch::of(GroupVersionKind::new("v1", "ConfigMap"));
        Ok(Description::new("calls and calls").primary_watch(watch))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let kind = GroupVersionKind::new("v1", "ConfigMap");
        let options = if config::<Config>()?.live {
            GetOptions::live()
        } else {
            GetOptions::default()
        };
        for call in 1..=CALLS {
            if let Err(error) = cluster.raw().get(&kind, &request.key, &options) {
                return Err(Error::retry(format!("call {call}: {error}")));
            }
        }
        Ok(Action::Done)
    }
}
