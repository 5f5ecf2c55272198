//! Keys in the queue, as status pages show them. Entry points: [`page`] and [`status`].

use super::pauses::Pauses;
use super::registrations::Registrations;
use super::shared_queue::SharedQueue;
use crate::kind::GroupVersionKind;
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::paused::Paused;
use crate::queue::{ControllerId, KeyState, QueuedKey, QueuedKeyFilter};
use std::collections::BTreeSet;

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
    /// In this state: `ready`, `held`, `delayed`, `backoff`, `throttled`, `paused`, `running` or `terminal`; `failing`: any key whose last run
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

/// A key in the queue, with the names of its controller: why is my object not reconciled?
#[derive(Debug, Clone)]
pub struct KeyStatus {
    /// Its tenant.
    pub tenant: TenantName,
    /// Its controller.
    pub controller: ControllerName,
    /// The kind of the object whose event enqueued it, or enqueued what it is retried for; `None` if no event did.
    pub source: Option<GroupVersionKind>,
    /// The pause that holds it.
    pub paused: Option<Paused>,
    /// What the queue knows of it.
    pub queued: QueuedKey,
}

/// Keys that a filter takes, from 0 or from [`KeyPage::next`] of the page before.
pub(super) fn page(
    queue: &SharedQueue,
    registrations: &Registrations,
    pauses: &Pauses,
    filter: &KeyFilter,
    from: u32,
) -> KeyPage {
    let limit = if filter.limit == 0 {
        MAX_KEYS
    } else {
        filter.limit.min(MAX_KEYS)
    };
    let failing = filter.state.as_deref() == Some("failing");
    let queue_filter = QueuedKeyFilter {
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
                .filter_map(|key| status(queue, registrations, pauses, key)),
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
pub(super) fn status(
    queue: &SharedQueue,
    registrations: &Registrations,
    pauses: &Pauses,
    key: QueuedKey,
) -> Option<KeyStatus> {
    let registration = registrations.by_id(key.controller)?;
    let is_paused = matches!(key.state, KeyState::Paused(_));
    let paused = || pauses.of_key(&registration, &key.request, || queue.wall_time());
    let paused = is_paused.then(paused).flatten();
    let controller = registration.controller();
    Some(KeyStatus {
        tenant: controller.tenant.clone(),
        controller: controller.name.clone(),
        source: registration.kind(key.origin),
        paused,
        queued: key,
    })
}
