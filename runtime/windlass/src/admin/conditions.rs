//! The named conditions of readiness. Entry points: [`conditions`] and [`Asked`].
//!
//! An unreachable cluster is not a condition: the other clusters still work, and an unready process would stop their traffic.

use super::{election, shards};
use crate::app::App;
use crate::config::kinds::Origin;
use crate::output::count;
use crate::status::reconcilers::ReconcilerStatus;
use percent_encoding::percent_decode_str;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use windlass_fleet::cluster::{ClusterState, ClusterStatus};

/// After this time a cluster that is not engaged, or a guest that is not loaded, no longer delays readiness.
const START: Duration = Duration::from_secs(30);
/// After this time neither does a Reconciler that served before the start. It is longer than the `progressDeadlineSeconds` of a Deployment,
/// 10 minutes by default: a roll-out is reported as failed before it goes on.
const OUTAGE: Duration = Duration::from_secs(15 * 60);
/// Most names of Reconcilers in a detail.
const NAMED: usize = 3;

/// A named condition.
pub(super) struct Condition {
    pub(super) name: &'static str,
    pub(super) holds: bool,
    /// The reason, for people.
    pub(super) detail: String,
}

/// The query of a readiness request: `?verbose` lists all conditions, `?exclude=NAME` leaves one out and may be repeated.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) verbose: bool,
    pub(super) exclude: BTreeSet<String>,
}

impl Asked {
    /// Reads a query string.
    pub(super) fn read(query: &str) -> Self {
        let mut asked = Self::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "verbose" => asked.verbose = true,
                "exclude" => {
                    let value = percent_decode_str(value).decode_utf8_lossy();
                    asked.exclude.insert(value.into_owned());
                }
                _ => {}
            }
        }
        asked
    }
}

/// Whether all conditions hold, and the text of the answer.
pub(super) fn answer(conditions: &[Condition], asked: &Asked) -> (bool, String) {
    let counted = |condition: &Condition| !asked.exclude.contains(condition.name);
    let ready = conditions
        .iter()
        .all(|condition| condition.holds || !counted(condition));
    if ready && !asked.verbose {
        return (true, "ok\n".to_owned());
    }
    let mut text = String::new();
    for condition in conditions {
        let sign = match condition {
            _ if !counted(condition) => "[ ]",
            Condition { holds: true, .. } => "[+]",
            _ => "[-]",
        };
        let _ = writeln!(text, "{sign} {}: {}", condition.name, condition.detail);
    }
    let known = |name: &&String| conditions.iter().any(|condition| condition.name == **name);
    for unknown in asked.exclude.iter().filter(|name| !known(name)) {
        let _ = writeln!(text, "there is no condition {unknown:?} to exclude");
    }
    text.push_str(if ready { "ready\n" } else { "not ready\n" });
    (ready, text)
}

/// All conditions, in the order in which they become true at the start.
pub(super) fn conditions(app: &App) -> Vec<Condition> {
    // Before the clusters: one that a provider reports in between would be missed otherwise, and the start would count as over.
    let providers = providers(app);
    let clusters = app.manager.clusters();
    let caches = caches(app, providers.holds, &clusters);
    let pressure = app.pressure.load();
    let mut conditions = vec![
        configuration(app),
        providers,
        caches,
        usable_clusters(&clusters),
        reconcilers(app),
        Condition {
            name: "descriptors",
            holds: !pressure.descriptors,
            detail: pressure.describe_descriptors(),
        },
        Condition {
            name: "memory",
            holds: !pressure.memory,
            detail: pressure.describe_memory(),
        },
    ];
    if let Some(status) = app.manager.election() {
        let (holds, detail) = election::verdict(&status);
        conditions.push(Condition {
            name: "election",
            holds,
            detail,
        });
    }
    if let Some(status) = app.manager.shards() {
        let (holds, detail) = shards::verdict(&status);
        conditions.push(Condition {
            name: "shards",
            holds,
            detail,
        });
    }
    conditions
}

/// There is always a configuration: without one the process does not start, and later errors keep the last good version in effect.
fn configuration(app: &App) -> Condition {
    let documents = app.configuration.load().documents().len() as u64;
    let mut detail = format!("{} in effect", count(documents, "document"));
    let problems = app.all_problems();
    if let Some(first) = problems.first() {
        let _ = write!(
            detail,
            ", {}; the first: {first}",
            count(problems.len() as u64, "problem")
        );
    }
    let waiting = app.needs_restart.load();
    if !waiting.is_empty() {
        let _ = write!(detail, ", a restart is needed for {}", waiting.join(", "));
    }
    Condition {
        name: "configuration",
        holds: true,
        detail,
    }
}

fn providers(app: &App) -> Condition {
    let providers = app.manager.providers();
    let waiting: Vec<&str> = providers
        .iter()
        .filter(|provider| provider.last_listed.is_none() && provider.problems.is_empty())
        .map(|provider| provider.name.as_str())
        .collect();
    let detail = if waiting.is_empty() {
        format!(
            "{} has reported its clusters, or an error",
            count(providers.len() as u64, "provider")
        )
    } else {
        format!("clusters not reported yet: {}", waiting.join(", "))
    };
    Condition {
        name: "providers",
        holds: waiting.is_empty(),
        detail,
    }
}

