//! Every metric, in the order in which a scrape lists them. Entry point: [`Exposition`].

mod buffers;
mod providers;

use super::cluster::ClusterMetrics;
use super::controller::{Attempts, ControllerMetrics};
use super::{ClusterNow, LeaseNow, Metrics, ShardsNow, Snapshot};
use crate::queue::{Counts, Totals};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// States that are shown even if no cluster is in them.
const STATES: [&str; 4] = ["Connecting", "Syncing", "Ready", "Degraded"];

/// A family: its name, its help, and how a value is read.
type Read<T, V> = (&'static str, &'static str, fn(&T) -> V);
/// A family: its name, its help, and its counter.
type Counted<T> = (&'static str, &'static str, fn(&T) -> &AtomicU64);

/// The collector that the registry calls.
#[derive(Debug)]
pub(super) struct Exposition(pub(super) Metrics);

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let inner = &self.0.inner;
        let mut writer = Writer(encoder);
        let controllers: Vec<_> = inner.controllers.read().values().cloned().collect();
        let clusters = {
            let clusters = inner.clusters.lock();
            let labelled = clusters.labelled.values().map(|(cluster, _)| cluster);
            let mut all: Vec<_> = labelled.cloned().collect();
            all.extend(clusters.overflowed.then(|| clusters.other.clone()));
            all
        };
        let observed: Vec<_> = inner
            .observed
            .lock()
            .iter()
            .filter_map(std::sync::Weak::upgrade)
            .collect();
        let mut now = Snapshot::default();
        for manager in observed {
            let seen = manager.observe();
            now.controllers.extend(seen.controllers);
            now.clusters.extend(seen.clusters);
            now.providers.extend(seen.providers);
            now.leases.extend(seen.leases);
            now.shards.extend(seen.shards);
            now.answers.extend(seen.answers);
        }
        attempts(&mut writer, &controllers)?;
        workers(&mut writer, &now)?;
        work_queue(&mut writer, &controllers, &now)?;
        buffers::events(&mut writer, &controllers, &now)?;
        buffers::answers(&mut writer, &now)?;
        leases(&mut writer, &now)?;
        shards(&mut writer, &now)?;
        fleet(&mut writer, &now)?;
        providers::write(&mut writer, &now)?;
        servers(&mut writer, &clusters)
    }
}

type Controller<'a> = [(&'static str, &'a str); 3];

/// controller-runtime's label, and ours.
fn of(controller: &ControllerMetrics) -> Controller<'_> {
    [
        ("controller", controller.name.as_str()),
        ("tenant", controller.tenant.as_str()),
        ("reconciler", controller.name.as_str()),
    ]
}

