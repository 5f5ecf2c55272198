//! Clusters as objects: the kind `fleet.windlass.dev/v1alpha1 Cluster`, which the local cluster has for those who may see it.
//! Entry point: [`ClusterObjects`].
//!
//! The host makes the objects from the fleet as it is, so a controller watches, lists and selects clusters as it does any kind. No server
//! has them, and nobody writes them.
//!
//! Invariants:
//! * An object has one text for each version, in all stores.
//! * The first list is of all clusters that providers know, as far as they say so in time.
//! * Versions grow, also over a restart of the process.
//! * A caller sees only clusters that its grant [opens](may_see), by the labels and the provider in the object itself: so the last event
//!   of a cluster that has gone reaches those who saw the cluster.
//!
//! Cost: nothing until a store of the kind is open. Then each change of the fleet looks at all clusters once.

use super::{Cluster, ClusterState, Fleet, FleetChanges};
use crate::cache::made::Made;
use crate::cache::store::{Problem, Query, Store};
use crate::digest::Digest;
use crate::grant::{ClusterFacts, Grant};
use crate::json::Object;
use crate::kind::{GroupVersionKind, Resource};
use crate::name::ClusterName;
use crate::pairs::Pairs;
use crate::selector::{FieldSelector, LabelSelector};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// The clusters of a fleet, as objects.
pub(crate) struct ClusterObjects {
    fleet: Fleet,
    changes: FleetChanges,
    resource: Arc<Resource>,
    table: Mutex<Table>,
}

/// The objects as they were made last.
struct Table {
    /// Of the last change.
    version: u64,
    made: BTreeMap<ClusterName, MadeObject>,
}

struct MadeObject {
    shown: Shown,
    object: Object,
}

/// What an object shows of a cluster.
#[derive(PartialEq)]
struct Shown {
    /// Another one for each time that a cluster of the name is engaged.
    engaged: SystemTime,
    provider: Option<String>,
    labels: Pairs,
    properties: Pairs,
    state: ClusterState,
    usable: bool,
    reason: Arc<str>,
    since: SystemTime,
}

impl ClusterObjects {
    pub(crate) fn new(fleet: Fleet) -> Self {
        let resource = Resource {
            kind: GroupVersionKind::of_clusters(),
            plural: "clusters".into(),
            namespaced: false,
        };
        Self {
            changes: fleet.changes().clone(),
            fleet,
            resource: Arc::new(resource),
            table: Mutex::new(Table {
                version: micros(SystemTime::now()),
                made: BTreeMap::new(),
            }),
        }
    }

    /// Whether a first list would lack clusters that providers have still to tell of. A reader would take them for gone.
    fn is_too_early(&self, store: &Store) -> bool {
        !store.is_synced() && !self.fleet.is_whole()
    }
}

impl Made for ClusterObjects {
    fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    fn fill(&self, store: &Store) {
        if self.is_too_early(store) {
            return;
        }
        // Held until the store has them, so that it never gets an older state after a newer one.
        let mut table = self.table.lock();
        table.refresh(&self.fleet.clusters());
        table.show(store);
    }

    fn catch_up(&self, store: &Store) {
        if self.is_too_early(store) {
            return;
        }
        let mut table = self.table.lock();
        if !store.is_synced() {
            table.refresh(&self.fleet.clusters());
        }
        if *store.reached_version().borrow() < table.version {
            table.show(store);
        }
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.changes.changed()
    }
}

impl Table {
    /// Makes the objects anew that differ from their clusters.
    fn refresh(&mut self, clusters: &[Arc<Cluster>]) {
        let mut before = std::mem::take(&mut self.made);
        for cluster in clusters.iter().filter(|cluster| !cluster.name().is_local()) {
            let shown = Shown::of(cluster);
            let known = before.remove(cluster.name());
            let kept = known.filter(|made| made.shown == shown);
            let made = kept.or_else(|| {
                let text = shown.text(cluster.name(), self.version + 1);
                let object = Object::parse(text.into()).ok()?;
                self.version += 1;
                Some(MadeObject { shown, object })
            });
            self.made
                .extend(made.map(|made| (cluster.name().clone(), made)));
        }
        // What is left has gone, which is a change too.
        self.version += u64::from(!before.is_empty());
    }

