//! Write a Windlass guest in Rust: one type, one trait, one macro. Entry points: [`Reconciler`] and [`guest`].
//!
//! A guest is a WebAssembly component. The host watches what [`Reconciler::describe`] asks for, in every cluster of the
//! fleet, and calls [`Reconciler::reconcile`] with a request and a [`Cluster`]: the API of the request's own cluster, within
//! what the operator granted.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::collections::BTreeMap;
//! use windlass_sdk::prelude::*;
//!
//! /// The parts of a ConfigMap that this guest needs.
//! #[derive(Serialize, Deserialize)]
//! struct ConfigMap {
//!     metadata: Metadata,
//!     #[serde(default)]
//!     data: BTreeMap<String, String>,
//! }
//! windlass_sdk::kind!(ConfigMap, "v1", "ConfigMap");
//!
//! /// Keeps a copy of every ConfigMap beside it.
//! struct Copier;
//!
//! impl Reconciler for Copier {
//!     fn describe() -> Result<Description> {
//!         Ok(Description::new("copies ConfigMaps")
//!             .primary_watch(Watch::new::<ConfigMap>().labels("copy=yes"))
//!             .owns::<ConfigMap>())
//!     }
//!
//!     fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
//!         let Some(original) = cluster.get::<ConfigMap>(&request.key)? else {
//!             return Ok(Action::Done); // deleted: the garbage collector takes the copy
//!         };
//!         let key = request.key.sibling(format!("{}-copy", request.key.name));
//!         if cluster.get::<ConfigMap>(&key)?.is_some_and(|copy| copy.data == original.data) {
//!             return Ok(Action::Done);
//!         }
//!         let metadata = Metadata::of(&key).owner(original.controller_reference());
//!         cluster.force_apply(&ConfigMap { metadata, data: original.data.clone() })?;
//!         cluster.event(&original, "Copied", format!("copied to {key}"));
//!         info!("copied", from = request.key, to = key);
//!         Ok(Action::Done)
//!     }
//! }
//!
//! windlass_sdk::guest!(Copier);
//!
//! // In the guest's tests, which are plain `cargo test`:
//! use windlass_sdk::testing::TestFleet;
//!
//! let fleet = TestFleet::new();
//! let alpha = fleet.cluster("alpha");
//! alpha.put(serde_json::json!({
//!     "apiVersion": "v1", "kind": "ConfigMap",
//!     "metadata": {"namespace": "default", "name": "a", "labels": {"copy": "yes"}},
//!     "data": {"color": "blue"},
//! }));
//! let a = ObjectKey::namespaced("default", "a");
//! assert_eq!(alpha.reconcile::<Copier>(&a)?, Action::Done);
//!
//! let copy: ConfigMap = alpha.object(&a.sibling("a-copy")).expect("there is a copy");
//! assert_eq!(copy.data["color"], "blue");
//! assert_eq!(alpha.events()[0].reason, "Copied");
//! assert_eq!(alpha.reconciled_writes::<Copier>(&a)?, 0, "nothing to do the second time");
//! # Ok::<(), windlass_sdk::Error>(())
//! ```
//!
//! # Building
//! `crate-type = ["cdylib"]`, target `wasm32-unknown-unknown`, linker `wasm-component-ld` (it comes with the target); or
//! `windlass build`, which sets all of this. Keep the name section (`strip = "debuginfo"`), so that a trap shows function names.
//!
//! The SDK contains an allocator for short calls. To use your own allocator, disable the SDK's default features.
//!
//! # Failing
//! `?` on an [`ApiError`] or any other error fails the reconcile, which is retried with growing delay.
//! [`Error::terminal`] and [`Context::terminal`] wait for the next event instead. A panic is logged, and traps.

#[cfg(any(all(target_arch = "wasm32", feature = "arena"), test))]
mod arena;
#[doc(hidden)]
pub mod bindings;
mod cluster;
mod config;
mod dependents;
mod describe;
mod error;
#[doc(hidden)]
pub mod export;
pub mod fleet;
pub mod http;
mod json;
pub mod log;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;
pub mod raw;
mod readiness;
mod resource;
#[cfg(test)]
mod spec;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod types;
#[cfg(not(target_arch = "wasm32"))]
mod wire;

