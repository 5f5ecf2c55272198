//! Why an object is not reconciled, whether the queue knows its key or not. Entry point: [`explain`].

use super::core::Core;
use super::keys::{self, KeyStatus};
use super::registrations::Registration;
use crate::cluster::{Cluster, Reach};
use crate::queue::{KeyState, QueuedKey};
use crate::request::Request;
use std::time::{Duration, Instant};

/// Why one controller does not reconcile an object.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The tenant.
    pub tenant: String,
    /// The controller.
    pub controller: String,
    /// The key in the queue; `None` if it is not there.
    pub key: Option<KeyStatus>,
    /// Why it is not reconciled, or what it waits for, for people.
    pub why: String,
    /// How its last run ended, if that was lately: `success`, `requeue_after` or `error`.
    pub last_result: Option<&'static str>,
    /// How long ago that was, in seconds.
    pub last_ended: Option<f64>,
    /// How long it took, in seconds.
    pub last_took: Option<f64>,
}

/// Why every controller, or those of a name, do not reconcile an object.
pub(super) fn explain(
    core: &Core,
    request: &Request,
    controller: Option<&str>,
) -> Vec<Explanation> {
    let registrations = core.registrations.all();
    let of_name = registrations.iter().filter(|registration| {
        controller.is_none_or(|name| registration.controller().name.as_str() == name)
    });
    of_name
        .map(|registration| explain_for(core, registration, request))
        .collect()
}

fn explain_for(core: &Core, registration: &Registration, request: &Request) -> Explanation {
    let controller = registration.controller();
    let key = core.queue.read(|queue| queue.key(registration.id, request));
    let key = key.and_then(|key| keys::status(&core.queue, &core.registrations, &core.pauses, key));
    let why = match core.fleet.cluster(&request.cluster) {
        None => format!(
            "cluster {:?} is not engaged: no provider knows it, or cannot use what it knows",
            request.cluster.as_str()
        ),
        Some(cluster) => explain_in(core, registration, &cluster, request, key.as_ref()),
    };
    let last = core.recent.of(registration.id, request);
    let seconds = |time: Duration| time.as_secs_f64();
    Explanation {
        tenant: controller.tenant.to_string(),
        controller: controller.name.to_string(),
        key,
        why,
        last_result: last.map(|run| run.result),
        last_ended: last.map(|run| seconds(run.ended.elapsed())),
        last_took: last.map(|run| seconds(run.took)),
    }
}

fn explain_in(
    core: &Core,
    registration: &Registration,
    cluster: &Cluster,
    request: &Request,
    key: Option<&KeyStatus>,
) -> String {
    let watches = core.watches.running();
    let Some(visibility) = watches.visibility(registration.id, request) else {
        return "this reconciler does not work in that cluster: its selection of clusters leaves it out"
            .to_owned();
    };
    if cluster.reach() != Reach::Full {
        let status = cluster.status();
        let state = status.state.as_str();
        return format!(
            "its cluster is {state}, so its keys wait: {}",
            status.reason
        );
    }
    if let Some(key) = key {
        return match &key.paused {
            Some(paused) => paused.to_string(),
            None => waits(&key.queued),
        };
    }
    let paused = core
        .pauses
        .of_key(registration, request, || core.queue.wall_time());
    if let Some(paused) = paused {
        return format!("nothing is left to do, and {paused}");
    }
    // The watch that explains most: one that would have it reconciled, else one that says why not.
    let best = visibility.into_iter().min_by(|(_, a), (_, b)| a.cmp(b));
    match best {
        None => "no watch of this reconciler is about its own objects: others' events enqueue it"
            .to_owned(),
        Some((kind, visibility)) => visibility.describe(&kind),
    }
}

/// What a key in the queue waits for.
fn waits(key: &QueuedKey) -> String {
    let now = Instant::now();
    let ago = |at: Instant| millis(now.saturating_duration_since(at));
    let ahead = |at: Instant| millis(at.saturating_duration_since(now));
    match key.state {
        KeyState::Running(at) => format!("it runs since {:?}", ago(at)),
        KeyState::Ready(at) => format!(
            "it is ready since {:?}: other keys run up to the limits of the manager, its tenant, its reconciler or its cluster",
            ago(at)
        ),
        KeyState::Delayed(at) => format!(
            "its last run, or the source that enqueued it, asked for it in {:?}",
            ahead(at)
        ),
        KeyState::Backoff(at) if key.attempts == 1 => {
            format!("its last run failed, the next is in {:?}", ahead(at))
        }
        KeyState::Backoff(at) => format!(
            "its last {} runs failed, the next is in {:?}",
            key.attempts,
            ahead(at)
        ),
        KeyState::Throttled(at) => format!(
            "it has run too often lately, the next run is in {:?}",
            ahead(at)
        ),
        KeyState::Paused(at) => format!("its pause has ended, it runs in {:?}", ahead(at)),
        KeyState::Terminal(_) => {
            "it failed for good: an event about it, or a requeue, runs it again".to_owned()
        }
        KeyState::Held(_) => "it is held: caches that its reconciler watches in this cluster are being filled, or another process leads"
            .to_owned(),
    }
}

/// Without the digits that are of no use to people.
fn millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
