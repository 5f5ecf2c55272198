//! One list of what the processes of a sharded fleet answer, each about its own clusters. Entry points: one function for each list.

use crate::status::view::{ClusterView, KeyView, ReconcilerView, RecordingView, TenantView};
use std::collections::BTreeMap;

/// Clusters, sorted, as the process that works on each sees it. Entries that a provider cannot use are the same for all.
pub(super) fn clusters(all: Vec<ClusterView>) -> Vec<ClusterView> {
    let name = |view: &ClusterView| (view.name.clone(), view.state == ClusterView::UNUSABLE);
    join(all, name, |one, other| {
        if other.is_own {
            *one = other;
        }
    })
}

/// Reconcilers: their counts are added.
pub(super) fn reconcilers(all: Vec<ReconcilerView>) -> Vec<ReconcilerView> {
    join(all, |view| (view.tenant.clone(), view.name.clone()), add)
}

/// Tenants: what they use is added, and so are the limits that hold for each process.
pub(super) fn tenants(all: Vec<TenantView>) -> Vec<TenantView> {
    join(all, |view| view.name.clone(), add_tenant)
}

/// Keys, sorted. Two processes may hold those of a cluster that passes on.
pub(super) fn keys(all: Vec<KeyView>) -> Vec<KeyView> {
    let name = |view: &KeyView| {
        let (key, reconciler) = (view.key.clone(), view.reconciler.clone());
        (key, view.tenant.clone(), reconciler)
    };
    join(all, name, |one, other| {
        if one.state == "held" {
            *one = other;
        }
    })
}

/// Recordings, the oldest first.
pub(super) fn recordings(mut all: Vec<RecordingView>) -> Vec<RecordingView> {
    all.sort_by(|one, other| one.time.cmp(&other.time));
    all
}

/// The views by their names, those of one name in one.
fn join<T, N: Ord>(all: Vec<T>, name: impl Fn(&T) -> N, add: impl Fn(&mut T, T)) -> Vec<T> {
    let mut by_name: BTreeMap<N, T> = BTreeMap::new();
    for view in all {
        let name = name(&view);
        match by_name.get_mut(&name) {
            Some(one) => add(one, view),
            None => drop(by_name.insert(name, view)),
        }
    }
    by_name.into_values().collect()
}

fn add(one: &mut ReconcilerView, other: ReconcilerView) {
    if one.problem.is_empty() {
        one.problem = other.problem;
    }
    if one.problem.is_empty() && one.revision != other.revision {
        one.problem = "not all processes serve the same revision".to_owned();
    }
    one.serves &= other.serves;
    one.rolled_back |= other.rolled_back;
    one.loading |= other.loading;
    one.loading_seconds = one.loading_seconds.max(other.loading_seconds);
    one.serves_seconds = one.serves_seconds.min(other.serves_seconds);
    one.clusters += other.clusters;
    one.ready += other.ready;
    one.running += other.running;
    one.delayed += other.delayed;
    one.backoff += other.backoff;
    one.paused_keys += other.paused_keys;
    one.terminal += other.terminal;
    one.attempts += other.attempts;
    one.succeeded += other.succeeded;
    one.failed += other.failed;
    one.usage.add(&other.usage);
    for (text, more) in [
        (&mut one.paused, other.paused),
        (&mut one.last_error, other.last_error),
        (&mut one.previous, other.previous),
    ] {
        if text.is_empty() {
            *text = more;
        }
    }
    for (lines, more) in [
        (&mut one.watch_problems, other.watch_problems),
        (&mut one.missing_rules, other.missing_rules),
    ] {
        lines.extend(more);
        lines.sort_unstable();
        lines.dedup();
    }
    if one.reload.as_ref().is_none_or(|reload| reload.in_effect) {
        one.reload = other.reload.or(one.reload.take());
    }
}

fn add_tenant(one: &mut TenantView, other: TenantView) {
    // Concurrency is for all processes together, and each says the whole.
    one.cpu = one.cpu.zip(other.cpu).map(|(one, other)| one + other);
    one.memory += other.memory;
    one.memory_used += other.memory_used;
    one.requests_in_flight += other.requests_in_flight;
    one.usage.add(&other.usage);
    one.reconcilers = one.reconcilers.max(other.reconcilers);
    one.running += other.running;
    one.attempts += other.attempts;
    one.failed += other.failed;
    if one.paused.is_empty() {
        one.paused = other.paused;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reconciler(name: &str, revision: &str, attempts: u64) -> ReconcilerView {
        ReconcilerView {
            name: name.to_owned(),
            serves: true,
            revision: revision.to_owned(),
            attempts,
            clusters: 2,
            ..ReconcilerView::default()
        }
    }

    #[test]
    fn counts_of_a_reconciler_are_added_and_what_differs_is_told() {
        let all = vec![
            reconciler("b", "r1", 5),
            reconciler("a", "r1", 1),
            reconciler("b", "r1", 7),
            reconciler("a", "r2", 1),
        ];
        let merged = reconcilers(all);
        let rows = merged.iter().map(|view| {
            let name = view.name.as_str();
            (name, view.attempts, view.clusters, view.problem.as_str())
        });
        let rows: Vec<_> = rows.collect();
        let differ = "not all processes serve the same revision";
        assert_eq!(rows, [("a", 2, 4, differ), ("b", 12, 4, "")]);
    }

    #[test]
    fn a_cluster_is_as_its_owner_sees_it_and_limits_for_all_processes_stand_once() {
        let cluster = |objects: u64, is_own: bool| ClusterView {
            name: "a".to_owned(),
            objects,
            is_own,
            ..ClusterView::default()
        };
        for all in [
            vec![cluster(0, false), cluster(7, true)],
            vec![cluster(7, true), cluster(0, false)],
        ] {
            let merged = clusters(all);
            assert_eq!((merged.len(), merged[0].objects), (1, 7));
        }
        let tenant = || TenantView {
            name: "a".to_owned(),
            concurrency: Some(10),
            memory: 5,
            ..TenantView::default()
        };
        let merged = tenants(vec![tenant(), tenant()]);
        assert_eq!((merged[0].concurrency, merged[0].memory), (Some(10), 10));
    }

    #[test]
    fn a_key_that_each_process_holds_is_one_and_its_owner_knows_it_best() {
        let key = |key: &str, state: &str| KeyView {
            key: key.to_owned(),
            state: state.to_owned(),
            ..KeyView::default()
        };
        let all = vec![key("b", "held"), key("a", "held"), key("b", "running")];
        let merged = keys(all);
        let rows = merged.iter().map(|view| (&*view.key, &*view.state));
        assert_eq!(rows.collect::<Vec<_>>(), [("a", "held"), ("b", "running")]);
    }
}
