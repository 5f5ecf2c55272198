//! Windlass fleet: reconcile Kubernetes objects in many clusters from one process. Start at [`Manager`].
//!
//! This crate is a multi-cluster controller library of its own; it knows nothing of WebAssembly. A [`provider`] discovers
//! clusters and [engages](engage::Engage) them; each engaged [`cluster::Cluster`] keeps caches; [`source`]s turn changes of
//! cached objects into [`Request`]s; one queue holds them; [`controller`]s run them through a
//! [`Reconciler`]; the [`Manager`] owns it all.
//!
//! A native reconciler, which keeps a copy of each ConfigMap with the label `copy=yes`:
//!
//! ```
//! use std::sync::Arc;
//! use windlass_fleet::k8s_openapi::api::core::v1::ConfigMap;
//! use windlass_fleet::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
//! use windlass_fleet::source::{Enqueue, Watch};
//! use windlass_fleet::{Action, Context, Controller, ControllerName, Failure, Typed};
//!
//! async fn copy(context: Context) -> Result<Action, Failure> {
//!     let cluster = context.typed_client();
//!     let key = &context.request.key;
//!     let Some(original) = cluster.get::<ConfigMap>(key).await? else {
//!         return Ok(Action::Done); // Deleted: the garbage collector deletes the copy.
//!     };
//!     let copy_key = key.sibling(&format!("{}-copy", key.name));
//!     let present = cluster.get::<ConfigMap>(&copy_key).await?;
//!     if present.is_some_and(|copy| copy.data == original.data) {
//!         return Ok(Action::Done);
//!     }
//!     let metadata = ObjectMeta {
//!         name: Some(copy_key.name.to_string()),
//!         namespace: original.metadata.namespace.clone(),
//!         owner_references: Some(vec![ConfigMap::KIND.controller_reference(&original.metadata)]),
//!         ..ObjectMeta::default()
//!     };
//!     let copy = ConfigMap { metadata, data: original.data, ..ConfigMap::default() };
//!     cluster.force_apply(&copy).await?;
//!     Ok(Action::Done)
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut originals = Watch::new(ConfigMap::KIND, Enqueue::Primary);
//! originals.label_selector = Some("copy=yes".parse()?);
//! let controller = Controller::builder(ControllerName::new("copier")?)
//!     .watch(originals)
//!     .owns(ConfigMap::KIND)
//!     .build(Arc::new(copy))?;
//! # drop(controller);
//! # Ok(())
//! # }
//! ```
//!
//! [`manager`] shows how to run it. [`Typed`] makes a type of your own usable in the same way.
//!
//! Modules are listed from the words to the whole: a module imports only modules above it.

pub mod name;
mod kind;
mod request;
mod workspace;
pub mod outcome;
pub mod api;
mod typed;
mod json;
pub mod trace;
pub mod selector;
pub mod path;
mod pairs;
pub mod grant;
pub mod predicate;
pub mod backoff;
mod rate_limit;
pub mod pause;
pub mod file;
pub mod private_folder;
mod program;
mod task;
mod queue;
pub mod metrics;
mod clock;
mod http;
mod discovery;
mod cache;
pub mod cluster;
pub mod hub;
pub mod engage;
pub mod provider;
pub mod source;
pub mod controller;
pub mod election;
pub mod manager;

pub use api::{ApiCode, ApiError};
pub use cluster::{Client, Cluster, TypedClient};
pub use controller::{Context, Controller, Reconciler};
pub use grant::{Grant, Rule};
#[cfg(feature = "k8s-openapi")]
pub use k8s_openapi;
pub use kind::{GroupKind, GroupKindError, GroupVersionKind};
pub use manager::Manager;
pub use name::{ClusterName, ControllerName, TenantName};
pub use outcome::{Action, Failure};
pub use pairs::Pairs;
pub use request::{ObjectKey, ObjectNameError, ParseRequestError, Request};
pub use typed::{Kind, Typed};

/// The queue by itself, for `benches/queue.rs`. Not part of the API.
#[doc(hidden)]
pub mod bench {
    pub use crate::queue::{Add, ControllerId, Limits, Outcome, Queue, QueueOptions};
}
