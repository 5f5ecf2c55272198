//! Allocates until the limit. Entry point: [`Memory`].

use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// The guest.
struct Memory;
windlass_sdk::guest!(Memory);

impl Reconciler for Memory {
    fn describe() -> Result<Description> {
        Ok(Description::new("allocates until it may not")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        let mut hoard: Vec<Vec<u8>> = Vec::new();
        loop {
            hoard.push(std::hint::black_box(vec![1; 1 << 20]));
        }
    }
}
