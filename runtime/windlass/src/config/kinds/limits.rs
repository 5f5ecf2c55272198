//! The limits of guests in documents, and their effective values under a tenant's ceiling. Entry points: [`ReconcilerLimits`]
//! and [`TenantLimits`].

use crate::config::kinds::{Bytes, Interval, Processors, Refusal, at_least_one, within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::controller::ControllerOptions;
use windlass_sandbox::{Limits, Rate};

/// What one reconciler may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ReconcilerLimits {
    /// Memory of an instance, 1Mi to 256Mi. Default: 64Mi.
    pub(crate) memory: Option<Bytes>,
    /// Time of one call, 100ms to 1h. Default: 10s.
    pub(crate) timeout: Option<Interval>,
    /// Calls that run at once, over all clusters. Default: that of `spec.concurrency.kinds` of the Manager, else the tenant's.
    pub(crate) concurrency: Option<usize>,
    /// Calls that run at once in one cluster. Default: 4.
    pub(crate) concurrency_per_cluster: Option<usize>,
    /// Table elements of an instance, 1000 to 240000. Default: 60000.
    pub(crate) table_elements: Option<u32>,
    /// Handles held at once, 8 to 100000. Default: 256.
    pub(crate) handles: Option<u32>,
    /// Calls of cluster functions in one call of the guest; each operation of a batch counts; 1 to 10000000. Default: 10000.
    pub(crate) host_calls: Option<u32>,
    /// Bytes that the guest hands to the host at once, 4Ki to 64Mi. Default: 2Mi.
    pub(crate) host_call_bytes: Option<Bytes>,
    /// Largest object that it gets, 4Ki to 64Mi. Default: 4Mi.
    pub(crate) object_bytes: Option<Bytes>,
    /// Objects that it gets from one list or one batch, or clusters from one list, 4Ki to 128Mi. Default: 16Mi.
    pub(crate) response_bytes: Option<Bytes>,
    /// Objects in a page of a list, 1 to 5000. Default: 5000.
    pub(crate) list_items: Option<u32>,
    /// Operations in a batch, 1 to 10000. Default: 1000.
    pub(crate) batch_operations: Option<u32>,
    /// Calls to API servers that begin per second, up to 1000000; after a pause, as many at once. Default: no limit.
    pub(crate) requests_per_second: Option<u32>,
    /// Log lines of one call, 1Ki to 16Mi. Default: 64Ki.
    pub(crate) log_bytes: Option<Bytes>,
    /// Log lines of all calls per second, 1Ki to 64Mi. Default: 256Ki.
    pub(crate) log_bytes_per_second: Option<Bytes>,
}

/// What a tenant's reconcilers may use together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct TenantLimits {
    /// Memory of all of its guests' instances together, 1Mi or more. Default: 512Mi.
    pub(crate) memory: Option<Bytes>,
    /// Calls that run at once, up to the Manager's `spec.concurrency.global`. Default: half of that; all of it for a lone tenant.
    pub(crate) concurrency: Option<usize>,
    /// Processors that its guests may use, even while others are idle: `500m`, `2`; 10m to 1000. Default: its weight's share, and
    /// unused ones.
    pub(crate) cpu: Option<Processors>,
    /// Calls to API servers in flight, 1 to 100000. Default: 256.
    pub(crate) requests_in_flight: Option<u32>,
    /// Calls to API servers that begin per second, up to 1000000; after a pause, as many at once. Default: no limit.
    pub(crate) requests_per_second: Option<u32>,
    /// The most that each of its reconcilers may have: the fields of a Reconciler's `limits`. Default: the fields' own bounds.
    pub(crate) per_reconciler: Ceiling,
}

/// The most that a reconciler may have; nothing where nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Ceiling(Box<ReconcilerLimits>);

/// What a reconciler gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effective {
    /// Of its calls.
    pub(crate) limits: Limits,
    /// Calls at once. None: what the manager has for the kind.
    pub(crate) concurrency: Option<usize>,
    /// The most calls at once, also of what the manager has for the kind. None: no bound.
    pub(crate) most_concurrency: Option<usize>,
    /// Calls at once in one cluster.
    pub(crate) per_cluster: usize,
}

