//! The finalizers of an object that a field manager has set. Entry point: [`Held::read`].
//!
//! `metadata.finalizers` is a set for the API server, so `metadata.managedFields` says for each finalizer which managers own it: those that have
//! applied it, and the one whose update or patch has added it. A server merges the entries of updaters beyond ten into one of the manager
//! `ancient-changes`, and anybody may empty `managedFields`: such a finalizer has no owner here.

use crate::api::Json;
use crate::request::ObjectKey;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use std::collections::BTreeMap;

/// An object that is held by finalizers of a field manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The object's uid.
    pub uid: String,
    /// Whether the object is being deleted, and only finalizers keep it.
    pub is_deleting: bool,
    /// All of its finalizers.
    pub finalizers: Vec<String>,
    /// Those of the manager, at least one.
    pub own: Vec<OwnFinalizer>,
}

/// A finalizer that a field manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFinalizer {
    /// Its name.
    pub name: String,
    /// Other managers that own it as well: each has applied it too.
    pub others: Vec<String>,
}

#[derive(Deserialize)]
struct Partial {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: Option<String>,
    uid: String,
    deletion_timestamp: Option<IgnoredAny>,
    finalizers: Option<Vec<String>>,
    managed_fields: Option<Vec<Entry>>,
}

/// The fields of one manager.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    manager: String,
    #[serde(rename = "fieldsV1")]
    fields: Option<Fields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "f:metadata")]
    metadata: Option<MetadataFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetadataFields {
    #[serde(rename = "f:finalizers")]
    finalizers: Option<BTreeMap<String, IgnoredAny>>,
}

impl Entry {
    fn owns(&self, finalizer: &str) -> bool {
        let metadata = self.fields.as_ref().and_then(|of| of.metadata.as_ref());
        let owned = metadata.and_then(|metadata| metadata.finalizers.as_ref());
        let mut owned = owned.into_iter().flat_map(BTreeMap::keys);
        owned.any(|step| item(step).is_some_and(|name| name == finalizer))
    }
}

/// The item of a set that a step of FieldsV1 names; `.` is the set itself.
fn item(step: &str) -> Option<String> {
    serde_json::from_str(step.strip_prefix("v:")?).ok()
}

impl Held {
    /// An object with its `managedFields`, if a finalizer of one of these managers holds it. `None` as well if the text is no object.
    #[must_use]
    pub fn read(json: &[u8], managers: &[&str]) -> Option<Self> {
        let Partial { metadata } = serde_json::from_slice(json).ok()?;
        let finalizers = metadata.finalizers.filter(|all| !all.is_empty())?;
        let entries = metadata.managed_fields.unwrap_or_default();
        let (own, other): (Vec<&Entry>, Vec<&Entry>) = entries
            .iter()
            .partition(|entry| managers.contains(&entry.manager.as_str()));
        let names = finalizers.iter();
        let names = names.filter(|name| own.iter().any(|entry| entry.owns(name)));
        let own: Vec<OwnFinalizer> = names
            .map(|name| {
                let others = other.iter().filter(|entry| entry.owns(name));
                let mut others: Vec<String> = others.map(|entry| entry.manager.clone()).collect();
                others.sort_unstable();
                others.dedup();
                let name = name.clone();
                OwnFinalizer { name, others }
            })
            .collect();
        if own.is_empty() {
            return None;
        }
        Some(Self {
            key: ObjectKey {
                namespace: metadata.namespace.map(Into::into),
                name: metadata.name.into(),
            },
            uid: metadata.uid,
            is_deleting: metadata.deletion_timestamp.is_some(),
            finalizers,
            own,
        })
    }