    /// Replaces what a store has by what it selects of the objects.
    fn show(&self, store: &Store) {
        let Ok(selection) = Selection::of(store) else {
            return store.set_problem(Problem {
                definite: true,
                unreachable: false,
                stale: false,
                message: "field selectors of clusters know metadata.name alone".to_owned(),
                error: None,
            });
        };
        let made = self.made.values().map(|made| &made.object);
        let selected = made.filter(|object| selection.has(object));
        // What was made here is fit for a store, and never older than what the store has.
        let objects = selected.filter_map(|object| store.ingest_listed(object.json()).ok());
        let _ = store.replace(objects.collect(), self.version.to_string());
    }
}

impl Shown {
    fn of(cluster: &Cluster) -> Self {
        let now = cluster.now();
        // Counts of caches that are being filled would be an event each.
        let reason = match now.state {
            ClusterState::Syncing => "the caches are being filled".into(),
            _ => now.reason.clone(),
        };
        Self {
            engaged: cluster.engaged(),
            provider: cluster.provider().map(str::to_owned),
            labels: cluster.labels(),
            properties: cluster.properties(),
            state: now.state,
            usable: now.is_usable(),
            reason,
            since: now.since,
        }
    }

    fn text(&self, name: &ClusterName, version: u64) -> String {
        let kind = GroupVersionKind::of_clusters();
        let state = self.state.as_str();
        let since = rfc3339(self.since);
        let status = if self.usable { "True" } else { "False" };
        let mut object = json!({
            "apiVersion": kind.api_version(),
            "kind": &*kind.kind,
            "metadata": {
                "name": object_name(name),
                "uid": uid(name, self.engaged),
                "resourceVersion": version.to_string(),
                "creationTimestamp": rfc3339(self.engaged),
            },
            "spec": {"name": name.as_str()},
            "status": {
                "state": state,
                "ready": self.usable,
                "reason": &*self.reason,
                "conditions": [{
                    "type": "Ready",
                    "status": status,
                    "reason": state,
                    "message": &*self.reason,
                    "lastTransitionTime": since,
                }],
            },
        });
        let mut put = |at: &str, field: &str, value: Value| object[at][field] = value;
        if let Some(provider) = &self.provider {
            put("spec", "provider", provider.as_str().into());
        }
        if !self.labels.is_empty() {
            put("metadata", "labels", json!(self.labels.to_map()));
        }
        if !self.properties.is_empty() {
            put("metadata", "annotations", json!(self.properties.to_map()));
        }
        object.to_string()
    }
}

/// What a store of the kind selects.
struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

/// A field selector on more than the name.
struct UnknownField;

impl Selection {
    fn of(store: &Store) -> Result<Self, UnknownField> {
        let (labels, fields) = (&store.key.label_selector, &store.key.field_selector);
        let labels = LabelSelector::parse(labels).map_err(|_| UnknownField)?;
        let fields = FieldSelector::parse(fields).map_err(|_| UnknownField)?;
        let mut named = fields.requirements().iter();
        if !named.all(|requirement| &*requirement.field == "metadata.name") {
            return Err(UnknownField);
        }
        Ok(Self { labels, fields })
    }

    fn has(&self, object: &Object) -> bool {
        let query = Query {
            labels: Some(&self.labels),
            fields: Some(&self.fields),
            ..Query::default()
        };
        query.matches(&object.key(), object)
    }
}

/// The parts of an object that rules match.
#[derive(Deserialize)]
struct Seen {
    metadata: SeenMetadata,
    spec: SeenSpec,
}

