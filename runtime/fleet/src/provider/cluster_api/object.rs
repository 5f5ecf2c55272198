//! What counts of a `Cluster` of Cluster API, in each of its versions. Entry point: [`CapiCluster`].

use crate::provider::readiness::{Condition, is_true};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The condition of a control plane that answers.
const INITIALIZED: &str = "ControlPlaneInitialized";

/// A `Cluster` of `cluster.x-k8s.io/v1beta2` or `v1beta1`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CapiCluster {
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    topology: Option<Topology>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Topology {
    version: Option<String>,
    /// Of v1beta1.
    class: Option<String>,
    /// Of v1beta2.
    class_ref: Option<ClassRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClassRef {
    name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    conditions: Option<Vec<Condition>>,
    /// Of v1beta2.
    initialization: Option<Initialization>,
    /// Of v1beta1.
    control_plane_ready: Option<bool>,
    /// The conditions of v1beta2 in an object of v1beta1.
    v1beta2: Option<OtherVersion>,
    /// The conditions of v1beta1 in an object of v1beta2.
    deprecated: Option<Deprecated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Initialization {
    control_plane_initialized: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Deprecated {
    v1beta1: Option<OtherVersion>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OtherVersion {
    conditions: Option<Vec<Condition>>,
}

impl CapiCluster {
    /// Whether its control plane is initialized.
    pub(super) fn is_initialized(&self) -> bool {
        let status = self.status.as_ref();
        let initialization = status.and_then(|status| status.initialization.as_ref());
        let initialized = initialization.and_then(|of| of.control_plane_initialized);
        let ready = status.and_then(|status| status.control_plane_ready);
        initialized == Some(true) || ready == Some(true) || self.has_condition(INITIALIZED)
    }

    /// Whether a condition is true: one of the object's own version, or if there is none of this name, one of the other version.
    pub(super) fn has_condition(&self, name: &str) -> bool {
        let Some(status) = &self.status else {
            return false;
        };
        let newer = status.v1beta2.as_ref();
        let older = status.deprecated.as_ref();
        let older = older.and_then(|deprecated| deprecated.v1beta1.as_ref());
        let others = [newer, older].into_iter().flatten();
        let others = others.filter_map(|other| other.conditions.as_ref());
        let mut lists = status.conditions.iter().chain(others);
        let has = |list: &&Vec<Condition>| list.iter().any(|of| of.name == name);
        lists.find(has).is_some_and(|list| is_true(list, name))
    }

    /// Its properties, for reconcilers.
    pub(super) fn properties(&self) -> BTreeMap<String, String> {
        let topology = self.spec.as_ref().and_then(|spec| spec.topology.as_ref());
        let version = topology.and_then(|topology| topology.version.clone());
        let class = topology.and_then(|topology| {
            let named = topology.class_ref.as_ref().and_then(|of| of.name.clone());
            named.or_else(|| topology.class.clone())
        });
        let phase = self.status.as_ref().and_then(|status| status.phase.clone());
        [
            ("phase", phase),
            ("topology.class", class),
            ("topology.version", version),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.filter(|text| !text.is_empty())?)))
        .collect()
    }
}