impl ReconcilerLimits {
    /// The effective limits under a tenant's ceiling, with the defaults filled in.
    pub(crate) fn under(&self, Ceiling(ceiling): &Ceiling) -> Effective {
        let default = Limits::default();
        let size = |own: Option<Bytes>, ceiling: Option<Bytes>, otherwise: usize| {
            let own = own.map_or(otherwise, Bytes::count);
            ceiling.map_or(own, |ceiling| own.min(ceiling.count()))
        };
        let rate = |own: Option<u32>, ceiling: Option<u32>, otherwise: Option<Rate>| {
            let own = own.map(|per_second| Rate { per_second }).or(otherwise);
            let ceiling = ceiling.map(|per_second| Rate { per_second });
            match (own, ceiling) {
                (Some(own), Some(ceiling)) if own.per_second > ceiling.per_second => Some(ceiling),
                (own, ceiling) => own.or(ceiling),
            }
        };
        let bytes =
            |rate: Option<Bytes>| rate.map(|bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX));
        let time = self.timeout.map_or(default.timeout, |time| time.0);
        let limits = Limits {
            memory: size(self.memory, ceiling.memory, default.memory),
            timeout: ceiling.timeout.map_or(time, |most| time.min(most.0)),
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
                self.requests_per_second,
                ceiling.requests_per_second,
                default.requests_per_second,
            ),
            log_bytes: size(self.log_bytes, ceiling.log_bytes, default.log_bytes),
            log_bytes_per_second: rate(
                bytes(self.log_bytes_per_second),
                bytes(ceiling.log_bytes_per_second),
                default.log_bytes_per_second,
            ),
        };
        let own = self.concurrency_per_cluster;
        let own = own.unwrap_or(ControllerOptions::PER_CLUSTER);
        let most = ceiling.concurrency_per_cluster.unwrap_or(usize::MAX);
        Effective {
            limits,
            concurrency: self.concurrency,
            most_concurrency: ceiling.concurrency,
            per_cluster: own.min(most),
        }
    }

    /// Refuses what cannot be honoured; `path` is where they stand.
    pub(super) fn check(&self, path: &str) -> Result<(), Refusal> {
        at_least_one(&format!("{path}.concurrency"), self.concurrency)?;
        at_least_one(
            &format!("{path}.concurrencyPerCluster"),
            self.concurrency_per_cluster,
        )?;
        if let Some(time) = self.timeout {
            let range = Interval::millis(100)..=Interval::seconds(3600);
            within(&format!("{path}.timeout"), time, &range)?;
        }
        for (field, size, least, most) in [
            ("memory", self.memory, 1 << 20, 256 << 20),
            ("hostCallBytes", self.host_call_bytes, 4 << 10, 64 << 20),
            ("objectBytes", self.object_bytes, 4 << 10, 64 << 20),
            ("responseBytes", self.response_bytes, 4 << 10, 128 << 20),
            ("logBytes", self.log_bytes, 1 << 10, 16 << 20),
            (
                "logBytesPerSecond",
                self.log_bytes_per_second,
                1 << 10,
                64 << 20,
            ),
        ] {
            let range = Bytes(least)..=Bytes(most);
            size.map_or(Ok(()), |size| {
                within(&format!("{path}.{field}"), size, &range)
            })?;
        }
        for (field, number, least, most) in [
            ("tableElements", self.table_elements, 1000, 240_000),
            ("handles", self.handles, 8, 100_000),
            ("hostCalls", self.host_calls, 1, 10_000_000),
            ("listItems", self.list_items, 1, 5000),
            ("batchOperations", self.batch_operations, 1, 10_000),
            ("requestsPerSecond", self.requests_per_second, 1, 1_000_000),
        ] {
            let path = format!("{path}.{field}");
            number.map_or(Ok(()), |number| within(&path, number, &(least..=most)))?;
        }
        Ok(())
    }
}

