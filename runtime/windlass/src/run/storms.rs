//! Events in the local cluster about keys that ask to run without end. Entry point: [`follow`].
//!
//! They are about the Reconciler, which has to be corrected, and not about the object: the manager's credentials may record
//! Events of their own in one namespace of the local cluster, and nowhere in a cluster that a tenant has the say in.

use super::own_events::{self, Said};
use crate::app::App;
use crate::config::kinds::{Identity, Kind};
use std::sync::Arc;
use windlass_fleet::Request;
use windlass_fleet::api::EventType;
use windlass_fleet::manager::Storms;

/// Records one for each storm, until the manager drains.
pub(super) async fn follow(mut storms: Storms, app: Arc<App>) {
    while let Some(storm) = storms.next().await {
        let about = Identity {
            kind: Kind::Reconciler,
            name: storm.controller.to_string(),
        };
        let said = Said {
            event_type: EventType::Warning,
            reason: "StormHeldBack",
            action: "Reconcile",
            note: note(&storm.request),
            tenant: Some(storm.tenant),
        };
        own_events::record(&app, &about, said);
    }
}

fn note(request: &Request) -> String {
    format!(
        "{request} asks to run without end and is held back: look for a reconciler that changes what it watches in every run"
    )
}
