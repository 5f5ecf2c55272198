//! Waits until nothing is left to do, and reports what was done. Entry point: [`wait`].

use super::{Expected, StandIns};
use crate::admin::state;
use crate::app::App;
use crate::cli::Format;
use crate::guests::{Lack, lacks};
use crate::output::{Cell, Table, Tone, count};
use crate::status::tables::{cluster_name, keys};
use crate::status::view::KeyView;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use windlass_fleet::Cluster;
use windlass_fleet::cluster::ClusterState;
use windlass_fleet::manager::KeyFilter;

/// How often the manager is asked, usually.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// How many times in a row the manager must be idle, usually. A write may cause an event a moment later.
pub(super) const STEADY: u32 = 3;

/// The longest time in which guests are loaded that does not count: there may be many, and the file of one may be on a server that is gone.
const LOADING: Duration = Duration::from_secs(15 * 60);

/// How a run ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Whether the manager was idle in time, no key has failed, every document is in effect, and every kind is watched somewhere.
    pub(crate) done: bool,
    /// How long the run took.
    pub(crate) seconds: f64,
    /// What was done, by cluster.
    pub(crate) clusters: Vec<ClusterReport>,
    /// Keys whose last run failed.
    pub(crate) failing: Vec<KeyView>,
    /// What was left to do when the time was up.
    pub(crate) busy: Vec<String>,
    /// Why the documents are not fully in effect, and which kinds are watched in no cluster.
    pub(crate) problems: Vec<String>,
    /// What was denied to reconcilers.
    pub(crate) denied: Vec<Lack>,
    /// What is wrong with Providers and their clusters.
    #[serde(skip)]
    pub(crate) of_providers: Vec<String>,
    /// How many keys asked for a later run, by reconciler.
    #[serde(skip)]
    pub(crate) later: BTreeMap<String, usize>,
}

/// What was done in one cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterReport {
    /// Its name; empty for the local one.
    pub(crate) name: String,
    /// Its state.
    pub(crate) state: String,
    /// Reconciles that ended.
    pub(crate) attempts: u64,
    /// Reconciles that succeeded.
    pub(crate) succeeded: u64,
    /// Reconciles that failed.
    pub(crate) failed: u64,
    /// Changes that the cluster stored; known only of in-memory clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<u64>,
    /// Objects in the caches.
    pub(crate) objects: u64,
}

/// How long a wait lasts if the manager does not become idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Without the time in which guests are loaded, up to [`LOADING`]: it depends on the machine.
    pub(crate) timeout: Duration,
    /// Until only keys are left that have failed so often in a row; none: until the timeout.
    pub(crate) failures: Option<u32>,
    /// How often the manager is asked.
    pub(crate) interval: Duration,
    /// How many times in a row it must be idle.
    pub(crate) times: u32,
}

impl Patience {
    /// Whether only keys are left that have failed too often.
    fn is_used_up(self, least_failures: Option<u32>) -> bool {
        let failed = self.failures.zip(least_failures);
        failed.is_some_and(|(most, least)| least >= most)
    }
}

/// Waits until the manager is idle and all in-memory clusters are engaged, or until patience ends.
///
/// `may_be_empty`: it may be that no cluster takes part.
pub(crate) async fn wait(
    app: &App,
    simulated: Option<&StandIns>,
    may_be_empty: bool,
    patience: Patience,
) -> Report {
    let start = Instant::now();
    let expected = || {
        simulated
            .map(|simulated| (simulated.expected)())
            .unwrap_or_default()
    };
    let (mut steady, mut hopeless) = (0, 0);
    let mut waited = Waited::since(start);
    loop {
        let snapshot = snapshot(app, &expected(), may_be_empty).await;
        waited.until(Instant::now(), snapshot.loading);
        steady = if snapshot.busy.is_empty() {
            steady + 1
        } else {
            0
        };
        hopeless = if patience.is_used_up(snapshot.least_failures) {
            hopeless + 1
        } else {
            0
        };
        let is_over = waited.time >= patience.timeout || waited.loading >= LOADING;
        if steady.max(hopeless) >= patience.times || is_over {
            return report(app, simulated, start.elapsed(), snapshot);
        }
        sleep(patience.interval).await;
    }
}