/// The labels of the work queue's metrics.
fn queue_of(controller: &ControllerMetrics) -> [(&'static str, &str); 4] {
    let [controller, tenant, reconciler] = of(controller);
    [("name", controller.1), controller, tenant, reconciler]
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn attempts(writer: &mut Writer<'_>, controllers: &[Arc<ControllerMetrics>]) -> fmt::Result {
    let pairs: Vec<(&ControllerMetrics, Arc<Attempts>)> = controllers
        .iter()
        .flat_map(|controller| {
            let by_cluster = controller.by_cluster().into_iter();
            by_cluster.map(move |attempts| (&**controller, attempts))
        })
        .collect();
    let results = pairs.iter().flat_map(|(controller, attempts)| {
        let [c, tenant, reconciler] = of(controller);
        [
            ("success", &attempts.success),
            ("requeue_after", &attempts.requeue_after),
            ("error", &attempts.errors),
        ]
        .map(|(result, count)| {
            let cluster = ("cluster", &*attempts.cluster);
            (
                [c, tenant, reconciler, cluster, ("result", result)],
                get(count),
            )
        })
    });
    writer.counters(
        "controller_runtime_reconcile",
        "Attempts that ended, by result; terminal ones are errors too.",
        results,
    )?;
    let families: [Counted<Attempts>; 4] = [
        (
            "controller_runtime_reconcile_errors",
            "Attempts that failed.",
            |attempts| &attempts.errors,
        ),
        (
            "controller_runtime_terminal_reconcile_errors",
            "Attempts that failed for good: they wait for an event.",
            |attempts| &attempts.terminal,
        ),
        (
            "controller_runtime_reconcile_panics",
            "Attempts that panicked in the host.",
            |attempts| &attempts.panics,
        ),
        (
            "controller_runtime_reconcile_timeouts",
            "Attempts cut off at their deadline.",
            |attempts| &attempts.timeouts,
        ),
    ];
    for (name, help, count) in families {
        let series = pairs.iter().map(|(controller, attempts)| {
            let [c, tenant, reconciler] = of(controller);
            let cluster = ("cluster", &*attempts.cluster);
            ([c, tenant, reconciler, cluster], get(count(attempts)))
        });
        writer.counters(name, help, series)?;
    }
    let failures = controllers.iter().flat_map(|controller| {
        let [c, tenant, reconciler] = of(controller);
        let failures = controller.failures().into_iter();
        failures.map(move |(blame, reason, count)| {
            let why = [("blame", blame), ("reason", reason)];
            ([c, tenant, reconciler, why[0], why[1]], count)
        })
    });
    writer.counters(
        "windlass_reconcile_failures",
        "Attempts that failed, by whose fault it is and why: the limits that were hit are among the reasons.",
        failures,
    )?;
    writer.histograms(
        "controller_runtime_reconcile_time_seconds",
        "Time of an attempt.",
        controllers.iter().map(|c| (of(c), &c.times)),
    )
}

fn workers(writer: &mut Writer<'_>, now: &Snapshot) -> fmt::Result {
    writer.gauges(
        "controller_runtime_max_concurrent_reconciles",
        "Attempts that may run at once.",
        now.controllers
            .iter()
            .map(|c| (of(&c.metrics), c.concurrency as f64)),
    )?;
    writer.gauges(
        "controller_runtime_active_workers",
        "Attempts that run now, also those that wait.",
        now.controllers
            .iter()
            .map(|c| (of(&c.metrics), c.counts.running as f64)),
    )
}

fn work_queue(
    writer: &mut Writer<'_>,
    controllers: &[Arc<ControllerMetrics>],
    now: &Snapshot,
) -> fmt::Result {
    let depths = now.controllers.iter().flat_map(|c| {
        let [name, controller, tenant, reconciler] = queue_of(&c.metrics);
        let low = c.counts.ready_low;
        [("0", c.counts.ready - low), ("-100", low)].map(|(priority, count)| {
            let priority = ("priority", priority);
            (
                [name, controller, tenant, reconciler, priority],
                count as f64,
            )
        })
    });
    writer.gauges(
        "workqueue_depth",
        "Requests that are ready to run; those below priority 0 as -100.",
        depths,
    )?;
    let totals: [Read<Totals, u64>; 5] = [
        (
            "workqueue_adds",
            "Requests added, merged ones included.",
            |t| t.adds,
        ),
        (
            "workqueue_retries",
            "Attempts that ended in a retry.",
            |t| t.retries,
        ),
        (
            "windlass_queue_refused",
            "Requests refused because the reconciler had too many keys; its sources offer them again.",
            |t| t.refused,
        ),
        (
            "windlass_queue_storms",
            "Attempts that were delayed because their key ran too often.",
            |t| t.throttled,
        ),
        (
            "windlass_queue_forgotten",
            "Failures, and terminal keys, that status does not show because there are too many.",
            |t| t.forgotten,
        ),
    ];
    for (name, help, total) in totals {
        let series = now.controllers.iter();
        writer.counters(
            name,
            help,
            series.map(|c| (queue_of(&c.metrics), total(&c.totals))),
        )?;
    }
    let waiting: [Read<Counts, usize>; 5] = [
        (
            "windlass_queue_delayed",
            "Keys that wait for a time that was asked for.",
            |c| c.delayed,
        ),
        (
            "windlass_queue_backoff",
            "Keys that failed and run again later.",
            |c| c.backoff,
        ),
        (
            "windlass_queue_throttled",
            "Keys that wait because they have run too often lately.",
            |c| c.throttled,
        ),
        ("windlass_queue_paused", "Keys that a pause holds.", |c| {
            c.paused
        }),
        (
            "windlass_queue_terminal",
            "Keys that failed for good and wait for an event.",
            |c| c.terminal,
        ),
    ];
    for (name, help, count) in waiting {
        let series = now.controllers.iter();
        writer.gauges(
            name,
            help,
            series.map(|c| (queue_of(&c.metrics), count(&c.counts) as f64)),
        )?;
    }
    let series = now.controllers.iter();
    writer.gauges(
        "windlass_watches_failing",
        "Watches that their servers refuse or fail: their events are not reconciled.",
        series.map(|c| (queue_of(&c.metrics), c.failing_watches as f64)),
    )?;
    writer.gauges(
        "workqueue_unfinished_work_seconds",
        "How long the attempts that run now have run, all together.",
        now.controllers.iter().map(|c| {
            let sum: Duration = c.running.iter().sum();
            (queue_of(&c.metrics), sum.as_secs_f64())
        }),
    )?;
    writer.gauges(
        "workqueue_longest_running_processor_seconds",
        "How long the attempt that runs longest has run.",
        now.controllers.iter().map(|c| {
            let longest = c.running.iter().max().copied().unwrap_or_default();
            (queue_of(&c.metrics), longest.as_secs_f64())
        }),
    )?;
    writer.histograms(
        "workqueue_queue_duration_seconds",
        "How long a request was ready before it ran.",
        controllers.iter().map(|c| (queue_of(c), &c.waited)),
    )?;
    writer.histograms(
        "workqueue_work_duration_seconds",
        "How long an attempt held its slot.",
        controllers.iter().map(|c| (queue_of(c), &c.worked)),
    )
}

fn leases(writer: &mut Writer<'_>, now: &Snapshot) -> fmt::Result {
    let name = |lease: &LeaseNow| [("name", lease.name.clone())];
    writer.gauges(
        "leader_election_master_status",
        "Whether this process holds the lease.",
        now.leases
            .iter()
            .map(|lease| (name(lease), f64::from(u8::from(lease.leads)))),
    )?;
    writer.counters(
        "leader_election_slowpath",
        "Renewals that had to read the lease first.",
        now.leases
            .iter()
            .map(|lease| (name(lease), lease.slow_renewals)),
    )
}

fn shards(writer: &mut Writer<'_>, now: &Snapshot) -> fmt::Result {
    let name = |shards: &ShardsNow| [("name", shards.name.clone())];
    let all = || now.shards.iter();
    writer.gauges(
        "windlass_shards_held",
        "Shards of the clusters whose keys this process runs.",
        all().map(|shards| (name(shards), f64::from(shards.held))),
    )?;
    writer.gauges(
        "windlass_shards_without_owner",
        "Shards that no living process holds, as far as this one knows.",
        all().map(|shards| (name(shards), f64::from(shards.ownerless))),
    )?;
    writer.counters(
        "windlass_shard_moves",
        "Shards that this process has taken or given away.",
        all().map(|shards| (name(shards), shards.moves)),
    )
}

fn fleet(writer: &mut Writer<'_>, now: &Snapshot) -> fmt::Result {
    let mut states: BTreeMap<&str, usize> = STATES.into_iter().map(|state| (state, 0)).collect();
    for cluster in &now.clusters {
        *states.entry(cluster.state).or_default() += 1;
    }
    writer.gauges(
        "windlass_clusters",
        "Engaged clusters by state.",
        states
            .iter()
            .map(|(state, count)| ([("state", *state)], *count as f64)),
    )?;
    let unlabelled = now.clusters.iter();
    let unlabelled = unlabelled.filter(|c| c.metrics.id == ClusterMetrics::OTHER_ID);
    writer.gauge(
        "windlass_clusters_without_series",
        "Engaged clusters that are counted together because there are too many.",
        unlabelled.count() as f64,
    )?;
    let gauges: [Read<ClusterNow, usize>; 5] = [
        (
            "windlass_cluster_ready",
            "Whether the cluster is Ready.",
            |c| usize::from(c.ready),
        ),
        ("windlass_cluster_caches", "Caches of the cluster.", |c| {
            c.stores
        }),
        (
            "windlass_cluster_connections",
            "Open connections to its server; shared ones count for each cluster.",
            |c| c.connections,
        ),
        ("windlass_cluster_objects", "Objects in its caches.", |c| {
            c.objects
        }),
        ("windlass_cluster_bytes", "Bytes of their texts.", |c| {
            c.bytes
        }),
    ];
    for (name, help, value) in gauges {
        writer.gauges(
            name,
            help,
            summed(now, |c| value(c) as u64)
                .iter()
                .map(|(cluster, sum)| ([("cluster", *cluster)], *sum as f64)),
        )?;
    }
    writer.counters(
        "windlass_events_dropped",
        "Events about objects that were refused or too many to record.",
        summed(now, |c| c.events_dropped)
            .iter()
            .map(|(cluster, sum)| ([("cluster", *cluster)], *sum)),
    )
}

/// One value per `cluster` label, however many clusters share it.
fn summed(now: &Snapshot, value: impl Fn(&ClusterNow) -> u64) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    for cluster in &now.clusters {
        *sums.entry(&*cluster.metrics.cluster).or_default() += value(cluster);
    }
    sums
}

fn servers(writer: &mut Writer<'_>, clusters: &[Arc<ClusterMetrics>]) -> fmt::Result {
    let requests: Vec<_> = clusters
        .iter()
        .flat_map(|cluster| {
            let (host, requests) = (cluster.host(), cluster.requests().into_iter());
            requests.map(move |(method, code, count)| {
                (cluster, host.clone(), method, code.text(), count)
            })
        })
        .collect();
    writer.counters(
        "rest_client_requests",
        "Calls to API servers, by method, host and status.",
        requests.iter().map(|(cluster, host, method, code, count)| {
            let labels = [
                ("code", code.as_str()),
                ("method", *method),
                ("host", &**host),
                ("cluster", &*cluster.cluster),
            ];
            (labels, *count)
        }),
    )?;
    let families: [Counted<ClusterMetrics>; 5] = [
        (
            "windlass_cluster_relists",
            "Lists that refilled a cache: the server had no events from the cache's version on.",
            |c| &c.relists,
        ),
        (
            "windlass_cluster_histories_lost",
            "Times that the server's history was found to be lost, as after a restore: its caches were rebuilt.",
            |c| &c.histories_lost,
        ),
        (
            "windlass_cluster_repairs",
            "Caches that a comparison found to differ from their server, which had sent no event.",
            |c| &c.repairs,
        ),
        (
            "windlass_cluster_watch_restarts",
            "Watches that were resumed.",
            |c| &c.watch_restarts,
        ),
        (
            "windlass_cluster_watch_failures",
            "Lists and watches that failed.",
            |c| &c.watch_failures,
        ),
    ];
    for (name, help, count) in families {
        let series = clusters.iter();
        writer.counters(
            name,
            help,
            series.map(|c| ([("cluster", &*c.cluster)], get(count(c)))),
        )?;
    }
    Ok(())
}

/// Writes one family after another.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    /// Names end in `_total`, which is added here.
    fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            family
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        family.encode_gauge(&value)
    }

    fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn histograms<'h, L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (L, &'h Histogram)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, histogram) in series {
            histogram.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
