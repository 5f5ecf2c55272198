//! Events of the program itself, in the local cluster, about its documents. Entry point: [`record`].
//!
//! An Event is about the document, as it would be about the object of a controller, so that `kubectl get events` names the
//! reconciler. The cluster need not have such an object. `reportingInstance` tells the processes apart that serve the same documents.

use super::machine;
use crate::app::App;
use crate::config::kinds::{API_VERSION, Identity};
use windlass_fleet::api::{Event, EventType};
use windlass_fleet::{ClusterName, GroupVersionKind, ObjectKey, TenantName};

/// What an Event says. There are few reasons: each has a budget of its own for each document.
pub(super) struct Said {
    pub(super) event_type: EventType,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) note: String,
    /// Whose reconcilers brought it about, if they did: it then takes room of that tenant's events.
    pub(super) tenant: Option<TenantName>,
}

/// Records an Event about a document where there is a local cluster. Never waits: an Event that there is no room for is counted as
/// dropped, and what it would have said is in the log.
pub(super) fn record(app: &App, about: &Identity, said: Said) {
    let Some(local) = app.manager.fleet().cluster(&ClusterName::local()) else {
        return;
    };
    // With an election, in the name and beside the Lease by which others know this process.
    let (process, namespace) = match app.manager.election() {
        Some(election) => (election.identity, election.namespace),
        None => (machine(), local.config().namespace().to_owned()),
    };
    let tenant = said.tenant.clone();
    local.record_own_event(event(about, &namespace, said), &process, tenant.as_ref());
}

fn event(about: &Identity, namespace: &str, said: Said) -> Event {
    let (group, version) = API_VERSION.split_once('/').unwrap_or(("", API_VERSION));
    Event {
        kind: GroupVersionKind::new(group, version, about.kind.as_str()),
        key: ObjectKey::namespaced(namespace, &about.name),
        event_type: said.event_type,
        reason: said.reason.to_owned(),
        action: said.action.to_owned(),
        note: said.note,
    }
}
