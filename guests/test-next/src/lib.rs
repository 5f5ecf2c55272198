//! Calls a function that the contract does not have yet: `clock.uptime-ms`, of a version 0.1.1. Entry point: [`Next`].

use windlass_sdk::prelude::*;
use windlass_sdk::{GroupVersionKind, Watch};

/// The interface of a possible later version.
#[cfg(target_arch = "wasm32")]
#[allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
mod next {
    wit_bindgen::generate!({
        inline: "
            package windlass:runtime@0.1.1;
            interface clock { now: func() -> string; uptime-ms: func() -> u32; }
            world next { import clock; }
        ",
    });
    pub use windlass::runtime::clock::uptime_ms;
}

/// A native build has no host.
#[cfg(not(target_arch = "wasm32"))]
mod next {
    pub(crate) fn uptime_ms() -> u32 {
        0
    }
}

/// The guest. Its result is the message of a terminal failure.
struct Next;
windlass_sdk::guest!(Next);

impl Reconciler for Next {
    fn describe() -> Result<Description> {
        let maps = Watch::of(GroupVersionKind::new("v1", "ConfigMap"));
        Ok(Description::new("uses what is to come").primary_watch(maps))
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        let uptime = next::uptime_ms();
        Err(Error::terminal(format!("up for {uptime} ms")))
    }
}
