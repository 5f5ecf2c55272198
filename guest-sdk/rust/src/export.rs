//! What macros of the SDK name. Entry points: [`Adapter`], the layer that [`crate::guest`] puts between a guest and the contract; [`encode`] and
//! [`decode`] for [`crate::kind`].

use crate::bindings::exports::windlass::runtime::reconciler as contract;
use crate::bindings::mapped::exports::windlass::runtime::mapper as mapper_contract;
use crate::bindings::windlass::runtime::client;
use crate::bindings::windlass::runtime::types::Failure;
use crate::cluster::Cluster;
use crate::error::{Error, settled};
use crate::json;
pub use crate::resource::{decode, encode};
use crate::types::{Action, Description, GroupVersionKind, Request};
use crate::{Mapper, Reconciler};
use std::marker::PhantomData;

/// The contract's exports for a guest `T`.
#[derive(Debug)]
pub struct Adapter<T>(PhantomData<T>);

impl<T: Reconciler> contract::Guest for Adapter<T> {
    fn describe() -> Result<Description, String> {
        report_panics();
        T::describe().map_err(Error::report)
    }

    fn reconcile(request: Request, cluster: client::Cluster) -> Result<Action, Failure> {
        report_panics();
        Ok(settled(T::reconcile(&request, &accept(cluster)))?)
    }
}

impl<T: Mapper> mapper_contract::Guest for Adapter<T> {
    fn map_objects(
        cluster: client::Cluster,
        kind: GroupVersionKind,
        objects: Vec<String>,
    ) -> Result<Vec<Request>, String> {
        report_panics();
        let cluster = accept(cluster);
        let objects = objects
            .iter()
            .map(|text| json::from_str(text))
            .collect::<Result<Vec<_>, _>>();
        let objects = objects.map_err(|error| error.to_string())?;
        T::map(&cluster, &kind, &objects).map_err(Error::report)
    }
}

#[cfg(target_arch = "wasm32")]
fn accept(cluster: client::Cluster) -> Cluster {
    Cluster::from_handle(crate::raw::Handle(cluster))
}

/// In a native build the exports are not called: a test uses [`crate::testing`].
#[cfg(not(target_arch = "wasm32"))]
fn accept(_: client::Cluster) -> Cluster {
    unreachable!("a native build has no host that could call")
}

/// Logs the place and the message of a panic before it traps. Set in every call, because each call may have its own instance.
fn report_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let at = panic
                .location()
                .map(ToString::to_string)
                .unwrap_or_default();
            let why = panic.payload_as_str().unwrap_or("no message");
            crate::log::write(
                crate::Level::Error,
                "guest panicked",
                &[("why".into(), why.into()), ("at".into(), at)],
            );
        }));
    });
}