pub use cluster::{Cluster, Effect, Objects, OfKind, Written};
pub use config::{config, now};
pub use dependents::Dependents;
pub use error::{ApiError, Context, Error, Result};
pub use fleet::{FleetCluster, FleetClusterSpec, FleetClusterStatus};
pub use readiness::readiness;
pub use resource::{
    Condition, ConditionStatus, Identity, Kind, Metadata, Object, OwnerReference, Resource, Typed,
};
pub use types::{
    Action, ApiCode, ApplyOptions, Change, ClusterInfo, ClusterScope, DeleteOptions, Description,
    Enqueue, Event, EventType, GetOptions, GroupVersionKind, Index, Level, ListOptions, ListPage,
    ObjectKey, Operation, PatchType, Projection, Propagation, ReadMode, Reply, Request, Selection,
    Watch, WriteOptions,
};

/// The examples of README.md, so that they compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The items that nearly every guest needs: `use windlass_sdk::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Action, ApiCode, ApiError, Cluster, Condition, Context, Dependents, Description, Enqueue,
        Error, ListOptions, Metadata, Object, ObjectKey, Reconciler, Request, Resource, Result,
        Typed, Watch, config, debug, error, info, now, objects, warn,
    };
}

/// A guest.
pub trait Reconciler {
    /// Returns the watches, how events become requests, the indexes and the kind that requests name. Called when the guest is
    /// loaded and when its config or grants change. Every call to a cluster is denied; [`config`] works.
    ///
    /// # Errors
    /// If the config is wrong; the load then fails with this error.
    fn describe() -> Result<Description>;

    /// Brings the object that `request` names to its desired state. The request says what to look at, never what happened: read, compare,
    /// write what differs. At most one call runs for a request at a time, in any number of fresh instances.
    ///
    /// # Errors
    /// Any error; [`Error`] describes what happens next.
    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action>;
}

/// A guest whose own code turns events into requests, for watches with [`Enqueue::Mapped`].
pub trait Mapper {
    /// Returns the requests, of any granted cluster, for these changed objects of `cluster`. An update passes the old and the
    /// new object. Reads come only from the cache; [`fleet::clusters`] returns the granted clusters.
    ///
    /// # Errors
    /// Any error; the event is mapped again with growing delay.
    fn map(cluster: &Cluster, kind: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>>;
}

/// Exports a [`Reconciler`] as the guest of this crate; with `, mapper` the type must be a [`Mapper`] too.
///
/// ```
/// # struct Hello;
/// # impl windlass_sdk::Reconciler for Hello {
/// #     fn describe() -> windlass_sdk::Result<windlass_sdk::Description> { Ok(windlass_sdk::Description::new("")) }
/// #     fn reconcile(_: &windlass_sdk::Request, _: &windlass_sdk::Cluster) -> windlass_sdk::Result<windlass_sdk::Action> {
/// #         Ok(windlass_sdk::Action::Done)
/// #     }
/// # }
/// windlass_sdk::guest!(Hello);
/// ```
#[macro_export]
macro_rules! guest {
    ($type:ty) => {
        const _: () = {
            #[allow(dead_code, reason = "exported only from a component")]
            type WindlassGuest = $crate::export::Adapter<$type>;
            #[cfg(target_arch = "wasm32")]
    $crate::bindings::export!(WindlassGuest with_types_in $crate::bindings);
        };
    };
    ($type:ty, mapper) => {
        $crate::guest!($type);
        const _: () = {
            #[allow(dead_code, reason = "exported only from a component")]
            type WindlassGuest = $crate::export::Adapter<$type>;
            #[cfg(target_arch = "wasm32")]
    $crate::bindings::mapped::export!(WindlassGuest with_types_in $crate::bindings::mapped);
        };
    };
}
