//! Calls itself without end. Entry point: [`Recursion`].

use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// The guest.
struct Recursion;
windlass_sdk::guest!(Recursion);

impl Reconciler for Recursion {
    fn describe() -> Result<Description> {
        Ok(Description::new("calls itself without end")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        Ok(Action::RequeueAfterMs(dig(1)))
    }
}

/// Not a tail call, so that every turn takes stack.
#[inline(never)]
#[expect(unconditional_recursion, reason = "this is what the guest is for")]
fn dig(depth: u32) -> u32 {
    std::hint::black_box(dig(std::hint::black_box(depth + 1))) ^ depth
}
