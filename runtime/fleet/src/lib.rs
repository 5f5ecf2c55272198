//! Windlass fleet: reconcile Kubernetes objects in many clusters from one process. Start at [`Manager`].
//!
//! This crate is a multi-cluster controller library of its own; it knows nothing of WebAssembly. A [`provider`] discovers
//! clusters and [engages](engage::Engage) them; each engaged [`cluster::Cluster`] keeps caches; [`source`]s turn changes of
//! cached objects into [`Request`]s; one [`queue`] holds them; [`controller`]s run them through a
//! [`Reconciler`]; the [`Manager`] owns it all.
//!
//! Modules are listed from the words to the whole: a module imports only modules above it.

pub mod name;
pub mod kind;
pub mod request;
pub mod outcome;
pub mod api;
pub mod json;
pub mod selector;
pub mod path;
pub mod grant;
pub mod predicate;
pub mod backoff;
pub mod pause;
pub mod file;
pub mod queue;
pub mod metrics;
mod clock;
mod http;
mod discovery;
mod cache;
pub mod cluster;
pub mod engage;
pub mod provider;
pub mod source;
pub mod controller;
pub mod election;
pub mod manager;

pub use api::{ApiCode, ApiError};
pub use cluster::{Client, Cluster};
pub use controller::{Context, Controller, Reconciler};
pub use grant::{Grant, Rule};
pub use kind::{GroupKind, GroupVersionKind};
pub use manager::Manager;
pub use name::{ClusterName, ControllerName, TenantName};
pub use outcome::{Action, Failure};
pub use request::{ObjectKey, Request};