    /// The JSON patch that takes the manager's finalizers away and leaves those of others. The server refuses it as `invalid` if it is another
    /// object by now, or if its finalizers have changed.
    #[must_use]
    pub fn patch(&self) -> Json {
        let is_own = |name: &&String| self.own.iter().any(|own| own.name == **name);
        let others: Vec<&String> = self
            .finalizers
            .iter()
            .filter(|name| !is_own(name))
            .collect();
        let path = "/metadata/finalizers";
        let change = if others.is_empty() {
            json!({"op": "remove", "path": path})
        } else {
            json!({"op": "replace", "path": path, "value": others})
        };
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": self.uid},
            {"op": "test", "path": path, "value": self.finalizers},
            change,
        ]);
        patch.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const OWN: &str = "windlass:team-a/hello";

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    /// The fields of a manager that owns finalizers.
    fn owning(names: &[&str]) -> Value {
        let steps = names
            .iter()
            .map(|name| (format!("v:{}", json!(name)), json!({})));
        let mut set: serde_json::Map<String, Value> = steps.collect();
        set.insert(".".to_owned(), json!({}));
        json!({"f:metadata": {"f:labels": {"f:x": {}}, "f:finalizers": set}, "f:spec": {"f:y": {}}})
    }

    fn object(finalizers: &[&str], entries: &[Value]) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "namespace": "default", "name": "a", "uid": "u", "finalizers": finalizers, "managedFields": entries,
        }})
    }

    fn held(object: &Value) -> Option<Held> {
        Held::read(object.to_string().as_bytes(), &[OWN])
    }

    fn names(held: &Held) -> Vec<&str> {
        held.own.iter().map(|own| own.name.as_str()).collect()
    }

    #[test]
    fn the_finalizers_that_a_manager_has_updated_or_applied_are_its_own() {
        let entries = [
            entry(OWN, "Update", owning(&["example.com/updated"])),
            entry(OWN, "Apply", owning(&["example.com/applied"])),
            entry("kubectl-edit", "Update", owning(&["example.com/other"])),
        ];
        let finalizers = [
            "example.com/other",
            "example.com/updated",
            "example.com/applied",
        ];
        let held = held(&object(&finalizers, &entries)).unwrap();
        assert_eq!(names(&held), ["example.com/updated", "example.com/applied"]);
        assert_eq!(held.key, ObjectKey::namespaced("default", "a"));
        assert!(!held.is_deleting);
    }

    #[test]
    fn a_finalizer_of_several_managers_is_the_own_one_too_and_the_others_are_named() {
        let entries = [
            entry(OWN, "Apply", owning(&["example.com/x"])),
            entry("kubectl", "Apply", owning(&["example.com/x"])),
            entry("kubectl", "Update", owning(&["example.com/x"])),
        ];
        let held = held(&object(&["example.com/x"], &entries)).unwrap();
        assert_eq!(held.own[0].others, ["kubectl"]);
    }

    #[test]
    fn a_finalizer_is_nobodys_if_its_owner_is_another_one_or_not_known() {
        let of_other = entry(
            "windlass:team-b/hello",
            "Update",
            owning(&["example.com/x"]),
        );
        let ancient = entry("ancient-changes", "Update", owning(&["example.com/x"]));
        let of_labels = entry(
            OWN,
            "Update",
            json!({"f:metadata": {"f:labels": {"f:x": {}}}}),
        );
        for entries in [&[of_other][..], &[ancient], &[of_labels], &[]] {
            assert_eq!(held(&object(&["example.com/x"], entries)), None);
        }
        // It has been taken away.
        let own = entry(OWN, "Update", owning(&["example.com/x"]));
        assert_eq!(held(&object(&[], std::slice::from_ref(&own))), None);
        assert_eq!(held(&object(&["example.com/y"], &[own])), None);
    }

    #[test]
    fn texts_of_every_shape_are_read() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"metadata": {"finalizers": null, "managedFields": null}}"#,
        ] {
            assert_eq!(Held::read(text.as_bytes(), &[OWN]), None, "{text}");
        }
        let mut object = object(&["a\"b"], &[entry(OWN, "Update", owning(&["a\"b"]))]);
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["metadata"]["namespace"] = Value::Null;
        let held = held(&object).unwrap();
        assert_eq!(names(&held), ["a\"b"]);
        assert_eq!(held.key, ObjectKey::cluster_scoped("a"));
        assert!(held.is_deleting);
    }

    #[test]
    fn the_patch_leaves_the_finalizers_of_others_and_tests_what_was_read() {
        let own = entry(OWN, "Update", owning(&["example.com/x", "example.com/y"]));
        let patch = |finalizers: &[&str]| -> Value {
            let held = held(&object(finalizers, std::slice::from_ref(&own))).unwrap();
            serde_json::from_slice(&held.patch()).unwrap()
        };
        let all = ["example.com/x", "other", "example.com/y"];
        assert_eq!(
            patch(&all),
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "u"},
                {"op": "test", "path": "/metadata/finalizers", "value": all},
                {"op": "replace", "path": "/metadata/finalizers", "value": ["other"]},
            ])
        );
        let last = json!({"op": "remove", "path": "/metadata/finalizers"});
        assert_eq!(patch(&["example.com/y"])[2], last);
    }
}
