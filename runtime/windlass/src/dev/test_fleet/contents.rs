//! A cluster of a test fleet, as the test sees it. Entry point: [`Contents`].

use super::{Failure, TestFleets};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use windlass_apiserver::{Cluster, Faults, RequestFault, Rule, RuleId};
use windlass_author::types::plural;
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::{ClusterName, GroupVersionKind};

/// The fields that the server sets. A test's values are ignored.
const SET_BY_SERVER: [&str; 6] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
];

/// A cluster and its objects.
pub(super) struct Contents {
    cluster: Cluster,
    spec: ClusterSpec,
    /// Whether the engine does not know it as it is now.
    changed: bool,
    /// Objects that neither the test nor the guest has made, by kind, namespace and name.
    given: BTreeSet<[String; 4]>,
    has_left: bool,
    failure: Option<Failing>,
}

/// What makes it fail.
enum Failing {
    Unreachable,
    Errors(RuleId),
}

/// The answer of a server that answers errors: of a proxy that does not reach it.
const BAD_GATEWAY: u16 = 502;

impl Contents {
    /// A cluster without objects, which serves the definitions of the project.
    pub(super) fn new(fleets: &TestFleets, name: &str, served_as: &str) -> Result<Self> {
        let cluster = fleets.server.add_cluster(served_as);
        for definition in &fleets.definitions {
            cluster.apply(definition.clone())?;
        }
        let config = ClusterConfig::from_url(&fleets.server.url(served_as))?;
        let mut contents = Self {
            cluster,
            spec: ClusterSpec::new(ClusterName::new(name)?, config),
            changed: true,
            given: BTreeSet::new(),
            has_left: false,
            failure: None,
        };
        contents.give(|_| true);
        Ok(contents)
    }

    /// The name under which the server has it.
    pub(super) fn served_as(&self) -> &str {
        self.cluster.name()
    }

    /// Gives it further labels and properties.
    pub(super) fn describe(
        &mut self,
        labels: BTreeMap<String, String>,
        properties: BTreeMap<String, String>,
    ) {
        self.changed |= !labels.is_empty() || !properties.is_empty();
        for (key, value) in labels {
            self.spec.labels = self.spec.labels.with(key, value);
        }
        for (name, value) in properties {
            self.spec.properties = self.spec.properties.with(name, value);
        }
    }

    /// Changes its labels; one without a value is removed.
    pub(super) fn label(&mut self, changes: BTreeMap<String, Option<String>>) {
        let mut labels = self.spec.labels.to_map();
        for (key, value) in changes {
            match value {
                Some(value) => labels.insert(key, value),
                None => labels.remove(&key),
            };
        }
        self.spec.labels = labels.into();
        self.changed = true;
    }

    pub(super) fn leave(&mut self) {
        self.has_left = true;
    }

    /// Joins again, if it has left.
    pub(super) fn join(&mut self) {
        self.changed |= self.has_left;
        self.has_left = false;
    }

    pub(super) fn has_left(&self) -> bool {
        self.has_left
    }

    /// Makes its server fail; without a failure it heals.
    pub(super) fn fail(&mut self, failure: Option<Failure>, faults: &Faults) {
        match self.failure.take() {
            Some(Failing::Unreachable) => self.cluster.down(false),
            Some(Failing::Errors(rule)) => drop(faults.remove(rule)),
            None => {}
        }
        self.failure = failure.map(|failure| match failure {
            Failure::Unreachable => {
                self.cluster.down(true);
                Failing::Unreachable
            }
            Failure::Errors => {
                let fault = RequestFault::Status {
                    code: BAD_GATEWAY,
                    retry_after: None,
                };
                let rule = faults.add(Rule::new(fault).cluster(self.cluster.name()));
                self.cluster.cut_watches();
                Failing::Errors(rule)
            }
        });
    }

    /// How its server fails, while it is in the fleet.
    pub(super) fn failure(&self) -> Option<Failure> {
        let failure = self.failure.as_ref().filter(|_| !self.has_left)?;
        Some(match failure {
            Failing::Unreachable => Failure::Unreachable,
            Failing::Errors(_) => Failure::Errors,
        })
    }

    pub(super) fn spec(&self) -> ClusterSpec {
        self.spec.clone()
    }

    /// Whether it has changed since the last call, so that it has to be engaged again.
    pub(super) fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Serves a kind without a schema, if it is not served.
    pub(super) fn define(&mut self, kind: &GroupVersionKind, namespaced: bool) -> Result<()> {
        if self.serves(kind) {
            return Ok(());
        }
        let definition = definition(kind, namespaced);
        self.given.insert(identity(&definition));
        self.cluster.apply(definition)?;
        self.changed = true;
        Ok(())
    }

