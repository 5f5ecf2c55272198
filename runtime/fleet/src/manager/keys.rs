//! Keys in the queue, as status pages show them. Entry points: [`page`] and [`status`].

use super::registrations::Registrations;
use super::shared_queue::SharedQueue;
use crate::name::ClusterName;
use crate::queue::{ControllerId, KeyState, KeyStatus as QueuedKey};
use std::collections::BTreeSet;
use std::time::Instant;

/// Most keys that one answer lists.
const MAX_KEYS: usize = 10_000;

/// Which keys are asked for.
#[derive(Debug, Clone, Default)]
pub struct KeyFilter {
    /// Of this tenant. Default: any.
    pub tenant: Option<String>,
    /// Of this controller. Default: any.
    pub controller: Option<String>,
    /// Of this cluster. Default: any.
    pub cluster: Option<ClusterName>,
    /// In this state: `ready`, `held`, `delayed`, `backoff`, `throttled`, `running` or `terminal`; `failing`: any key whose last run
    /// failed. Default: any.
    pub state: Option<String>,
    /// At most so many; 0: 10,000, the most that an answer may have.
    pub limit: usize,
}

/// Some of the keys that a filter takes.
#[derive(Debug, Clone, Default)]
pub struct KeyPage {
    /// In no order.
    pub keys: Vec<KeyStatus>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<u32>,
}

/// A key as status pages show it: why is my object not reconciled?
#[derive(Debug, Clone, serde::Serialize)]
pub struct KeyStatus {
    /// The key, as `cluster://…`.
    pub key: String,
    /// Its tenant.
    pub tenant: String,
    /// Its controller.
    pub controller: String,
    /// `ready`, `held`, `delayed`, `backoff`, `throttled` (it has run too often lately), `running` or `terminal`.
    pub state: &'static str,
    /// How often it has failed since it last succeeded.
    pub attempts: u32,
    /// Its priority.
    pub priority: i32,
    /// Seconds until it runs, for `delayed`, `backoff` and `throttled`.
    pub runs_in: Option<f64>,
    /// Seconds since it entered its state, for the other states.
    pub since: Option<f64>,
    /// What enqueued it.
    pub cause: &'static str,
    /// The kind of the object whose event enqueued it, or enqueued it before it was retried; `None` if no event did.
    pub source: Option<String>,
    /// Its last error, while it fails.
    pub last_error: Option<String>,
    /// The party at fault for the last error.
    pub blame: Option<&'static str>,
    /// The last error's short reason.
    pub reason: Option<&'static str>,
}

/// Keys that a filter takes, from 0 or from [`KeyPage::next`] of the page before.
pub(super) fn page(
    queue: &SharedQueue,
    registrations: &Registrations,
    filter: &KeyFilter,
    from: u32,
) -> KeyPage {
    let limit = if filter.limit == 0 {
        MAX_KEYS
    } else {
        filter.limit.min(MAX_KEYS)
    };
    let failing = filter.state.as_deref() == Some("failing");
    let queue_filter = crate::queue::KeyFilter {
        controllers: controllers(registrations, filter),
        cluster: filter.cluster.clone(),
        state: filter.state.clone().filter(|_| !failing),
        failing,
    };
    let mut keys = Vec::new();
    let mut next = Some(from);
    while let Some(from) = next
        && keys.len() < limit
    {
        // The queue is unlocked between pages, so that a long answer does not delay it.
        let page = queue.read(|queue| queue.keys(&queue_filter, from, limit - keys.len()));
        next = page.next;
        keys.extend(
            page.keys
                .into_iter()
                .filter_map(|key| status(registrations, key)),
        );
    }
    KeyPage { keys, next }
}

/// The controllers whose keys are asked for; `None` for all.
fn controllers(
    registrations: &Registrations,
    filter: &KeyFilter,
) -> Option<BTreeSet<ControllerId>> {
    let (tenant, controller) = (filter.tenant.as_deref(), filter.controller.as_deref());
    if tenant.is_none() && controller.is_none() {
        return None;
    }
    let all = registrations.all();
    let wanted = all.iter().filter(|registration| {
        let known = registration.controller();
        tenant.is_none_or(|tenant| tenant == known.tenant.as_str())
            && controller.is_none_or(|controller| controller == known.name.as_str())
    });
    Some(wanted.map(|registration| registration.id).collect())
}

/// A key with the names of its controller. `None`: the controller has been removed.
pub(super) fn status(registrations: &Registrations, key: QueuedKey) -> Option<KeyStatus> {
    let registration = registrations.by_id(key.controller)?;
    let controller = registration.controller();
    let now = Instant::now();
    let (runs_in, since) = match key.state {
        KeyState::Delayed(at) | KeyState::Backoff(at) | KeyState::Throttled(at) => {
            (Some(at.saturating_duration_since(now)), None)
        }
        KeyState::Ready(at)
        | KeyState::Held(at)
        | KeyState::Running(at)
        | KeyState::Terminal(at) => (None, Some(now.saturating_duration_since(at))),
    };
    let failure = key.last_failure.as_ref();
    Some(KeyStatus {
        key: key.request.to_string(),
        tenant: controller.tenant.to_string(),
        controller: controller.name.to_string(),
        state: key.state.as_str(),
        attempts: key.attempts,
        priority: key.priority,
        runs_in: runs_in.map(|d| d.as_secs_f64()),
        since: since.map(|d| d.as_secs_f64()),
        cause: key.cause.as_str(),
        source: registration.kind(key.origin).map(|kind| kind.to_string()),
        last_error: failure.map(|failure| failure.message.to_string()),
        blame: failure.map(|failure| failure.blame.as_str()),
        reason: failure.map(|failure| failure.reason),
    })
}
