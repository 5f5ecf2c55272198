//! Records Events of the program about its documents in the local cluster. Entry point: [`record`].
//!
//! The involved object is the document, so `kubectl get events` names the reconciler. The cluster need not have such an object. If it has,
//! `kubectl describe` of the object shows the Event.
//! `reportingInstance` names the process, because several processes may serve the same documents.

use super::{App, machine};
use crate::config::kinds::{API_VERSION, Identity, Origin};
use windlass_fleet::api::{Event, EventType};
use windlass_fleet::{ClusterName, GroupVersionKind, ObjectKey, TenantName};

/// An Event without its object. Each reason has a budget for each document, so there are few reasons.
pub(crate) struct OwnEvent {
    pub(crate) event_type: EventType,
    pub(crate) reason: &'static str,
    pub(crate) action: &'static str,
    pub(crate) note: String,
    /// The tenant whose reconcilers caused it: the Event counts against the tenant's budget.
    pub(crate) tenant: Option<TenantName>,
}

/// Records an Event about a document, if there is a local cluster. Never waits: an Event beyond the budget is counted as dropped. The log
/// has the same message.
pub(crate) fn record(app: &App, about: &Identity, content: OwnEvent) {
    let Some(local) = app.manager.fleet().cluster(&ClusterName::local()) else {
        return;
    };
    // If processes share the work, the Event has this one's name among them and the namespace of their Lease.
    let (process, namespace) = match app.shared_lease() {
        Some(lease) => (lease.process, lease.namespace),
        None => (machine(), local.config().namespace().to_owned()),
    };
    let tenant = content.tenant.clone();
    let configuration = app.configuration.load();
    let document = configuration.get(about);
    // A document that is not in effect is an object: of files nothing else is recorded.
    let is_object = document.is_none_or(|document| document.origin == Origin::Cluster);
    let key = key(about, is_object, &namespace);
    local.record_own_event(event(about, key, content), &process, tenant.as_ref());
}

/// The key of an object, or of a document of a file as if it were in this namespace. Providers and Tenants have none.
fn key(about: &Identity, is_object: bool, namespace: &str) -> ObjectKey {
    if let Some((namespace, name)) = about.name.split_once('/') {
        return ObjectKey::namespaced(namespace, name);
    }
    if is_object {
        return ObjectKey::cluster_scoped(&about.name);
    }
    ObjectKey::namespaced(namespace, &about.name)
}

fn event(about: &Identity, key: ObjectKey, content: OwnEvent) -> Event {
    let (group, version) = API_VERSION.split_once('/').unwrap_or(("", API_VERSION));
    Event {
        kind: GroupVersionKind::new(group, version, about.kind.as_str()),
        key,
        event_type: content.event_type,
        reason: content.reason.to_owned(),
        action: content.action.to_owned(),
        note: content.note,
    }
}
