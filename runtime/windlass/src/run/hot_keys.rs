//! Records Events about hot keys in the local cluster. Entry point: [`follow`].
//!
//! An Event is about the Reconciler and not about the object, because the Reconciler is the cause. Besides, the manager's credentials
//! may write its own Events only in one namespace of the local cluster, and not in tenants' clusters.

use crate::app::App;
use crate::app::own_events::{self, OwnEvent};
use crate::config::kinds::{Identity, Kind};
use std::sync::Arc;
use windlass_fleet::Request;
use windlass_fleet::api::EventType;
use windlass_fleet::manager::HotKeys;

/// Records an Event for each key that becomes hot, until the manager drains.
pub(super) async fn follow(mut hot_keys: HotKeys, app: Arc<App>) {
    while let Some(hot) = hot_keys.next().await {
        let about = Identity {
            kind: Kind::Reconciler,
            name: hot.controller.to_string(),
        };
        let event = OwnEvent {
            event_type: EventType::Warning,
            reason: "HotKeyThrottled",
            action: "Reconcile",
            note: note(&hot.request),
            tenant: Some(hot.tenant),
        };
        own_events::record(&app, &about, event);
    }
}

fn note(request: &Request) -> String {
    format!(
        "{request} is enqueued without end and is throttled: look for a reconciler that changes a watched object in every run"
    )
}
