//! Opens clusters and never closes them. Entry point: [`Leak`].

use windlass_sdk::prelude::*;
use windlass_sdk::{GroupVersionKind, fleet};

/// How many.
const HANDLES: u32 = 100_000;

/// The guest.
struct Leak;
windlass_sdk::guest!(Leak);

impl Reconciler for Leak {
    fn describe() -> Result<Description> {
        let watch = Watch::of(GroupVersionKind::new("v1", "ConfigMap"));
        Ok(Description::new("never closes a cluster").primary_watch(watch))
    }

    fn reconcile(_: &Request, cluster: &Cluster) -> Result<Action> {
        for _ in 0..HANDLES {
            std::mem::forget(fleet::open(&cluster.name())?);
        }
        Ok(Action::Done)
    }
}