/// The smaller of a number and its ceiling.
fn least<T: TryFrom<u32> + Ord>(own: Option<u32>, ceiling: Option<u32>, otherwise: T) -> T {
    let number = |number: Option<u32>| number.and_then(|number| T::try_from(number).ok());
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
        let in_flight = self.requests_in_flight.map(|count| count as usize);
        windlass_sandbox::TenantLimits {
            memory: self.memory.map_or(default.memory, Bytes::count),
            weight,
            cpu_millis: self.cpu.map(|cpu| cpu.0),
            requests_in_flight: in_flight.unwrap_or(default.requests_in_flight),
            requests_per_second: self
                .requests_per_second
                .map(|per_second| Rate { per_second }),
        }
    }

    /// Refuses what cannot be honoured.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if let Some(memory) = self.memory
            && memory < Bytes::mebibytes(1)
        {
            let message = format!("expected 1Mi or more, found {memory}");
            return Err(Refusal::new("spec.limits.memory", message));
        }
        at_least_one("spec.limits.concurrency", self.concurrency)?;
        if let Some(cpu) = self.cpu {
            let range = Processors(10)..=Processors(1_000_000);
            within("spec.limits.cpu", cpu, &range)?;
        }
        for (path, number, most) in [
            (
                "spec.limits.requestsInFlight",
                self.requests_in_flight,
                100_000,
            ),
            (
                "spec.limits.requestsPerSecond",
                self.requests_per_second,
                1_000_000,
            ),
        ] {
            number.map_or(Ok(()), |number| within(path, number, &(1..=most)))?;
        }
        self.per_reconciler.0.check("spec.limits.perReconciler")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_ceiling_bounds_what_is_asked_for_and_what_is_default() {
        let own = ReconcilerLimits {
            memory: Some(Bytes::mebibytes(128)),
            handles: Some(10),
            ..ReconcilerLimits::default()
        };
        let ceiling = ReconcilerLimits {
            memory: Some(Bytes::mebibytes(32)),
            timeout: Some(Interval::seconds(1)),
            concurrency: Some(2),
            concurrency_per_cluster: Some(3),
            handles: Some(20),
            requests_per_second: Some(5),
            log_bytes_per_second: Some(Bytes(1024)),
            ..ReconcilerLimits::default()
        };
        let Effective {
            limits,
            concurrency,
            most_concurrency,
            per_cluster,
        } = own.under(&Ceiling(Box::new(ceiling)));
        let expected = Limits {
            memory: 32 << 20,
            timeout: Duration::from_secs(1),
            handles: 10,
            requests_per_second: Some(Rate { per_second: 5 }),
            log_bytes_per_second: Some(Rate { per_second: 1024 }),
            ..Limits::default()
        };
        assert_eq!((limits, per_cluster), (expected, 3));
        // What the manager has for the kind may be less than the ceiling: the ceiling is not the reconciler's own limit.
        assert_eq!((concurrency, most_concurrency), (None, Some(2)));
    }

    #[test]
    fn without_a_word_everything_is_as_the_sandbox_has_it() {
        let none = ReconcilerLimits::default().under(&Ceiling::default());
        assert_eq!((none.limits, none.concurrency), (Limits::default(), None));
        assert_eq!(none.per_cluster, 4);
        let tenant = windlass_sandbox::TenantLimits::default();
        assert_eq!(TenantLimits::default().guests(1), tenant);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_with_its_path() {
        let limits = ReconcilerLimits {
            host_calls: Some(0),
            ..ReconcilerLimits::default()
        };
        let refusal = limits.check("spec.limits").unwrap_err();
        assert_eq!(refusal.path, "spec.limits.hostCalls");
        assert_eq!(refusal.message, "expected 1 to 10000000, found 0");
        let tenant = TenantLimits {
            cpu: Some(Processors(5)),
            ..TenantLimits::default()
        };
        let refusal = tenant.check().unwrap_err();
        assert_eq!(refusal.message, "expected 10m to 1000, found 5m");
    }

    /// The page on limits has every field, with the default that is in effect.
    #[test]
    fn the_page_on_limits_is_true() {
        let page = include_str!("../../../../../docs/limits.md");
        let row = |path: &str, default: &str| {
            let row = format!("| `{path}` | {default} |");
            assert!(page.contains(&row), "docs/limits.md lacks {row}");
        };
        let Effective {
            limits,
            concurrency,
            most_concurrency: _,
            per_cluster,
        } = ReconcilerLimits::default().under(&Ceiling::default());
        let size = |bytes: usize| Bytes(bytes as u64).to_string();
        let rate =
            |rate: Option<Rate>| rate.map_or("none".to_owned(), |r| r.per_second.to_string());
        let bytes_per_second = limits.log_bytes_per_second.map(|r| r.per_second as usize);
        for (path, default) in [
            ("memory", size(limits.memory)),
            ("timeout", Interval(limits.timeout).to_string()),
            (
                "concurrency",
                concurrency.map_or("none".to_owned(), |most| most.to_string()),
            ),
            ("concurrencyPerCluster", per_cluster.to_string()),
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