/// Whether the clusters of the start are engaged: clusters that join later do not make the process unready.
fn caches(app: &App, are_reported: bool, clusters: &[ClusterStatus]) -> Condition {
    let now = SystemTime::now();
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let waiting = clusters.iter().filter(|cluster| {
        let coming = matches!(
            cluster.state,
            ClusterState::Connecting | ClusterState::Syncing
        );
        coming && now.saturating_sub(cluster.since) < START.as_secs()
    });
    let waiting = waiting.count();
    if waiting == 0 && are_reported {
        app.synced.store(true, Ordering::Release);
    }
    let synced = app.synced.load(Ordering::Acquire);
    let detail = match (synced, waiting) {
        (true, _) => "filled at the start".to_owned(),
        (false, _) => format!(
            "{} to be brought in, {} s at most for each",
            count(waiting as u64, "cluster"),
            START.as_secs()
        ),
    };
    Condition {
        name: "caches",
        holds: synced,
        detail,
    }
}

fn usable_clusters(clusters: &[ClusterStatus]) -> Condition {
    // One reconciler's watch that is rejected everywhere must not make the whole process unready.
    let usable = clusters.iter().filter(|cluster| cluster.usable).count();
    Condition {
        name: "clusters",
        holds: clusters.is_empty() || usable > 0,
        detail: format!("{usable} of {} can be worked with", clusters.len()),
    }
}

/// Whether a reconciler serves if files have any, and the guests of the start are loaded: guests that are loaded later do not make the
/// process unready. Nor does an object of the local cluster: a team's mistake must not take a pod of the operator out of service.
/// But a start waits for the Reconcilers that served before: else a roll-out while a registry is down would replace pods that serve by pods
/// that serve nothing.
fn reconcilers(app: &App) -> Condition {
    let entries = app.statuses.all();
    let serving = entries
        .values()
        .filter(|entry| entry.revision.is_some())
        .count();
    let stale = entries
        .values()
        .filter(|entry| entry.problem.is_some())
        .count();
    let loading = entries
        .values()
        .filter(|entry| entry.loading.is_some())
        .count();
    let configuration = app.configuration.load();
    let in_files = configuration.reconcilers();
    let in_files = in_files.filter(|(document, _)| document.origin == Origin::File);
    let in_files: Vec<&str> = in_files
        .map(|(document, _)| document.identity.name.as_str())
        .collect();
    let awaited = app.awaited.load_full();
    let of_cluster = awaited.iter().flat_map(|names| names.iter());
    let mut coming = in_files.clone();
    coming.extend(of_cluster.map(String::as_str));
    coming.retain(|name| entries.get(*name).is_none_or(is_coming));
    let elapsed = app.started.elapsed();
    let is_starting = (loading > 0 || awaited.is_none()) && elapsed < START;
    if !is_starting && (coming.is_empty() || elapsed >= OUTAGE) {
        app.loaded.store(true, Ordering::Release);
    }
    let is_loaded = app.loaded.load(Ordering::Acquire);
    let mut detail = format!(
        "{serving} of {} serve, {stale} are not as their document asks",
        entries.len()
    );
    if loading > 0 {
        let _ = write!(detail, ", {loading} are being loaded");
    }
    if !is_loaded && awaited.is_none() {
        detail.push_str(", the objects of the local cluster have not been read");
    }
    if !is_loaded && !coming.is_empty() {
        let names = coming[..coming.len().min(NAMED)].join(", ");
        let (number, minutes) = (coming.len(), OUTAGE.as_secs() / 60);
        let _ = write!(
            detail,
            ", {number} are waited for until {minutes} min after the start: {names}"
        );
    }
    Condition {
        name: "reconcilers",
        holds: (serving > 0 || in_files.is_empty()) && is_loaded,
        detail,
    }
}

/// Whether nothing serves yet, and neither the document nor the guest is at fault.
fn is_coming(entry: &ReconcilerStatus) -> bool {
    entry.revision.is_none() && (entry.loading.is_some() || entry.may_pass)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(name: &'static str, holds: bool) -> Condition {
        Condition {
            name,
            holds,
            detail: "because".to_owned(),
        }
    }

    #[test]
    fn what_does_not_hold_is_told_without_being_asked_for() {
        let all = [condition("a", true), condition("b", false)];
        let (ready, text) = answer(&all, &Asked::default());
        assert!(!ready);
        assert_eq!(text, "[+] a: because\n[-] b: because\nnot ready\n");
        let (ready, text) = answer(&all[..1], &Asked::default());
        assert_eq!((ready, text.as_str()), (true, "ok\n"));
    }

    #[test]
    fn a_condition_can_be_left_out_and_all_can_be_listed() {
        let all = [condition("a", true), condition("b", false)];
        let asked = Asked::read("verbose&exclude=b&exclude=no%20such&other=1");
        let (ready, text) = answer(&all, &asked);
        assert!(ready);
        assert_eq!(
            text,
            "[+] a: because\n[ ] b: because\nthere is no condition \"no such\" to exclude\nready\n"
        );
    }
}
