//! What a plan comes to: equal changes of many clusters as one. Entry points: [`Plan::new`], then [`Plan::add`] and [`Plan::take`] for each
//! rehearsal, and [`Plan::finished`].

use super::difference::{Action, Difference};
use super::dry_run::Objection;
use super::forks::ClusterChange;
use crate::guests::Lack;
use crate::run::idle::Report;
use crate::status::tables::cluster_name;
use crate::status::view::KeyView;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use windlass_apiserver::Change;

/// The group of the kinds of Windlass.
const GROUP: &str = "windlass.dev";
/// Where field managers of reconcilers begin.
const MANAGER: &str = "windlass:";
/// What they end in behind an endpoint of kcp, if it was an apply.
const APPLY: &str = ":apply";

/// What a configuration would change.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    /// Whether the rehearsal came to its end: nothing was left to do, and nothing failed.
    pub(super) complete: bool,
    pub(super) seconds: f64,
    /// The clusters that took part.
    pub(super) clusters: BTreeSet<String>,
    pub(super) total: Counts,
    pub(super) reconcilers: BTreeMap<String, Counts>,
    pub(super) changes: Vec<Folded>,
    /// Keys whose last run failed.
    pub(super) failing: Vec<KeyView>,
    /// Keys that asked to be reconciled again later, by reconciler.
    pub(super) later: BTreeMap<String, usize>,
    /// What was denied to reconcilers.
    pub(super) denied: Vec<Lack>,
    /// What was left to do, and what else is wrong.
    pub(super) problems: Vec<String>,
    /// What the real servers make of the changes otherwise, if they were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) objections: Vec<Objection>,
    /// The changes by what makes them equal.
    #[serde(skip)]
    folded: BTreeMap<String, Folded>,
}

/// How many objects change.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Counts {
    pub(super) create: usize,
    pub(super) change: usize,
    pub(super) delete: usize,
    pub(super) replace: usize,
    /// In these clusters.
    pub(super) clusters: BTreeSet<String>,
}

/// A change, and the clusters in which it happens.
#[derive(Debug, Serialize)]
pub(super) struct Folded {
    #[serde(flatten)]
    pub(super) difference: Difference,
    /// Who makes it, as far as the object says.
    pub(super) reconcilers: BTreeSet<String>,
    pub(super) clusters: BTreeSet<String>,
    /// How many objects that are, in all clusters: more than clusters where names are made up.
    pub(super) objects: usize,
}

impl Counts {
    fn add(&mut self, action: Action, cluster: &str) {
        match action {
            Action::Create => self.create += 1,
            Action::Change => self.change += 1,
            Action::Delete => self.delete += 1,
            Action::Replace => self.replace += 1,
        }
        self.clusters.insert(cluster.to_owned());
    }

    pub(super) fn objects(&self) -> usize {
        self.create + self.change + self.delete + self.replace
    }
}

impl Plan {
    /// Nothing yet, and nothing wrong.
    pub(super) fn new() -> Self {
        Self {
            complete: true,
            ..Self::default()
        }
    }

    /// Adds the changes of a rehearsal. `only`: the name of the reconciler, if there is no other.
    pub(super) fn add(&mut self, changes: &[ClusterChange], only: Option<&str>) {
        for ClusterChange {
            cluster, change, ..
        } in changes
        {
            if is_event(change) || is_own_status(change) {
                continue;
            }
            let Some(difference) = Difference::of(change) else {
                continue;
            };
            let reconcilers = writers(change, only);
            let cluster = cluster_name(cluster).to_owned();
            self.total.add(difference.action, &cluster);
            for reconciler in &reconcilers {
                let counts = self.reconcilers.entry(reconciler.clone()).or_default();
                counts.add(difference.action, &cluster);
            }
            let same = self.folded.entry(key(&difference, &reconcilers));
            let same = same.or_insert_with(|| Folded {
                difference,
                reconcilers,
                clusters: BTreeSet::new(),
                objects: 0,
            });
            same.clusters.insert(cluster);
            same.objects += 1;
        }
    }

    /// Notes what keeps it from being complete.
    pub(super) fn lacks(&mut self, problem: String) {
        self.complete = false;
        self.problems.push(problem);
    }

