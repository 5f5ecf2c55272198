//! The fields of a ClusterProfile that matter here. Entry point: [`Profile`].

use super::DEFAULT_CONDITION;
use crate::provider::readiness::{Condition, Readiness, is_true};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest value of a property, in bytes: as in the CustomResourceDefinition. A longer one is left out.
const MAX_VALUE: usize = 1024;
/// Longest name of a property, in bytes: as in the CustomResourceDefinition. A property with a longer one is left out.
const MAX_NAME: usize = 253;

/// A ClusterProfile.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Profile {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    #[serde(deserialize_with = "null_is_default")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "null_is_default")]
    version: Version,
    #[serde(deserialize_with = "null_is_default")]
    properties: Vec<Property>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) access_providers: Vec<Offered>,
    /// What `accessProviders` were called before.
    #[serde(deserialize_with = "null_is_default")]
    pub(super) credential_providers: Vec<Offered>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    kubernetes: String,
}

/// A property; often the copy of a ClusterProperty of the cluster.
#[derive(Deserialize)]
struct Property {
    name: String,
    #[serde(default)]
    value: String,
}

/// A way to reach the cluster that its manager offers.
#[derive(Deserialize)]
pub(super) struct Offered {
    pub(super) name: String,
    /// In the fields of a kubeconfig's `cluster`.
    #[serde(default)]
    pub(super) cluster: Value,
}

fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    value: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

impl Profile {
    /// Why the cluster is not ready, if it is not.
    pub(super) fn why_unready(&self, ready: &Readiness) -> Option<String> {
        let wanted = match ready {
            Readiness::Always => return None,
            Readiness::Default => DEFAULT_CONDITION,
            Readiness::Condition(name) => name,
        };
        let conditions = &self.status.conditions;
        if is_true(conditions, wanted) {
            return None;
        }
        let found = conditions
            .iter()
            .find(|condition| condition.name == wanted)
            .map_or("absent", |condition| &condition.status);
        Some(format!(
            "not ready: its condition {wanted} is {found}, and must be True"
        ))
    }

    /// The cluster's properties. Times are left out: they change with every heartbeat.
    pub(super) fn properties(&self) -> BTreeMap<String, String> {
        let Status {
            conditions,
            version,
            properties,
            ..
        } = &self.status;
        let mut named: BTreeMap<String, String> = properties
            .iter()
            .filter(|property| property.name.len() <= MAX_NAME && property.value.len() <= MAX_VALUE)
            .map(|property| (property.name.clone(), property.value.clone()))
            .collect();
        let short = |condition: &&Condition| {
            condition.name.len() <= MAX_NAME && condition.status.len() <= MAX_VALUE
        };
        let conditions = conditions.iter().filter(short).map(|condition| {
            let name = format!("condition/{}", condition.name);
            (name, condition.status.clone())
        });
        named.extend(conditions);
        if !version.kubernetes.is_empty() && version.kubernetes.len() <= MAX_VALUE {
            named.insert("version.kubernetes".to_owned(), version.kubernetes.clone());
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn profile(status: &Value) -> Profile {
        serde_json::from_value(json!({"status": status})).unwrap()
    }

    #[test]
    fn a_profile_is_ready_by_the_condition_that_is_asked_for() {
        let healthy = |status: &str| {
            let time = "2026-01-01T00:00:00Z";
            profile(&json!({"conditions": [
                {"type": "Joined", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": time},
                {"type": "ControlPlaneHealthy", "status": status, "reason": "r", "message": "m", "lastTransitionTime": time}]}))
        };
        let unready = |profile: &Profile, ready: &Readiness| profile.why_unready(ready);
        assert_eq!(unready(&healthy("True"), &Readiness::Default), None);
        assert_eq!(
            unready(&healthy("Unknown"), &Readiness::Default).as_deref(),
            Some("not ready: its condition ControlPlaneHealthy is Unknown, and must be True")
        );
        let joined = Readiness::Condition("Joined".to_owned());
        assert_eq!(unready(&healthy("False"), &joined), None);
        let nothing = profile(&Value::Null);
        assert_eq!(
            unready(&nothing, &joined).as_deref(),
            Some("not ready: its condition Joined is absent, and must be True")
        );
        assert_eq!(unready(&nothing, &Readiness::Always), None);
    }

    #[test]
    fn properties_are_the_version_the_profiles_own_and_its_conditions() {
        let profile = profile(&json!({
            "version": {"kubernetes": "v1.35.2"},
            "properties": [
                {"name": "cluster.clusterset.k8s.io", "value": "c-1", "lastObservedTime": "2026-01-01T00:00:00Z"},
                {"name": "clusterset.k8s.io", "value": "environ-1"},
                {"name": "huge", "value": "x".repeat(MAX_VALUE + 1)}],
            "conditions": [{"type": "ControlPlaneHealthy", "status": "True"}],
        }));
        let expected = [
            ("cluster.clusterset.k8s.io", "c-1"),
            ("clusterset.k8s.io", "environ-1"),
            ("condition/ControlPlaneHealthy", "True"),
            ("version.kubernetes", "v1.35.2"),
        ];
        let properties = profile.properties();
        let properties = properties.iter().map(|(name, value)| (&**name, &**value));
        assert!(properties.eq(expected), "{:?}", profile.properties());
    }

    #[test]
    fn a_heartbeat_changes_no_property() {
        let at = |time: &str| {
            profile(&json!({
                "properties": [{"name": "a", "value": "b", "lastObservedTime": time}],
                "conditions": [{"type": "T", "status": "True", "lastTransitionTime": time, "message": time}],
            }))
            .properties()
        };
        assert_eq!(at("2026-01-01T00:00:00Z"), at("2026-01-01T00:01:00Z"));
    }
}