#[derive(Deserialize)]
struct SeenMetadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct SeenSpec {
    name: String,
    provider: Option<String>,
}

/// Whether a grant opens the cluster that an object stands for, as a rule with `clusters` does. The rules without `clusters` are about the
/// cluster of a request, and open none.
pub(crate) fn may_see(grant: &Grant, object: &Object) -> bool {
    if grant.is_all() {
        return true;
    }
    let Ok(seen) = serde_json::from_slice::<Seen>(object.json()) else {
        return false;
    };
    let Ok(name) = ClusterName::new(&seen.spec.name) else {
        return false;
    };
    let labels = Pairs::from(seen.metadata.labels);
    grant.reaches(&ClusterFacts {
        name: &name,
        labels: &labels,
        provider: seen.spec.provider.as_deref(),
        own: false,
    })
}

/// The name of a cluster's object: that of the cluster, but for what a name of an object may not hold. No two clusters share one.
fn object_name(name: &ClusterName) -> String {
    if matches!(name.as_str(), "." | "..") {
        return name.as_str().replace('.', "~2E");
    }
    name.as_str()
        .replace('~', "~7E")
        .replace('/', "~2F")
        .replace('%', "~25")
}

/// In the form of a UUID.
fn uid(name: &ClusterName, engaged: SystemTime) -> String {
    let of = format!("{} {}", name.as_str(), micros(engaged));
    let hex = Digest::of(of.as_bytes()).to_string();
    let part = |from: usize, to: usize| &hex[from..to];
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    parts.map(|(from, to)| part(from, to)).join("-")
}

fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}

fn rfc3339(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    time.round(jiff::Unit::Second).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::{ClusterRule, Rule};

    fn shown(labels: &[(&str, &str)]) -> Shown {
        let labels = labels
            .iter()
            .fold(Pairs::default(), |all, (key, value)| all.with(*key, *value));
        Shown {
            engaged: SystemTime::UNIX_EPOCH,
            provider: Some("fleet".to_owned()),
            labels,
            properties: Pairs::default(),
            state: ClusterState::Ready,
            usable: true,
            reason: "all caches are in sync".into(),
            since: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_cluster_is_seen_by_those_whose_rules_open_it() -> anyhow::Result<()> {
        let east = ClusterName::new("arn:aws:eks:us:1:cluster/east")?;
        let text = shown(&[("env", "prod")]).text(&east, 7);
        let object = Object::parse(text.into())?;
        assert_eq!(&*object.key().name, "arn:aws:eks:us:1:cluster~2Feast");
        let rule = |clusters| {
            let clusters = Some(clusters);
            Grant::new([Rule {
                clusters,
                ..Rule::default()
            }])
        };
        let selector = |text: &str| ClusterRule {
            selector: Some(text.parse().unwrap()),
            ..ClusterRule::default()
        };
        assert!(may_see(&Grant::all(), &object));
        assert!(may_see(&rule(ClusterRule::only(&east)), &object));
        assert!(may_see(&rule(selector("env=prod")), &object));
        for blind in [
            Grant::none(),
            Grant::new([Rule::default()]),
            rule(ClusterRule::only(&ClusterName::local())),
            rule(selector("env=test")),
            rule(selector("env=prod")).with_ceiling([]),
        ] {
            assert!(!may_see(&blind, &object), "{blind:?}");
        }
        Ok(())
    }

    #[test]
    fn no_two_clusters_share_a_name_of_an_object() -> anyhow::Result<()> {
        let names = ["a/b", "a~2Fb", "a%b", "a~25b", "a:b", ".", "..", "~2E"];
        let mut all = std::collections::BTreeSet::new();
        for name in names {
            let name = object_name(&ClusterName::new(name)?);
            assert_eq!(crate::request::check_name(&name), Ok(()));
            assert!(all.insert(name));
        }
        assert_eq!(object_name(&ClusterName::new("prod#eu.1")?), "prod#eu.1");
        Ok(())
    }
}
