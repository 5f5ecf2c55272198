//! Whether there is nothing left to do. Entry point: [`idle`].

use super::core::Core;
use super::keys::{self, KeyFilter, KeyStatus};
use crate::cluster::{Cluster, ClusterState};
use crate::name::ClusterName;
use crate::queue::{Counts, KeyState, QueuedKeyFilter};
use std::collections::BTreeSet;

/// Most keys of one sort that an answer lists.
const MAX_LISTED: usize = 100;

/// Whether a manager has nothing left to do.
#[derive(Debug, Clone)]
pub struct Idle {
    /// Every cluster is Ready, every cache holds what its server holds, and nothing is ready, running, in backoff or
    /// throttled. A delayed requeue does not count.
    pub idle: bool,
    /// Why not, for people.
    pub busy: Vec<String>,
    /// The fewest failures in a row of a key, if nothing but keys in backoff is left to do. `None` also for very many of them.
    pub least_failures: Option<u32>,
    /// Keys that failed and will be tried again.
    pub failing: Vec<KeyStatus>,
    /// Keys that failed for good.
    pub terminal: Vec<KeyStatus>,
    /// Why kinds that controllers watch are watched in no cluster: nothing is left to do, as nothing is seen.
    pub unwatched: Vec<String>,
}

/// Checks everything in the order in which work flows, and then the queue once more: events that a cache received meanwhile are there.
/// The keys of clusters that have failed do not count, nor does the state of these.
pub(super) async fn idle(core: &Core, failed: &BTreeSet<String>) -> Idle {
    let mut clusters = core.fleet.clusters();
    clusters.retain(|cluster| !failed.contains(cluster.name().as_str()));
    let mut busy: Vec<String> = clusters
        .iter()
        .filter_map(|cluster| busy_cluster(cluster))
        .collect();
    let mut in_backoff = busy_queue(core, failed, &mut busy);
    let mut only_backoff = is_only_backoff(in_backoff, &busy);
    if busy.is_empty() || only_backoff {
        busy.clear();
        for cluster in &clusters {
            busy.extend(cluster.sync_check().await);
        }
        in_backoff = busy_queue(core, failed, &mut busy);
        only_backoff = is_only_backoff(in_backoff, &busy);
    }
    let keys = |state: &str| {
        let filter = KeyFilter {
            state: Some(state.into()),
            limit: MAX_LISTED,
            ..KeyFilter::default()
        };
        keys::page(&core.queue, &core.registrations, &core.pauses, &filter, 0).keys
    };
    let counts = |key: &KeyStatus| !failed.contains(key.queued.request.cluster.as_str());
    let (mut terminal, mut failing) = (keys("terminal"), keys("failing"));
    terminal.retain(counts);
    failing.retain(counts);
    failing.retain(|key| !matches!(key.queued.state, KeyState::Terminal(_)));
    let controllers = core.registrations.all().into_iter();
    let unwatched = controllers.flat_map(|registration| {
        let name = registration.controller().name().to_string();
        let kinds = core.watches.running().unwatched(registration.id);
        kinds
            .into_iter()
            .map(move |problem| format!("reconciler {name} watches nothing in {problem}"))
    });
    // The keys were read after the counts: in between, one may have begun to run.
    let in_backoff = only_backoff && failing.len() == in_backoff;
    let waits = |key: &KeyStatus| matches!(key.queued.state, KeyState::Backoff(_));
    let least_failures = if in_backoff && failing.iter().all(waits) {
        failing.iter().map(|key| key.queued.attempts).min()
    } else {
        None
    };
    Idle {
        unwatched: unwatched.take(MAX_LISTED).collect(),
        idle: busy.is_empty(),
        busy,
        least_failures,
        failing,
        terminal,
    }
}

/// Whether keys in backoff are the only reason.
fn is_only_backoff(in_backoff: usize, busy: &[String]) -> bool {
    in_backoff > 0 && busy.len() == 1
}

fn busy_cluster(cluster: &Cluster) -> Option<String> {
    let status = cluster.status();
    (status.state != ClusterState::Ready).then(|| {
        format!(
            "cluster {:?} is {}: {}",
            status.name,
            status.state.as_str(),
            status.reason
        )
    })
}

/// Adds why the queue is not idle, and returns how many keys are in backoff, which is one reason.
fn busy_queue(core: &Core, failed: &BTreeSet<String>, busy: &mut Vec<String>) -> usize {
    let mut counts = core.queue.read(|queue| queue.total_counts());
    for cluster in failed {
        leave_out(core, cluster, &mut counts);
    }
    for (count, state) in [
        (counts.ready, "ready"),
        (counts.running, "running"),
        (counts.backoff, "in backoff"),
        (counts.throttled, "throttled, as they have run too often"),
    ] {
        if count > 0 {
            busy.push(format!("{count} keys are {state}"));
        }
    }
    for registration in core.registrations.all() {
        if !core.watches.running().are_idle(registration.id) {
            let failure = core.watches.running().map_failure(registration.id);
            let why = failure.map(|failure| format!(", which failed for {failure}"));
            busy.push(format!(
                "events of reconciler {} wait for its mapper{}",
                registration.controller().name(),
                why.unwrap_or_default()
            ));
        }
    }
    counts.backoff
}

/// Takes the keys of a cluster out of counts that were read a moment ago.
fn leave_out(core: &Core, cluster: &str, counts: &mut Counts) {
    let Ok(cluster) = ClusterName::new(cluster) else {
        return;
    };
    let filter = QueuedKeyFilter {
        cluster: Some(cluster),
        ..QueuedKeyFilter::default()
    };
    let mut from = Some(0);
    while let Some(next) = from {
        let page = core
            .queue
            .read(|queue| queue.keys(&filter, next, MAX_LISTED));
        from = page.next;
        for key in page.keys {
            let count = match key.state {
                KeyState::Ready(_) | KeyState::Held(_) => &mut counts.ready,
                KeyState::Backoff(_) => &mut counts.backoff,
                KeyState::Throttled(_) => &mut counts.throttled,
                KeyState::Running(_) => &mut counts.running,
                KeyState::Delayed(_) | KeyState::Paused(_) | KeyState::Terminal(_) => continue,
            };
            *count = count.saturating_sub(1);
        }
    }
}
