//! Windlass fleet: reconcile Kubernetes objects in many clusters from one process. Start at [`Manager`].
//!
//! A [`provider`] discovers clusters and [engages](engage::Engage) them; each engaged [`cluster::Cluster`] keeps caches; [`source`]s turn
//! changes of cached objects into [`Request`]s; one queue holds them; [`controller`]s run them through a [`Reconciler`]; the [`Manager`]
//! owns it all.
//!
//! Modules are listed from the words to the whole: a module imports only modules above it.

#![cfg_attr(feature = "kube", doc = include_str!("../README.md"))]

pub mod name;
mod kind;
mod request;
mod workspace;
pub mod outcome;
pub mod api;
mod typed;
pub mod object;
mod json;
pub mod trace;
pub mod selector;
pub mod path;
mod pairs;
pub mod grant;
pub mod predicate;
pub mod paused;
pub mod backoff;
mod rate_limit;
pub mod portion;
pub mod breaks;
pub mod digest;
pub mod file;
pub mod private_folder;
mod program;
mod task;
pub mod fair;
mod queue;
pub mod metrics;
mod clock;
mod http;
mod discovery;
mod cache;
pub mod cluster;
pub mod outbound;
pub mod hub;
pub mod engage;
pub mod provider;
pub mod kubectl;
pub mod source;
pub mod desired;
pub mod controller;
pub mod election;
pub mod shard;
pub mod manager;

pub use api::{ApiCode, ApiError};
pub use cluster::{Client, Cluster, TypedClient};
pub use controller::{Context, Controller, Reconciler};
pub use desired::Dependents;
pub use digest::Digest;
pub use grant::{Grant, Rule};
#[cfg(feature = "kube")]
pub use k8s_openapi;
pub use kind::{FLEET_GROUP, GroupKind, GroupKindError, GroupVersionKind, Resource};
#[cfg(feature = "kube")]
pub use kube_core;
pub use manager::Manager;
pub use name::{ClusterName, ControllerName, TenantName};
pub use object::{Condition, Object};
pub use outcome::{Action, Failure, Result};
pub use pairs::Pairs;
pub use request::{ObjectKey, ObjectNameError, ParseRequestError, Request};
pub use typed::Typed;

/// The queue by itself, for `benches/queue.rs`. Not part of the API.
#[doc(hidden)]
pub mod bench {
    pub use crate::queue::{Add, ControllerId, Limits, Outcome, Queue, QueueOptions};
}
