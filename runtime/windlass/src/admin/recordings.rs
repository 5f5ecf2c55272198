//! Recordings of runs. Entry points: [`list`], [`file`] and [`record`].
//!
//! A file holds objects, so that it has a path of its own, which those who may only look have no right to.

use super::state::RequeueError;
use crate::app::App;
use crate::status::view::{Items, RecordReply, RecordingView, RequeueRequest};
use std::collections::BTreeMap;
use windlass_fleet::{ControllerName, Request};
use windlass_sandbox::KeptRecording;

/// Where files are, by the id of their run or by its key.
pub(super) const FILES: &str = "/api/contents/v1/recordings/{id}";

/// The recordings of all reconcilers, the oldest first.
pub(super) fn list(app: &App) -> Items<RecordingView> {
    let mut views: Vec<RecordingView> = Vec::new();
    for (name, entry) in app.statuses.all() {
        let Some(guest) = app.guest_registry.guest(&name) else {
            continue;
        };
        let kept = guest.recordings().into_iter();
        views.extend(kept.map(|kept| view(&name, &entry.tenant, kept)));
    }
    views.sort_by(|one, other| one.time.cmp(&other.time));
    Items::all(views)
}

fn view(reconciler: &str, tenant: &str, kept: KeptRecording) -> RecordingView {
    let (bytes, problem) = match kept.file {
        Ok(file) => (file.len() as u64, None),
        Err(problem) => (0, Some(problem)),
    };
    RecordingView {
        id: kept.id,
        tenant: tenant.to_owned(),
        reconciler: reconciler.to_owned(),
        key: kept.request.to_string(),
        time: kept.time,
        why: kept.why.to_string(),
        failed: kept.outcome.is_failure(),
        outcome: kept.outcome.to_string(),
        calls: kept.calls as u64,
        bytes,
        problem,
    }
}

/// The file of a run, by its id or by its key: then of the last one.
///
/// # Errors
/// Why there is none.
pub(super) fn file(app: &App, name: &str) -> Result<bytes::Bytes, String> {
    let request: Option<Request> = name.parse().ok();
    let guests = app.guest_registry.guests().into_iter();
    let kept = guests.flat_map(|guest| guest.recordings());
    let named = kept.filter(|kept| kept.id == name || Some(&kept.request) == request.as_ref());
    let found = named.max_by_key(|kept| (kept.file.is_ok(), kept.time.clone()));
    let found = found.ok_or_else(|| {
        format!(
            "no recording {name:?} is kept: see windlass get recordings; older ones are dropped, so name the key in place of the id"
        )
    })?;
    found.file
}

/// Has the next run of a key recorded, and the key reconciled now.
pub(super) fn record(app: &App, asked: &RequeueRequest) -> Result<RecordReply, RequeueError> {
    let wrong = |error: &dyn std::fmt::Display| RequeueError::Wrong(error.to_string());
    let request: Request = asked.key.parse().map_err(|error| wrong(&error))?;
    let entries: BTreeMap<_, _> = app.statuses.all().into_iter().collect();
    let names = entries.into_keys();
    let names = names.filter(|name| asked.reconciler.as_ref().is_none_or(|only| only == name));
    let (mut reconcilers, mut native) = (Vec::new(), Vec::new());
    for name in names {
        let Some(guest) = app.guest_registry.guest(&name) else {
            continue;
        };
        if guest.is_native() {
            native.push(name);
            continue;
        }
        let controller = ControllerName::new(&name).map_err(|error| wrong(&error))?;
        // Before the key is queued: it may run at once.
        if !guest.record(request.clone()) {
            return Err(RequeueError::Busy(format!(
                "too many keys of {name} wait to be recorded: windlass get recordings shows those that were; try again later"
            )));
        }
        match app.manager.requeue(&request, Some(&controller)) {
            0 => guest.forget(&request),
            _ => reconcilers.push(name),
        }
    }
    if !reconcilers.is_empty() {
        return Ok(RecordReply { reconcilers });
    }
    let cluster = request.cluster.as_str();
    Err(RequeueError::Unknown(match native.first() {
        Some(name) => format!(
            "{name} runs as a process of its own, whose runs cannot be recorded: start windlass dev without --native"
        ),
        None => format!(
            "no such reconciler works in cluster {cluster:?}: see windlass get clusters and get reconcilers"
        ),
    }))
}
