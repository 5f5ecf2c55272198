//! Makes a hundred thousand calls in one run. Entry point: [`Storm`].

use serde::Deserialize;
use windlass_sdk::prelude::*;
use windlass_sdk::{GetOptions, GroupVersionKind, Operation};

/// How many.
const CALLS: u32 = 100_000;

/// The configuration.
#[derive(Deserialize)]
struct Config {
    /// Whether each call goes to the API server.
    live: bool,
    /// Calls in one batch; none: single calls, one after the other.
    #[serde(default)]
    batch: usize,
    /// A label selector of the ConfigMaps; none: all.
    labels: Option<String>,
}

/// The guest. It stops at the first error, and reports the error and the number of the call.
struct Storm;
windlass_sdk::guest!(Storm);

impl Reconciler for Storm {
    fn describe() -> Result<Description> {
        let watch = Watch::of(GroupVersionKind::new("v1", "ConfigMap"));
        let watch = match config::<Config>()?.labels {
            Some(labels) => watch.labels(labels),
            None => watch,
        };
        Ok(Description::new("calls and calls").primary_watch(watch))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let kind = GroupVersionKind::new("v1", "ConfigMap");
        let Config { live, batch, .. } = config()?;
        let options = if live {
            GetOptions::live()
        } else {
            GetOptions::default()
        };
        let read = Operation::Get((kind.clone(), request.key.clone(), options.clone()));
        let mut made = 0;
        while batch > 0 && made < CALLS {
            for reply in cluster.raw().batch(&vec![read.clone(); batch]) {
                made += 1;
                if let Err(error) = reply {
                    return Err(Error::retry(format!("call {made}: {error}")));
                }
            }
        }
        for call in made + 1..=CALLS {
            if let Err(error) = cluster.raw().get(&kind, &request.key, &options) {
                return Err(Error::retry(format!("call {call}: {error}")));
            }
        }
        Ok(Action::Done)
    }
}
