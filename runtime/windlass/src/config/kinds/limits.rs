//! The limits of guests in documents, and their values under a tenant's ceiling. Entry points: [`ReconcilerLimits`]
//! and [`TenantLimits`].

use crate::config::kinds::bounded::{HOUR, KI, MI, MS};
use crate::config::kinds::{Bytes, Interval, Processors, Within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass_fleet::controller::ControllerOptions;
use windlass_sandbox::{Limits, Rate};

/// What one reconciler may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ReconcilerLimits {
    /// Memory of an instance. Default: 64Mi.
    pub(crate) memory: Option<Within<Bytes, MI, { 256 * MI }>>,
    /// Time of one call. Default: 10s.
    pub(crate) timeout: Option<Within<Interval, { 100 * MS }, HOUR>>,
    /// Calls that run at once, over all clusters. Default: that of `spec.concurrency.kinds` of the Manager, else the tenant's.
    pub(crate) concurrency: Option<Within<usize, 1>>,
    /// Calls that run at once in one cluster. Default: 4.
    pub(crate) concurrency_per_cluster: Option<Within<usize, 1>>,
    /// Table elements of an instance. Default: 60000.
    pub(crate) table_elements: Option<Within<u32, 1000, 240_000>>,
    /// Handles held at once. Default: 256.
    pub(crate) handles: Option<Within<u32, 8, 100_000>>,
    /// Calls of cluster functions in one call of the guest; each operation of a batch counts. Default: 10000.
    pub(crate) host_calls: Option<Within<u32, 1, 10_000_000>>,
    /// Bytes that the guest hands to the host at once. Default: 2Mi.
    pub(crate) host_call_bytes: Option<Within<Bytes, { 4 * KI }, { 64 * MI }>>,
    /// Largest object that it gets. Default: 4Mi.
    pub(crate) object_bytes: Option<Within<Bytes, { 4 * KI }, { 64 * MI }>>,
    /// Objects that it gets from one list or one batch, or clusters from one list. Default: 16Mi.
    pub(crate) response_bytes: Option<Within<Bytes, { 4 * KI }, { 128 * MI }>>,
    /// Objects in a page of a list. Default: 5000.
    pub(crate) list_items: Option<Within<u32, 1, 5000>>,
    /// Operations in a batch. Default: 1000.
    pub(crate) batch_operations: Option<Within<u32, 1, 10_000>>,
    /// Calls to API servers that begin per second; after a pause, as many at once. Default: no limit.
    pub(crate) requests_per_second: Option<Within<u32, 1, 1_000_000>>,
    /// Log lines of one call. Default: 64Ki.
    pub(crate) log_bytes: Option<Within<Bytes, KI, { 16 * MI }>>,
    /// Log lines of all calls per second. Default: 256Ki.
    pub(crate) log_bytes_per_second: Option<Within<Bytes, KI, { 64 * MI }>>,
}

/// What a tenant's reconcilers may use together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct TenantLimits {
    /// Memory of all of its guests' instances together. Default: 512Mi.
    pub(crate) memory: Option<Within<Bytes, MI>>,
    /// Calls that run at once, up to the Manager's `spec.concurrency.global`. Default: half of that; all of it for a lone tenant.
    pub(crate) concurrency: Option<Within<usize, 1>>,
    /// Processors that its guests may use, even while others are idle: `500m`, `2`. Default: its weight's share, and unused ones.
    pub(crate) cpu: Option<Within<Processors, 10, 1_000_000>>,
    /// Calls to API servers in flight. Default: 256.
    pub(crate) requests_in_flight: Option<Within<u32, 1, 100_000>>,
    /// Calls to API servers that begin per second; after a pause, as many at once. Default: no limit.
    pub(crate) requests_per_second: Option<Within<u32, 1, 1_000_000>>,
    /// The most that each of its reconcilers may have: the fields of a Reconciler's `limits`. Default: the fields' own bounds.
    pub(crate) per_reconciler: Ceiling,
}

/// The most that a reconciler may have; nothing where nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Ceiling(Box<ReconcilerLimits>);