    /// Stores an object as another writer would.
    pub(super) fn put(&mut self, mut object: Json) -> Result<()> {
        let is_deleted = !object["metadata"]["deletionTimestamp"].is_null();
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let namespace = text(&object["metadata"]["namespace"]);
        let name = text(&object["metadata"]["name"]);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            SET_BY_SERVER
                .iter()
                .for_each(|field| drop(metadata.remove(*field)));
        }
        self.make_namespace(&namespace)?;
        self.given.remove(&identity(&object));
        let status = object.get("status").cloned();
        self.cluster.apply(object)?;
        if let Some(status) = status {
            let patch = json!({ "status": status });
            self.cluster
                .merge_status(&version, &kind, &namespace, &name, &patch)?;
        }
        if is_deleted {
            self.cluster.delete(&version, &kind, &namespace, &name)?;
        }
        self.settle();
        Ok(())
    }

    pub(super) fn get(&self, kind: &GroupVersionKind, namespace: &str, name: &str) -> Option<Json> {
        let found = self
            .cluster
            .get(&kind.api_version(), &kind.kind, namespace, name);
        found.ok().flatten()
    }

    /// What the test and the guest have made, by kind, namespace and name.
    pub(super) fn objects(&self) -> Vec<Json> {
        let mut objects = self.cluster.objects();
        objects.retain(|object| !self.given.contains(&identity(object)));
        objects.sort_by_cached_key(identity);
        objects
    }

    /// Merges a patch into an object, and its status through the subresource.
    pub(super) fn merge(
        &self,
        kind: &GroupVersionKind,
        namespace: &str,
        name: &str,
        mut patch: Json,
    ) -> Result<()> {
        let version = kind.api_version();
        let status = patch
            .as_object_mut()
            .and_then(|patch| patch.remove("status"));
        self.cluster
            .merge(&version, &kind.kind, namespace, name, &patch)?;
        if let Some(status) = status {
            let patch = json!({ "status": status });
            self.cluster
                .merge_status(&version, &kind.kind, namespace, name, &patch)?;
        }
        self.settle();
        Ok(())
    }

    /// Deletes an object as another writer would, and the objects that had no other owner.
    pub(super) fn remove(
        &self,
        kind: &GroupVersionKind,
        namespace: &str,
        name: &str,
    ) -> Result<()> {
        self.cluster
            .delete(&kind.api_version(), &kind.kind, namespace, name)
            .with_context(|| format!("{} {namespace}/{name}", kind.kind))?;
        self.settle();
        Ok(())
    }

    /// Does now what controllers of a cluster do after a change: it deletes what has lost its owner.
    pub(super) fn settle(&self) {
        self.cluster.settle();
    }

    fn serves(&self, kind: &GroupVersionKind) -> bool {
        // Without an object of that name: it fails only for a kind that is not served.
        self.cluster
            .get(&kind.api_version(), &kind.kind, "", "")
            .is_ok()
    }

    fn make_namespace(&mut self, name: &str) -> Result<()> {
        let is_there = || self.cluster.get("v1", "Namespace", "", name);
        if name.is_empty() || is_there()?.is_some() {
            return Ok(());
        }
        self.cluster
            .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))?;
        self.give(|object| {
            object["metadata"]["namespace"] == name
                || (object["kind"] == "Namespace" && object["metadata"]["name"] == name)
        });
        Ok(())
    }

    /// Takes objects that are there for those of an empty cluster.
    fn give(&mut self, is_given: impl Fn(&Json) -> bool) {
        let objects = self.cluster.objects();
        let given = objects.iter().filter(|object| is_given(object));
        self.given.extend(given.map(identity));
    }
}

pub(super) fn kind_of(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::new(group, version, kind)
}

fn identity(object: &Json) -> [String; 4] {
    let metadata = &object["metadata"];
    [
        &object["apiVersion"],
        &object["kind"],
        &metadata["namespace"],
        &metadata["name"],
    ]
    .map(|text| text.as_str().unwrap_or_default().to_owned())
}

/// The definition of a kind that takes any object, and whose status is a subresource.
fn definition(kind: &GroupVersionKind, namespaced: bool) -> Json {
    let singular = kind.kind.to_lowercase();
    let plural = plural(&singular);
    let scope = if namespaced { "Namespaced" } else { "Cluster" };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", kind.group)},
        "spec": {
            "group": &*kind.group,
            "scope": scope,
            "names": {"kind": &*kind.kind, "plural": plural, "singular": singular},
            "versions": [{
                "name": &*kind.version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