/// The part of a wait that counts.
struct Waited {
    time: Duration,
    /// The rest.
    loading: Duration,
    /// Up to when it is known what counts.
    seen: Instant,
}

impl Waited {
    fn since(start: Instant) -> Self {
        Self {
            time: Duration::ZERO,
            loading: Duration::ZERO,
            seen: start,
        }
    }

    /// Adds what has passed. `loading`: a guest was loaded.
    fn until(&mut self, now: Instant, loading: bool) {
        let passed = now.duration_since(self.seen);
        if loading {
            self.loading += passed
        } else {
            self.time += passed
        }
        self.seen = now;
    }
}

/// The manager at one moment.
struct Snapshot {
    /// Whether a guest is being loaded.
    loading: bool,
    /// Why the manager is not idle, for people.
    busy: Vec<String>,
    failing: Vec<KeyView>,
    /// The fewest failures in a row of a key, if nothing else is left to do.
    least_failures: Option<u32>,
    /// Kinds that are watched nowhere.
    unwatched: Vec<String>,
}

async fn snapshot(app: &App, expected: &Expected, may_be_empty: bool) -> Snapshot {
    let idle = app.manager.idle_but(&expected.failed).await;
    let engaged = app.manager.fleet().clusters();
    let mut busy = differences(&engaged, expected);
    let providers = app.manager.providers().into_iter();
    let reading = providers.filter(|provider| provider.last_listed.is_none());
    busy.extend(reading.map(|provider| {
        format!(
            "provider {} has not engaged its clusters yet",
            provider.name
        )
    }));
    if engaged.is_empty() && busy.is_empty() && !may_be_empty {
        busy.push("no cluster is engaged yet".to_owned());
    }
    if app.awaited.load().is_none() {
        busy.push("the objects of the local cluster have not been read yet".to_owned());
    }
    let loading = app.statuses.all().into_iter();
    let loading = loading.filter(|(_, entry)| entry.loading.is_some());
    let loading: Vec<String> = loading.map(|(name, _)| name).collect();
    busy.extend(
        loading
            .iter()
            .map(|name| format!("reconciler {name} is being loaded")),
    );
    let least_failures = idle.least_failures.filter(|_| busy.is_empty());
    busy.extend(idle.busy);
    if !idle.idle && busy.is_empty() {
        busy.push("the manager is busy".to_owned());
    }
    let failing = idle
        .failing
        .into_iter()
        .chain(idle.terminal)
        .map(state::key_view)
        .collect();
    Snapshot {
        loading: !loading.is_empty(),
        busy,
        failing,
        least_failures,
        unwatched: idle.unwatched,
    }
}

/// Where the fleet is not as it has to be.
fn differences(engaged: &[Arc<Cluster>], expected: &Expected) -> Vec<String> {
    let engaged: BTreeMap<&str, &Arc<Cluster>> = engaged
        .iter()
        .map(|cluster| (cluster.name().as_str(), cluster))
        .collect();
    let mut all = Vec::new();
    for (name, labels) in &expected.there {
        match engaged.get(name.as_str()) {
            None => all.push(format!("cluster {name} is not engaged yet")),
            Some(cluster) if cluster.labels().to_map() != *labels => {
                all.push(format!("cluster {name} does not have its labels yet"));
            }
            Some(cluster)
                if expected.failed.contains(name) && cluster.state() == ClusterState::Ready =>
            {
                all.push(format!("cluster {name} is not known to fail yet"));
            }
            Some(_) => {}
        }
    }
    let leaving = expected
        .gone
        .iter()
        .filter(|name| engaged.contains_key(name.as_str()));
    all.extend(leaving.map(|name| format!("cluster {name} has not left yet")));
    all
}

