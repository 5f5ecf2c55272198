//! Reports what callers of the API change, in the log and as Events. Entry points: [`requeued`] and [`rolled_back`].

use super::access::Caller;
use crate::app::App;
use crate::app::own_events::{self, OwnEvent};
use crate::config::kinds::{Identity, Kind};
use crate::status::view::{RequeueRequest, RollbackReply};
use windlass_fleet::api::EventType;

/// A caller has requeued a key.
pub(super) fn requeued(app: &App, caller: &Caller, request: &RequeueRequest) {
    let (user, key) = (&*caller.name, request.key.as_str());
    let reconciler = request.reconciler.as_deref();
    tracing::info!(target: "audit", user, key, reconciler, "a caller requeued a key");
    let about = match reconciler {
        Some(name) => of_reconciler(name),
        None => of_manager(app),
    };
    record(
        app,
        &about,
        "Requeued",
        "Requeue",
        format!("{user} requeued {key}"),
    );
}

/// A caller has rolled a reconciler back, or has ended that.
pub(super) fn rolled_back(app: &App, caller: &Caller, reply: &RollbackReply) {
    let user = &*caller.name;
    let (reconciler, revision) = (reply.reconciler.as_str(), reply.revision.as_str());
    let rolled_back = reply.rolled_back;
    tracing::info!(target: "audit", user, reconciler, revision, rolled_back, "a caller rolled a reconciler back");
    let note = if rolled_back {
        format!("{user} rolled it back: {revision} serves")
    } else {
        format!("{user} ended the rollback: {revision} serves, the revision of its file")
    };
    record(
        app,
        &of_reconciler(reconciler),
        "RolledBack",
        "Rollback",
        note,
    );
}

fn record(app: &App, about: &Identity, reason: &'static str, action: &'static str, note: String) {
    let event = OwnEvent {
        event_type: EventType::Normal,
        reason,
        action,
        note,
        tenant: None,
    };
    own_events::record(app, about, event);
}

fn of_reconciler(name: &str) -> Identity {
    Identity {
        kind: Kind::Reconciler,
        name: name.to_owned(),
    }
}

/// The Manager's document, or the name that it usually has.
fn of_manager(app: &App) -> Identity {
    let configuration = app.configuration.load();
    let manager = configuration.manager();
    manager.map_or_else(
        || Identity {
            kind: Kind::Manager,
            name: "manager".to_owned(),
        },
        |(document, _)| document.identity.clone(),
    )
}
