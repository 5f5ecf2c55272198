//! The pauses in effect, and which of them holds a key. Entry point: [`Pauses::of_key`].
//!
//! An object's pause is read from its cache whenever its key is about to run, so that no call is made and nothing is remembered.

use super::registrations::Registration;
use crate::api::{Event, EventType};
use crate::cluster::call_scope::CallScope;
use crate::cluster::{Caller, Client, Cluster, Fleet};
use crate::controller::Controller;
use crate::grant::Grant;
use crate::http::fence::Fence;
use crate::kind::GroupVersionKind;
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::paused::{End, Pause, PauseOf, Paused, Standing, WallTime, decide};
use crate::request::Request;
use crate::source::Enqueue;
use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pauses of whole tenants, reconcilers and clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PauseSet {
    /// Of all reconcilers of a tenant.
    pub tenants: BTreeMap<TenantName, Pause>,
    /// Of controllers.
    pub reconcilers: BTreeMap<(TenantName, ControllerName), Pause>,
    /// Of all keys in a cluster.
    pub clusters: BTreeMap<ClusterName, Pause>,
    /// Of all keys in the clusters of a provider.
    pub providers: BTreeMap<String, Pause>,
}

impl PauseSet {
    fn is_empty(&self) -> bool {
        let Self {
            tenants,
            reconcilers,
            clusters,
            providers,
        } = self;
        tenants.is_empty() && reconcilers.is_empty() && clusters.is_empty() && providers.is_empty()
    }
}

/// The pauses in effect.
pub(super) struct Pauses {
    fleet: Fleet,
    set: ArcSwap<PauseSet>,
}

impl Pauses {
    pub(super) fn new(fleet: Fleet) -> Self {
        Self {
            fleet,
            set: ArcSwap::default(),
        }
    }

    /// Replaces the pauses of tenants, reconcilers and clusters. Returns whether that is a change.
    pub(super) fn set(&self, set: PauseSet) -> bool {
        let set = Arc::new(set);
        *self.set.swap(set.clone()) != *set
    }

    /// The pauses of tenants, reconcilers and clusters.
    pub(super) fn get(&self) -> Arc<PauseSet> {
        self.set.load_full()
    }

    /// The pause that holds a key, if any does.
    pub(super) fn of_key(
        &self,
        registration: &Registration,
        request: &Request,
        now: impl FnOnce() -> WallTime,
    ) -> Option<Paused> {
        let cluster = self.fleet.cluster(&request.cluster)?;
        self.of(&registration.controller(), &cluster, request, now)
            .1
    }

    /// How a key's object is seen, and the pause that holds the key, if any does.
    pub(super) fn of(
        &self,
        controller: &Controller,
        cluster: &Cluster,
        request: &Request,
        now: impl FnOnce() -> WallTime,
    ) -> (Standing, Option<Paused>) {
        let (standing, own) = see(controller, cluster, request);
        let set = self.set.load();
        // Every run passes here, and most of the time nothing is paused.
        if own.is_none() && set.is_empty() {
            return (standing, None);
        }
        let name = (controller.tenant.clone(), controller.name.clone());
        let provider = cluster.provider().and_then(|name| set.providers.get(name));
        let wide = [
            (PauseOf::Reconciler, set.reconcilers.get(&name)),
            (PauseOf::Tenant, set.tenants.get(&controller.tenant)),
            (PauseOf::Cluster, set.clusters.get(&request.cluster)),
            (PauseOf::Provider, provider),
        ];
        let wide = wide
            .into_iter()
            .filter_map(|(of, pause)| Some((of, pause?.clone())));
        let own = own.map(|pause| (PauseOf::Object, pause));
        (standing, decide(standing, wide.chain(own), now()))
    }
}

/// How a key's object is seen, and the pause that it asks for.
fn see(controller: &Controller, cluster: &Cluster, request: &Request) -> (Standing, Option<Pause>) {
    let Some(kind) = &controller.primary else {
        return (Standing::Here, None);
    };
    if let Some(object) = cluster.held(kind, &request.key) {
        let standing = if object.is_deleting() {
            Standing::Leaving
        } else {
            Standing::Here
        };
        return (standing, Pause::of(&object));
    }
    // Only a controller that watches its own objects knows that one is gone.
    let mut watches = controller.watches.iter();
    let watches_own = watches.any(|watch| watch.enqueue == Enqueue::Primary);
    let is_gone = watches_own && cluster.caches(kind, &request.key);
    let standing = if is_gone {
        Standing::Leaving
    } else {
        Standing::Here
    };
    (standing, None)
}

/// Logs that an object's pause holds its key, and records an Event about the object. Once a pause, whichever process it is.
pub(super) fn report_begin(
    registration: &Registration,
    cluster: &Arc<Cluster>,
    request: &Request,
    paused: &Paused,
    fence: Option<Arc<Fence>>,
) {
    let controller = registration.controller();
    let pause = &paused.pause;
    macro_rules! line {
        ($level:ident, $text:literal) => {
            tracing::$level!(
                tenant = %controller.tenant,
                reconciler = %controller.name,
                cluster = %request.cluster,
                namespace = request.key.namespace.as_deref().unwrap_or(""),
                name = &*request.key.name,
                until = %pause.end,
                reason = pause.reason.as_deref(),
                $text
            )
        };
    }
    let event_type = if let End::Unreadable(_) = pause.end {
        line!(
            warn,
            "an object is paused until the end of its pause is corrected: it is not a time"
        );
        EventType::Warning
    } else {
        line!(info, "an object is paused");
        EventType::Normal
    };
    let Some(kind) = &controller.primary else {
        return;
    };
    let event = event(kind, request, event_type, "Paused", pause.to_string());
    let client = client(registration, cluster, registration.caller(), fence);
    cluster.events().record_once(&client, event);
}

/// Logs that an object is not paused any more, and records an Event about the object.
pub(super) fn report_end(
    registration: &Registration,
    cluster: &Arc<Cluster>,
    request: &Request,
    fence: Option<Arc<Fence>>,
) {
    let controller = registration.controller();
    tracing::info!(
        tenant = %controller.tenant,
        reconciler = %controller.name,
        cluster = %request.cluster,
        namespace = request.key.namespace.as_deref().unwrap_or(""),
        name = &*request.key.name,
        "an object is resumed"
    );
    let Some(kind) = &controller.primary else {
        return;
    };
    let note = "its pause has ended".to_owned();
    let event = event(kind, request, EventType::Normal, "Resumed", note);
    client(registration, cluster, registration.caller(), fence).record_event(event);
}

fn event(
    kind: &GroupVersionKind,
    request: &Request,
    event_type: EventType,
    reason: &str,
    note: String,
) -> Event {
    Event {
        kind: kind.clone(),
        key: request.key.clone(),
        event_type,
        reason: reason.to_owned(),
        action: "Reconcile".to_owned(),
        note,
    }
}

/// A client of a controller's own identity, for what the program writes on the controller's behalf.
pub(super) fn client(
    registration: &Registration,
    cluster: &Arc<Cluster>,
    caller: Caller,
    fence: Option<Arc<Fence>>,
) -> Client {
    let identity = registration.controller().grant.identity().cloned();
    let grant = Arc::new(Grant::all().impersonate(identity));
    let token = cluster.token().child_token();
    let scope = CallScope::of_run(caller, token, None, fence);
    Client::new(cluster.clone(), grant, scope, None)
}
