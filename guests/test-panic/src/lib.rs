//! Panics. Entry point: [`Panic`].

use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// The guest.
struct Panic;
windlass_sdk::guest!(Panic);

impl Reconciler for Panic {
    fn describe() -> Result<Description> {
        Ok(Description::new("panics")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(request: &Request, _: &Cluster) -> Result<Action> {
        boom(&request.key.name)
    }
}

/// A separate function, so that a test can look for its name in the trap's backtrace.
#[inline(never)]
#[expect(clippy::panic, reason = "this is what the guest is for")]
fn boom(name: &str) -> ! {
    panic!("cannot stand {name}")
}