    /// The whole plan, once everything has been added.
    pub(super) fn finished(mut self) -> Self {
        self.changes = std::mem::take(&mut self.folded).into_values().collect();
        self
    }

    /// Adds how a rehearsal ended.
    pub(super) fn take(&mut self, report: Report) {
        self.complete &= report.done;
        self.seconds += report.seconds;
        let clusters = report.clusters.into_iter();
        let names = clusters.map(|cluster| cluster_name(&cluster.name).to_owned());
        self.clusters.extend(names);
        self.failing.extend(report.failing);
        self.problems.extend(report.busy);
        // A cluster that is not found is not planned.
        self.complete &= report.of_providers.is_empty();
        for problem in report.problems.into_iter().chain(report.of_providers) {
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        for (reconciler, keys) in report.later {
            *self.later.entry(reconciler).or_default() += keys;
        }
        for lack in report.denied {
            if !self.denied.contains(&lack) {
                self.denied.push(lack);
            }
        }
    }
}

/// Events say what happened and are no state.
pub(super) fn is_event(change: &Change) -> bool {
    change.plural == "events" && matches!(&*change.group, "" | "events.k8s.io")
}

/// Whether only the status of an object of Windlass changes: the process writes it while it runs.
fn is_own_status(change: &Change) -> bool {
    let without = |object: &Option<Value>| {
        let mut object = object.clone()?;
        object.as_object_mut()?.remove("status");
        object.as_object_mut()?.remove("metadata");
        Some(object)
    };
    let same = without(&change.before) == without(&change.after);
    change.group == GROUP && change.before.is_some() && change.after.is_some() && same
}

/// Equal for equal changes; sorts by kind, namespace and name.
fn key(difference: &Difference, reconcilers: &BTreeSet<String>) -> String {
    let Difference {
        kind,
        api_version,
        namespace,
        name,
        ..
    } = difference;
    // Texts, numbers and lists of them are always JSON.
    let rest = serde_json::to_string(&(difference, reconcilers)).unwrap_or_default();
    format!("{kind}\0{api_version}\0{namespace}\0{name}\0{rest}")
}

/// The reconcilers that own more fields than before. Of an object that is deleted they are those that had some.
fn writers(change: &Change, only: Option<&str>) -> BTreeSet<String> {
    let entries = |object: Option<&Value>| -> Vec<Value> {
        let entries = object.and_then(|object| object["metadata"]["managedFields"].as_array());
        entries.cloned().unwrap_or_default()
    };
    let before = entries(change.before.as_ref());
    let written = match &change.after {
        Some(after) => {
            let mut entries = entries(Some(after));
            entries.retain(|entry| !before.contains(entry));
            entries
        }
        None => before,
    };
    let managers = written.iter().filter_map(|entry| {
        let manager = entry["manager"].as_str()?.strip_prefix(MANAGER)?;
        let manager = manager.strip_suffix(APPLY).unwrap_or(manager);
        let (_, name) = manager.rsplit_once('/').unwrap_or(("", manager));
        Some(name.to_owned())
    });
    let mut found: BTreeSet<String> = managers.collect();
    if found.is_empty() {
        found.extend(only.map(str::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn created(cluster: &str, name: &str, greeting: &str) -> ClusterChange {
        let fields = json!([{"manager": "windlass:default/hello", "operation": "Update"}]);
        let after = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"greeting": greeting},
            "metadata": {"name": name, "namespace": "default", "managedFields": fields, "uid": cluster}});
        let change = Change {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            plural: "configmaps".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            has_schema: true,
            before: None,
            after: Some(after),
        };
        ClusterChange::of(cluster, change)
    }

    #[test]
    fn equal_changes_of_many_clusters_are_one() {
        let changes = [
            created("alpha", "a", "hello"),
            created("beta", "a", "hello"),
            created("gamma", "a", "hi"),
        ];
        let mut plan = Plan::new();
        plan.add(&changes[..1], None);
        plan.add(&changes[1..], None);
        let plan = plan.finished();
        let clusters: Vec<usize> = plan.changes.iter().map(|it| it.clusters.len()).collect();
        assert_eq!(clusters, [2, 1]);
        assert_eq!(plan.total.create, 3);
        let of_hello = &plan.reconcilers["hello"];
        assert_eq!((of_hello.create, of_hello.clusters.len()), (3, 3));
    }
}