impl ReconcilerLimits {
    /// The limits of its calls and the options of its controller under a tenant's ceiling, with the defaults filled in.
    pub(crate) fn under(&self, Ceiling(ceiling): &Ceiling) -> (Limits, ControllerOptions) {
        let default = Limits::default();
        let time = self.timeout.map_or(default.timeout, |time| time.get().0);
        let most = ceiling.timeout.map_or(Duration::MAX, |most| most.get().0);
        let limits = Limits {
            memory: size(self.memory, ceiling.memory, default.memory),
            timeout: time.min(most),
            table_elements: least(
                self.table_elements,
                ceiling.table_elements,
                default.table_elements,
            ),
            handles: least(self.handles, ceiling.handles, default.handles),
            host_calls: least(self.host_calls, ceiling.host_calls, default.host_calls),
            host_call_bytes: size(
                self.host_call_bytes,
                ceiling.host_call_bytes,
                default.host_call_bytes,
            ),
            object_bytes: size(
                self.object_bytes,
                ceiling.object_bytes,
                default.object_bytes,
            ),
            response_bytes: size(
                self.response_bytes,
                ceiling.response_bytes,
                default.response_bytes,
            ),
            list_items: least(self.list_items, ceiling.list_items, default.list_items),
            batch_operations: least(
                self.batch_operations,
                ceiling.batch_operations,
                default.batch_operations,
            ),
            requests_per_second: rate(
                self.requests_per_second.map(Within::get),
                ceiling.requests_per_second.map(Within::get),
                default.requests_per_second,
            ),
            log_bytes: size(self.log_bytes, ceiling.log_bytes, default.log_bytes),
            log_bytes_per_second: rate(
                self.log_bytes_per_second.map(per_second),
                ceiling.log_bytes_per_second.map(per_second),
                default.log_bytes_per_second,
            ),
        };
        let own = self.concurrency_per_cluster.map(Within::get);
        let own = own.unwrap_or(ControllerOptions::PER_CLUSTER);
        let most = ceiling.concurrency_per_cluster.map(Within::get);
        let most = most.unwrap_or(usize::MAX);
        let options = ControllerOptions {
            concurrency: self.concurrency.map(Within::get),
            most_concurrency: ceiling.concurrency.map(Within::get),
            concurrency_per_cluster: own.min(most),
            timeout: limits.timeout,
            ..ControllerOptions::default()
        };
        (limits, options)
    }
}

/// The smaller of an amount and its ceiling, in bytes.
fn size<const LEAST: u64, const MOST: u64>(
    own: Option<Within<Bytes, LEAST, MOST>>,
    ceiling: Option<Within<Bytes, LEAST, MOST>>,
    otherwise: usize,
) -> usize {
    let count = |size: Within<Bytes, LEAST, MOST>| size.get().count();
    let own = own.map_or(otherwise, count);
    ceiling.map_or(own, |ceiling| own.min(count(ceiling)))
}

/// The smaller of a rate and its ceiling; none is more than any.
fn rate(own: Option<u32>, ceiling: Option<u32>, otherwise: Option<Rate>) -> Option<Rate> {
    let own = own.map(|per_second| Rate { per_second }).or(otherwise);
    let ceiling = ceiling.map(|per_second| Rate { per_second });
    match (own, ceiling) {
        (Some(own), Some(ceiling)) if own.per_second > ceiling.per_second => Some(ceiling),
        (own, ceiling) => own.or(ceiling),
    }
}

fn per_second<const LEAST: u64, const MOST: u64>(bytes: Within<Bytes, LEAST, MOST>) -> u32 {
    u32::try_from(bytes.get().0).unwrap_or(u32::MAX)
}

/// The smaller of a number and its ceiling.
fn least<T: TryFrom<u32> + Ord, const LEAST: u64, const MOST: u64>(
    own: Option<Within<u32, LEAST, MOST>>,
    ceiling: Option<Within<u32, LEAST, MOST>>,
    otherwise: T,
) -> T {
    let number = |number: Option<Within<u32, LEAST, MOST>>| {
        number.and_then(|number| T::try_from(number.get()).ok())
    };
    let own = number(own).unwrap_or(otherwise);
    match number(ceiling) {
        Some(ceiling) => own.min(ceiling),
        None => own,
    }
}

