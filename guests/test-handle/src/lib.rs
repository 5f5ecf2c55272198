//! Keeps its cluster handle, or uses a kept one, without the SDK, which would prevent it. Entry point: [`Handle`].

use std::sync::Mutex;
use windlass_sdk::bindings::exports::windlass::runtime::reconciler::Guest;
use windlass_sdk::bindings::windlass::runtime::client::Cluster;
use windlass_sdk::bindings::windlass::runtime::types::Failure;
use windlass_sdk::{Action, Description, GroupVersionKind, Request, Watch};

/// The handle of an earlier call.
static KEPT: Mutex<Option<Cluster>> = Mutex::new(None);

/// The guest. Requests named `keep` keep their handle; all others use the one that was kept.
struct Handle;

impl Guest for Handle {
    fn describe() -> Result<Description, String> {
        Ok(Description::new("keeps its handle")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(request: Request, cluster: Cluster) -> Result<Action, Failure> {
        let poisoned = |_| Failure::Terminal("poisoned".to_owned());
        let mut kept = KEPT.lock().map_err(poisoned)?;
        if request.key.name == "keep" {
            *kept = Some(cluster);
            return Ok(Action::Done);
        }
        match kept.as_ref() {
            Some(kept) => Err(Failure::Terminal(format!(
                "the kept handle is of {:?}",
                kept.name()
            ))),
            None => Err(Failure::Terminal("nothing was kept".to_owned())),
        }
    }
}

#[cfg(target_arch = "wasm32")]
windlass_sdk::bindings::export!(Handle with_types_in windlass_sdk::bindings);

/// A native build exports nothing.
#[cfg(not(target_arch = "wasm32"))]
const _: fn() -> Result<Description, String> = Handle::describe;
#[cfg(not(target_arch = "wasm32"))]
const _: fn(Request, Cluster) -> Result<Action, Failure> = Handle::reconcile;
