//! Pauses objects and resumes them, for callers of the program. Entry point: [`annotate`].

use super::core::Core;
use super::leadership::Elsewhere;
use super::pauses::client;
use super::registrations::Registration;
use crate::api::{ApiError, PatchType, WriteOptions};
use crate::kind::GroupVersionKind;
use crate::name::ControllerName;
use crate::paused::Pause;
use crate::request::Request;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The field manager of the annotations.
const MANAGER: &str = "windlass-pause";

/// Why an object is not paused or resumed.
#[derive(Debug, thiserror::Error)]
pub enum PauseError {
    /// No controller of that name works in the cluster.
    #[error(
        "no reconciler that was asked for works in cluster {0:?}: see windlass get clusters and get reconcilers"
    )]
    NoReconciler(String),
    /// No cache has an object of the key.
    #[error(
        "there is no such {0} in the cluster, as far as its reconciler may see: check namespace and name"
    )]
    NoObject(String),
    /// Controllers of several kinds have an object of the key.
    #[error(
        "the key names objects of several kinds, {0}: add --reconciler, with a reconciler of the one that is meant"
    )]
    SeveralKinds(String),
    /// Another process leads, and writes.
    #[error("another process leads, {0:?}, and only that one writes: call that one")]
    NotLeading(String),
    /// The server does not take the annotation.
    #[error(
        "the annotation of {kind} {key} cannot be written with the rights of {reconciler}: let them patch it, or write it with kubectl annotate"
    )]
    Refused {
        /// The object's kind.
        kind: String,
        /// The object.
        key: String,
        /// The controller.
        reconciler: String,
        /// The server's answer.
        source: ApiError,
    },
}

/// Writes a pause on the object of a key, or takes it away. Returns the object's kind.
pub(super) async fn annotate(
    core: &Core,
    request: &Request,
    name: Option<&ControllerName>,
    pause: Option<&Pause>,
) -> Result<String, PauseError> {
    let no_reconciler = || PauseError::NoReconciler(request.cluster.to_string());
    let cluster = core
        .fleet
        .cluster(&request.cluster)
        .ok_or_else(no_reconciler)?;
    let watches = core.watches.running();
    let registrations = core.registrations.all().into_iter().filter(|registration| {
        let wanted = name.is_none_or(|name| *name == registration.controller().name);
        wanted && watches.engages(registration.id, &request.cluster)
    });
    let mut by_kind: BTreeMap<String, (GroupVersionKind, Arc<Registration>)> = BTreeMap::new();
    for registration in registrations {
        if let Some(kind) = registration.controller().primary.clone() {
            by_kind
                .entry(kind.to_string())
                .or_insert((kind, registration));
        }
    }
    if by_kind.is_empty() {
        return Err(no_reconciler());
    }
    let all = list(&by_kind);
    by_kind.retain(|_, (kind, _)| cluster.held(kind, &request.key).is_some());
    if by_kind.len() > 1 {
        return Err(PauseError::SeveralKinds(list(&by_kind)));
    }
    let (text, (kind, registration)) = by_kind.pop_first().ok_or(PauseError::NoObject(all))?;
    let controller = registration.controller();
    let holder = || {
        let worker = core.leadership.worker(cluster.name());
        worker.map_or_else(String::new, |worker| worker.to_string())
    };
    if core.leadership.holds(&controller) {
        return Err(PauseError::NotLeading(holder()));
    }
    let fence = core.leadership.fence(&controller, cluster.name());
    let fence = fence.map_err(|Elsewhere| PauseError::NotLeading(holder()))?;
    let patch = Pause::patch(pause).to_string();
    let caller = registration.caller().managing(MANAGER);
    let client = client(&registration, &cluster, caller, fence);
    let options = WriteOptions::default();
    let patched = client.patch(
        &kind,
        &request.key,
        PatchType::Merge,
        patch.into(),
        &options,
    );
    patched.await.map_err(|source| PauseError::Refused {
        kind: text.clone(),
        key: request.key.to_string(),
        reconciler: controller.name.to_string(),
        source,
    })?;
    Ok(text)
}

fn list<T>(by_kind: &BTreeMap<String, T>) -> String {
    let kinds: Vec<&str> = by_kind.keys().map(String::as_str).collect();
    kinds.join(" and ")
}