impl TenantLimits {
    /// The same for guests, the defaults filled in.
    pub(crate) fn guests(&self, weight: u32) -> windlass_sandbox::TenantLimits {
        let default = windlass_sandbox::TenantLimits::default();
        let in_flight = self.requests_in_flight.map(|count| count.get() as usize);
        windlass_sandbox::TenantLimits {
            memory: self
                .memory
                .map_or(default.memory, |size| size.get().count()),
            weight,
            cpu_millis: self.cpu.map(|cpu| cpu.get().0),
            requests_in_flight: in_flight.unwrap_or(default.requests_in_flight),
            requests_per_second: self.requests_per_second.map(|rate| Rate {
                per_second: rate.get(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_bounds_what_is_asked_for_and_what_is_default() {
        let own = ReconcilerLimits {
            memory: Within::new(Bytes(128 << 20)),
            handles: Within::new(10),
            ..ReconcilerLimits::default()
        };
        let ceiling = ReconcilerLimits {
            memory: Within::new(Bytes(32 << 20)),
            timeout: Within::new(Interval::seconds(1)),
            concurrency: Within::new(2),
            concurrency_per_cluster: Within::new(3),
            handles: Within::new(20),
            requests_per_second: Within::new(5),
            log_bytes_per_second: Within::new(Bytes(1024)),
            ..ReconcilerLimits::default()
        };
        let (limits, options) = own.under(&Ceiling(Box::new(ceiling)));
        let expected = Limits {
            memory: 32 << 20,
            timeout: Duration::from_secs(1),
            handles: 10,
            requests_per_second: Some(Rate { per_second: 5 }),
            log_bytes_per_second: Some(Rate { per_second: 1024 }),
            ..Limits::default()
        };
        assert_eq!(limits, expected);
        // What the manager has for the kind may be less than the ceiling: the ceiling is not the reconciler's own limit.
        let expected = ControllerOptions {
            most_concurrency: Some(2),
            concurrency_per_cluster: 3,
            timeout: Duration::from_secs(1),
            ..ControllerOptions::default()
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn without_a_word_everything_is_as_the_sandbox_has_it() {
        let (limits, options) = ReconcilerLimits::default().under(&Ceiling::default());
        assert_eq!((limits, options.concurrency), (Limits::default(), None));
        assert_eq!(options.concurrency_per_cluster, 4);
        let tenant = windlass_sandbox::TenantLimits::default();
        assert_eq!(TenantLimits::default().guests(1), tenant);
    }

    /// The page on limits has every field, with the default that is in effect.
    #[test]
    fn the_page_on_limits_is_true() {
        let page = include_str!("../../../../../docs/limits.md");
        let row = |path: &str, default: &str| {
            let row = format!("| `{path}` | {default} |");
            assert!(page.contains(&row), "docs/limits.md lacks {row}");
        };
        let (limits, options) = ReconcilerLimits::default().under(&Ceiling::default());
        let size = |bytes: usize| Bytes(bytes as u64).to_string();
        let rate =
            |rate: Option<Rate>| rate.map_or("none".to_owned(), |r| r.per_second.to_string());
        let bytes_per_second = limits.log_bytes_per_second.map(|r| r.per_second as usize);
        for (path, default) in [
            ("memory", size(limits.memory)),
            ("timeout", Interval(limits.timeout).to_string()),
            (
                "concurrency",
                options
                    .concurrency
                    .map_or("none".to_owned(), |most| most.to_string()),
            ),
            (
                "concurrencyPerCluster",
                options.concurrency_per_cluster.to_string(),
            ),
            ("tableElements", limits.table_elements.to_string()),
            ("handles", limits.handles.to_string()),
            ("hostCalls", limits.host_calls.to_string()),
            ("hostCallBytes", size(limits.host_call_bytes)),
            ("objectBytes", size(limits.object_bytes)),
            ("responseBytes", size(limits.response_bytes)),
            ("listItems", limits.list_items.to_string()),
            ("batchOperations", limits.batch_operations.to_string()),
            ("requestsPerSecond", rate(limits.requests_per_second)),
            ("logBytes", size(limits.log_bytes)),
            (
                "logBytesPerSecond",
                bytes_per_second.map_or("none".to_owned(), size),
            ),
        ] {
            row(&format!("spec.limits.{path}"), &default);
        }
        let tenant = TenantLimits::default().guests(1);
        for (path, default) in [
            ("memory", size(tenant.memory)),
            (
                "cpu",
                tenant
                    .cpu_millis
                    .map_or("none".to_owned(), |cpu| cpu.to_string()),
            ),
            ("requestsInFlight", tenant.requests_in_flight.to_string()),
            ("requestsPerSecond", rate(tenant.requests_per_second)),
        ] {
            row(&format!("Tenant: spec.limits.{path}"), &default);
        }
        for limit in windlass_sandbox::limits() {
            let word = format!("`{limit}`");
            assert!(page.contains(&word), "docs/limits.md lacks the word {word}");
        }
    }
}
