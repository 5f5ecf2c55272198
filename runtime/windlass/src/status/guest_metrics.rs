//! Metrics of guests and tenants: what they used, what they hit, what they were denied, what serves. Entry point: [`GuestMetrics`].
//!
//! A reconciler's series go with it, as its counts do.

use crate::status::guest_registry::GuestRegistry;
use crate::status::reconcilers::{ReconcilerStatus, Statuses};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use windlass_sandbox::{GuestStatus, Tenant};

/// What a registry asks.
pub(crate) struct GuestMetrics {
    /// What guests and tenants count.
    pub(crate) guest_registry: Arc<GuestRegistry>,
    /// What became of the documents.
    pub(crate) statuses: Arc<Statuses>,
}

impl fmt::Debug for GuestMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestMetrics").finish_non_exhaustive()
    }
}

/// A family of a guest's or a tenant's: its name, its help, its kind, and how its value is read.
type Family<T> = (&'static str, &'static str, MetricType, fn(&T) -> f64);

const GUEST: [Family<GuestStatus>; 7] = [
    (
        "windlass_guest_cpu_seconds",
        "Time that a reconciler's calls had a processor.",
        MetricType::Counter,
        |guest| guest.cpu_seconds,
    ),
    (
        "windlass_guest_cpu_waited_seconds",
        "Time that they could have computed and waited for their tenant's turn.",
        MetricType::Counter,
        |guest| guest.cpu_waited_seconds,
    ),
    (
        "windlass_guest_memory_peak_bytes",
        "Most memory that an instance had.",
        MetricType::Gauge,
        |guest| guest.memory_peak as f64,
    ),
    (
        "windlass_guest_idle_instances",
        "Instances that wait for another call.",
        MetricType::Gauge,
        |guest| guest.idle_instances as f64,
    ),
    (
        "windlass_guest_denials",
        "Calls that no rule grants.",
        MetricType::Counter,
        |guest| guest.denials as f64,
    ),
    (
        "windlass_guest_requests_dropped",
        "Requests of a mapper for clusters that it is not granted.",
        MetricType::Counter,
        |guest| guest.requests_dropped as f64,
    ),
    (
        "windlass_guest_loaded_timestamp_seconds",
        "Since when the revision in use is in use.",
        MetricType::Gauge,
        |guest| guest.loaded as f64,
    ),
];

const TENANT: [Family<Tenant>; 3] = [
    (
        "windlass_tenant_cpu_seconds",
        "Time that a tenant's calls had a processor.",
        MetricType::Counter,
        |tenant| tenant.cpu_used().as_secs_f64(),
    ),
    (
        "windlass_tenant_memory_bytes",
        "Memory of its live instances.",
        MetricType::Gauge,
        |tenant| tenant.memory_used() as f64,
    ),
    (
        "windlass_tenant_requests_in_flight",
        "Calls of its reconcilers to API servers that are under way.",
        MetricType::Gauge,
        |tenant| tenant.requests_in_flight() as f64,
    ),
];

impl Collector for GuestMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let guests = self.guest_registry.guests();
        let guests: Vec<GuestStatus> = guests.iter().map(|guest| guest.status()).collect();
        for family in GUEST {
            let series = guests.iter().map(|guest| (of(guest), (family.3)(guest)));
            write(&mut encoder, family.0, family.1, family.2, series)?;
        }
        let hits = guests.iter().flat_map(|guest| {
            let hits = guest.limit_hits.iter();
            hits.map(move |(limit, count)| {
                let [tenant, reconciler] = of(guest);
                ([tenant, reconciler, ("limit", *limit)], *count as f64)
            })
        });
        let help = "How often a reconciler's calls hit a limit.";
        let name = "windlass_guest_limit_hits";
        write(&mut encoder, name, help, MetricType::Counter, hits)?;
        let calls = guests.iter().flat_map(|guest| {
            let calls = guest.http_calls.iter();
            calls.map(move |(end, count)| {
                let [tenant, reconciler] = of(guest);
                ([tenant, reconciler, ("end", *end)], *count as f64)
            })
        });
        let help = "Calls of a reconciler to servers that are no API servers.";
        let name = "windlass_guest_http_calls";
        write(&mut encoder, name, help, MetricType::Counter, calls)?;
        documents(&mut encoder, &self.statuses.all())?;
        let tenants = self.guest_registry.tenants();
        for (name, help, kind, read) in TENANT {
            let series = tenants
                .iter()
                .map(|tenant| ([("tenant", tenant.name().as_str())], read(tenant)));
            write(&mut encoder, name, help, kind, series)?;
        }
        Ok(())
    }
}

/// What became of each Reconciler's document: as [`Statuses`] has it, which is what `/api/v1` shows as well.
fn documents(
    encoder: &mut DescriptorEncoder<'_>,
    entries: &BTreeMap<String, ReconcilerStatus>,
) -> fmt::Result {
    let refused = entries.iter().map(|(name, entry)| {
        let labels = [("tenant", entry.tenant.as_str()), ("reconciler", name)];
        (labels, f64::from(u8::from(entry.problem.is_some())))
    });
    let help =
        "1 while what a Reconciler's document and its guest's file ask for is not in effect.";
    let name = "windlass_guest_reload_refused";
    write(encoder, name, help, MetricType::Gauge, refused)?;
    let serve = entries.iter().filter_map(|(name, entry)| {
        let labels = [
            ("tenant", entry.tenant.as_str()),
            ("reconciler", name),
            ("revision", entry.revision.as_deref()?),
            ("previous", entry.previous.as_deref().unwrap_or_default()),
        ];
        Some((labels, 1.0))
    });
    let help =
        "The SHA-256 of the revision that serves, and of the one that a rollback would serve.";
    let name = "windlass_guest_info";
    write(encoder, name, help, MetricType::Gauge, serve)
}

fn of(guest: &GuestStatus) -> [(&'static str, &str); 2] {
    [("tenant", &guest.tenant), ("reconciler", &guest.name)]
}

/// A family with its series. The names of counters end in `_total`, which is added here.
fn write<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: MetricType,
    series: impl Iterator<Item = (L, f64)>,
) -> fmt::Result {
    let counts = matches!(kind, MetricType::Counter);
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in series {
        let mut one = family.encode_family(&labels)?;
        if counts {
            one.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        } else {
            one.encode_gauge(&value)?;
        }
    }
    Ok(())
}
