//! Asks to run again, every time. Entry point: [`Requeue`].

use serde::Deserialize;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// When.
#[derive(Deserialize)]
struct Config {
    /// In milliseconds; 0 is at once.
    after: u32,
}

/// The guest.
struct Requeue;
windlass_sdk::guest!(Requeue);

impl Reconciler for Requeue {
    fn describe() -> Result<Description> {
        Ok(Description::new("asks to run again")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        Ok(Action::RequeueAfterMs(config::<Config>()?.after))
    }
}
