//! Forges handles, without the SDK, which would prevent it. Entry point: [`Forge`].

#![allow(
    unsafe_code,
    reason = "a handle made of a number is what the guest is for"
)]

use windlass_sdk::bindings::exports::windlass::runtime::reconciler::Guest;
use windlass_sdk::bindings::windlass::runtime::client::Cluster;
use windlass_sdk::bindings::windlass::runtime::types::Failure;
use windlass_sdk::{Action, Description, GroupVersionKind, Request, Watch};

/// The guest. The request's name selects the handle: `dropped` uses a dropped handle, a number the handle with that number.
struct Forge;

impl Guest for Forge {
    fn describe() -> Result<Description, String> {
        Ok(Description::new("makes handles up")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(request: Request, cluster: Cluster) -> Result<Action, Failure> {
        let number = match request.key.name.parse() {
            Ok(number) => number,
            Err(_) => {
                let number = cluster.handle();
                drop(cluster);
                number
            }
        };
        // SAFETY: a handle is a number to the host, which checks it.
        let forged = unsafe { Cluster::from_handle(number) };
        Err(Failure::Terminal(forged.name()))
    }
}

#[cfg(target_arch = "wasm32")]
windlass_sdk::bindings::export!(Forge with_types_in windlass_sdk::bindings);

/// A native build exports nothing.
#[cfg(not(target_arch = "wasm32"))]
const _: fn() -> Result<Description, String> = Forge::describe;
#[cfg(not(target_arch = "wasm32"))]
const _: fn(Request, Cluster) -> Result<Action, Failure> = Forge::reconcile;
