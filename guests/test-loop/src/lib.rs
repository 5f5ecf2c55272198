//! Never returns. Entry point: [`Loop`].

use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// The guest.
struct Loop;
windlass_sdk::guest!(Loop);

impl Reconciler for Loop {
    fn describe() -> Result<Description> {
        Ok(Description::new("never returns")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        spin()
    }
}

/// A separate function, so that a test can look for its name in the backtrace of the interruption.
#[inline(never)]
fn spin() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}
