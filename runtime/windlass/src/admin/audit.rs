//! Reports what callers of the API change, in the log and as Events. Entry points: one
//! function for each.

use super::access::Caller;
use crate::app::App;
use crate::app::own_events::{self, OwnEvent};
use crate::config::kinds::{Identity, Kind};
use crate::status::view::{
    DrainReply, PauseReply, PauseRequest, ReleaseReply, ReleaseRequest, RequeueRequest,
    RollbackReply,
};
use windlass_fleet::api::EventType;

/// A caller has requeued a key.
pub(super) fn requeued(app: &App, caller: &Caller, request: &RequeueRequest) {
    let (user, key) = (&*caller.name, request.key.as_str());
    let reconciler = request.reconciler.as_deref();
    tracing::info!(target: "audit", user, key, reconciler, "a caller requeued a key");
    let note = format!("{user} requeued {key}");
    record(app, &about(app, request), "Requeued", "Requeue", note);
}

/// A caller has had a run of a key recorded.
pub(super) fn recorded(app: &App, caller: &Caller, request: &RequeueRequest) {
    let (user, key) = (&*caller.name, request.key.as_str());
    let reconciler = request.reconciler.as_deref();
    tracing::info!(target: "audit", user, key, reconciler, "a caller had a run recorded");
    let note = format!("{user} requeued {key}, and had the run recorded");
    record(app, &about(app, request), "Recorded", "Record", note);
}

/// A caller has paused something, or resumed it.
pub(super) fn paused(app: &App, caller: &Caller, request: &PauseRequest, reply: &PauseReply) {
    let (user, subject, state) = (&*caller.name, reply.subject.as_str(), reply.state.as_str());
    tracing::info!(target: "audit", user, subject, state, "a caller paused or resumed something");
    if request.key.is_none() {
        // The process that leads records an Event about the object that has the pause.
        return;
    }
    let (reason, action) = if reply.until.is_empty() {
        ("Resumed", "Resume")
    } else {
        ("Paused", "Pause")
    };
    let about = match &request.reconciler {
        Some(name) => of_reconciler(name),
        None => of_manager(app),
    };
    let note = format!("{subject} {state}, as {user} asked");
    record(app, &about, reason, action, note);
}

/// A caller has looked for objects that finalizers hold, or has let them go.
pub(super) fn released(app: &App, caller: &Caller, request: &ReleaseRequest, reply: &ReleaseReply) {
    let (user, reconciler) = (&*caller.name, request.reconciler.as_str());
    let (objects, released, failed) = (reply.count, reply.released, reply.failed);
    if !request.release {
        tracing::info!(target: "audit", user, reconciler, objects, "a caller looked for objects that finalizers hold");
        return;
    }
    tracing::info!(target: "audit", user, reconciler, released, failed, "a caller removed finalizers");
    if released == 0 {
        return;
    }
    let note = format!("{user} removed its finalizers from {released} objects");
    let about = of_reconciler(reconciler);
    record(app, &about, "Released", "Release", note);
}

/// A caller has this process give its shards away.
pub(super) fn drained(app: &App, caller: &Caller, reply: &DrainReply) {
    let (user, member) = (&*caller.name, reply.member.as_str());
    tracing::info!(target: "audit", user, member, "a caller drains a member");
    let note = format!("{user} drains {member}: its clusters pass to the other processes");
    record(app, &of_manager(app), "Drained", "Drain", note);
}

/// A caller has read a recording, which holds objects.
pub(super) fn read_recording(caller: &Caller, id: &str) {
    tracing::info!(target: "audit", user = &*caller.name, id, "a caller read a recording");
}

fn about(app: &App, request: &RequeueRequest) -> Identity {
    match &request.reconciler {
        Some(name) => of_reconciler(name),
        None => of_manager(app),
    }
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