fn report(
    app: &App,
    simulated: Option<&StandIns>,
    elapsed: Duration,
    snapshot: Snapshot,
) -> Report {
    let attempts = app.manager.attempts_by_cluster();
    let clusters = state::clusters(app).items.into_iter().map(|cluster| {
        let counts = attempts.get(cluster.name.as_str()).copied();
        let counts = counts.unwrap_or_default();
        ClusterReport {
            attempts: counts.all(),
            succeeded: counts.succeeded,
            failed: counts.failed,
            changes: simulated.and_then(|simulated| (simulated.changes)(&cluster.name)),
            name: cluster.name,
            state: cluster.state,
            objects: cluster.objects,
        }
    });
    let clusters = clusters.collect();
    let Snapshot {
        busy,
        failing,
        unwatched,
        ..
    } = snapshot;
    let problems = [app.all_problems(), unwatched].concat();
    let reconcilers = app.statuses.all().into_keys();
    let denied = reconcilers.filter_map(|reconciler| {
        let guest = app.guest_registry.guest(&reconciler)?;
        let rules = guest.status().missing_rules;
        (!rules.is_empty()).then_some(Lack { reconciler, rules })
    });
    let denied = denied.collect();
    let done = busy.is_empty() && failing.is_empty() && problems.is_empty();
    let delayed = app.manager.keys(&KeyFilter {
        state: Some("delayed".to_owned()),
        ..KeyFilter::default()
    });
    let mut later = BTreeMap::new();
    for key in delayed {
        *later.entry(key.controller.to_string()).or_default() += 1;
    }
    let of_providers = app.manager.provider_problems().into_iter();
    let of_providers =
        of_providers.map(|problem| format!("{}: {}", problem.subject, problem.message));
    Report {
        of_providers: of_providers.collect(),
        later,
        done,
        seconds: elapsed.as_secs_f64(),
        clusters,
        failing,
        busy,
        problems,
        denied,
    }
}

impl Report {
    /// Prints it.
    ///
    /// # Errors
    /// When it cannot be turned into JSON.
    pub(crate) fn print(&self, format: Format) -> serde_json::Result<()> {
        match format {
            Format::Json => anstream::println!("{}", serde_json::to_string_pretty(self)?),
            Format::Text | Format::Wide | Format::Markdown => self.print_text(),
        }
        Ok(())
    }

    fn print_text(&self) {
        let mut table = Table::new(&[
            "CLUSTER",
            "STATE",
            "RECONCILES",
            "SUCCEEDED",
            "FAILED",
            "CHANGES",
            "OBJECTS",
        ]);
        for cluster in &self.clusters {
            let tone = if cluster.state == "Ready" {
                Tone::Good
            } else {
                Tone::Bad
            };
            table.row([
                Cell::text(cluster_name(&cluster.name)),
                Cell::toned(&cluster.state, tone),
                Cell::number(cluster.attempts),
                Cell::number(cluster.succeeded),
                Cell::bad_number(cluster.failed),
                Cell::number(
                    cluster
                        .changes
                        .map_or("-".to_owned(), |changes| changes.to_string()),
                ),
                Cell::number(cluster.objects),
            ]);
        }
        anstream::println!("\n{table}");
        let clusters = count(self.clusters.len() as u64, "cluster");
        if self.done {
            anstream::println!(
                "{} in {clusters} after {:.1} s: nothing is left to do",
                Tone::Good.paint("done"),
                self.seconds
            );
            return;
        }
        anstream::println!(
            "{} in {clusters} after {:.1} s",
            Tone::Bad.paint("not done"),
            self.seconds
        );
        for reason in self.busy.iter().chain(&self.problems) {
            anstream::println!("  {reason}");
        }
        if !self.failing.is_empty() {
            anstream::println!("\n{}", keys(&self.failing, false));
        }
        anstream::print!("{}", lacks(&self.denied));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_a_guest_is_loaded_does_not_count() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut waited = Waited::since(start);
        waited.until(after(2), false);
        waited.until(after(90), true);
        waited.until(after(93), false);
        assert_eq!(waited.time, Duration::from_secs(5));
        assert_eq!(waited.loading, Duration::from_secs(88));
    }

    #[test]
    fn patience_is_used_up_once_every_key_has_failed_too_often() {
        let patience = Patience {
            timeout: Duration::from_secs(60),
            failures: Some(10),
            interval: INTERVAL,
            times: STEADY,
        };
        assert!(!patience.is_used_up(None) && !patience.is_used_up(Some(9)));
        assert!(patience.is_used_up(Some(10)));
        let endless = Patience {
            failures: None,
            ..patience
        };
        assert!(!endless.is_used_up(Some(1000)));
    }
}
