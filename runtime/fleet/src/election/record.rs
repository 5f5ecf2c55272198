//! Reads and writes Lease objects. Entry point: [`Lease::parse`].

use super::Timing;
use jiff::{Timestamp, ToSpan};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The label of Leases by which processes share the work, and none leads.
pub(crate) const SHARDING: &str = "windlass.dev/sharding";

/// The `spec` of a Lease. Each renewal has a different record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// Empty: no holder.
    pub(crate) holder: String,
    /// How long it lasts, by its holder.
    pub(crate) seconds: Option<i32>,
    /// When the holder took it, for people.
    pub(crate) acquired: String,
    /// When it was last renewed by the holder's wall clock, for people.
    pub(crate) renewed: String,
    /// How often it has changed hands.
    pub(crate) transitions: i32,
}

/// A Lease object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lease {
    pub(super) record: Record,
    /// The whole object. An update changes only the record.
    object: Value,
}

impl Lease {
    /// Parses an answer. `None`: it is not a Lease.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        let object: Value = serde_json::from_slice(json).ok()?;
        if object["kind"] != "Lease" {
            return None;
        }
        let record = Record::read(&object["spec"]);
        Some(Self { record, object })
    }

    /// Whether it belongs to processes that share the work: two regimes must not work at once.
    pub(super) fn is_of_a_sharding(&self) -> bool {
        self.object["metadata"]["labels"][SHARDING].is_string()
    }

    /// The resourceVersion.
    #[cfg(test)]
    pub(super) fn version(&self) -> &str {
        self.object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
    }

    /// The object with another record, as the body of an update. Its resourceVersion makes the update fail if the Lease has changed.
    pub(super) fn with(&self, record: &Record) -> Vec<u8> {
        let mut object = self.object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        if !object["spec"].is_object() {
            object["spec"] = Value::Object(Map::new());
        }
        record.write(&mut object["spec"]);
        object.to_string().into_bytes()
    }
}

impl Record {
    /// Reads the `spec` of a Lease. A field that is missing or damaged is empty.
    pub(crate) fn read(spec: &Value) -> Self {
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let number = |field: &str| spec[field].as_i64().and_then(|n| i32::try_from(n).ok());
        Self {
            holder: text("holderIdentity"),
            seconds: number("leaseDurationSeconds"),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            transitions: number("leaseTransitions").unwrap_or_default(),
        }
    }

    /// The record of a candidate that takes or renews the Lease, after the record `from`.
    pub(crate) fn taken(
        candidate: &str,
        timing: &Timing,
        from: Option<&Self>,
        wall: Timestamp,
    ) -> Self {
        let mine = from.filter(|from| from.holder == candidate);
        let now = time(wall);
        Self {
            holder: candidate.to_owned(),
            seconds: Some(timing.seconds()),
            acquired: mine.map_or_else(|| now.clone(), |mine| mine.acquired.clone()),
            // Each renewal must change the record, even if the wall clock stands still or goes back.
            renewed: mine.map_or_else(|| now.clone(), |mine| later(&mine.renewed, wall)),
            transitions: match (mine, from) {
                (Some(mine), _) => mine.transitions,
                (None, Some(from)) => from.transitions.saturating_add(1),
                (None, None) => 0,
            },
        }
    }

    /// The record of a released Lease, which any candidate may take at once.
    pub(super) fn released(&self, wall: Timestamp) -> Self {
        Self {
            holder: String::new(),
            seconds: Some(1),
            renewed: later(&self.renewed, wall),
            ..self.clone()
        }
    }

    /// How long it protects its holder after the last observed change.
    pub(crate) fn duration(&self, timing: &Timing) -> Duration {
        let own = self.seconds.and_then(|seconds| u64::try_from(seconds).ok());
        own.map_or(timing.lease_duration, Duration::from_secs)
    }

    /// As a new Lease.
    pub(super) fn object(&self, namespace: &str, name: &str) -> Vec<u8> {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name}, "spec": {},
        });
        self.write(&mut lease["spec"]);
        lease.to_string().into_bytes()
    }

    /// Writes the record into the `spec` of a Lease, which must be an object.
    pub(crate) fn write(&self, spec: &mut Value) {
        spec["holderIdentity"] = json!(self.holder);
        spec["leaseDurationSeconds"] = json!(self.seconds);
        spec["acquireTime"] = json!(self.acquired);
        spec["renewTime"] = json!(self.renewed);
        spec["leaseTransitions"] = json!(self.transitions);
    }
}

/// `wall`, or a microsecond after `before` if that is later.
fn later(before: &str, wall: Timestamp) -> String {
    let after = before
        .parse::<Timestamp>()
        .ok()
        .and_then(|before| before.checked_add(1.microsecond()).ok());
    time(after.map_or(wall, |after| after.max(wall)))
}

/// Formats a Kubernetes `MicroTime`.
fn time(at: Timestamp) -> String {
    format!("{at:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: &str = "2026-01-02T03:04:05.678901Z";

    fn wall() -> Timestamp {
        WALL.parse().unwrap()
    }

    fn taken(from: Option<&Record>, wall: Timestamp) -> Record {
        Record::taken("me", &Timing::default(), from, wall)
    }

    #[test]
    fn a_record_round_trips_through_its_lease() {
        let record = taken(None, wall());
        assert_eq!((record.renewed.as_str(), record.transitions), (WALL, 0));
        let lease = Lease::parse(&record.object("ns", "name")).unwrap();
        assert_eq!(lease.record, record);
        assert_eq!(record.duration(&Timing::default()).as_secs(), 15);
    }

    #[test]
    fn an_update_keeps_unknown_fields() {
        let json = br#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n","resourceVersion":"7","labels":{"a":"b"}},
            "spec":{"holderIdentity":"other","leaseTransitions":4,"strategy":"OldestEmulationVersion"}}"#;
        let lease = Lease::parse(json).unwrap();
        let mine = taken(Some(&lease.record), wall());
        assert_eq!((mine.holder.as_str(), mine.transitions), ("me", 5));
        let written: Value = serde_json::from_slice(&lease.with(&mine)).unwrap();
        assert_eq!(written["metadata"]["resourceVersion"], "7");
        assert_eq!(written["metadata"]["labels"]["a"], "b");
        assert_eq!(written["spec"]["strategy"], "OldestEmulationVersion");
        assert_eq!(written["spec"]["holderIdentity"], "me");
    }

    #[test]
    fn every_renewal_is_a_change_even_while_the_wall_clock_stands_still_or_goes_back() {
        let mut record = taken(None, wall());
        for wall in [wall(), wall(), wall() - 1.hour(), wall() + 1.hour(), wall()] {
            let renewed = taken(Some(&record), wall);
            assert!(renewed.renewed > record.renewed, "{renewed:?}");
            assert_eq!(
                (&renewed.acquired, renewed.transitions),
                (&record.acquired, 0)
            );
            record = renewed;
        }
        let released = record.released(wall());
        assert!(released.holder.is_empty() && released.renewed > record.renewed);
    }

    #[test]
    fn a_lease_without_a_duration_lasts_as_long_as_ours() {
        let lease = Lease::parse(br#"{"kind":"Lease","spec":{"holderIdentity":"x"}}"#).unwrap();
        assert_eq!(lease.record.duration(&Timing::default()).as_secs(), 15);
        assert!(Lease::parse(br#"{"kind":"Status"}"#).is_none());
        assert!(Lease::parse(b"<html>").is_none());
    }
}
