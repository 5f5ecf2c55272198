//! CustomResourceDefinitions: from the stored object to served kinds.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::apply::{Managers, Writer};
use crate::cleanup::Work;
use crate::resource::{CollectionId, Columns, Resource, Scale};
use crate::schema::Schemas;
use crate::schema::builtin::{OBJECT_META, builtin};
use crate::state::{State, now};
use crate::status::{ApiError, FieldError};
use crate::store::Object;

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Where CRDs are kept.
pub(crate) fn collection() -> CollectionId {
    CollectionId {
        group: "apiextensions.k8s.io".into(),
        plural: "customresourcedefinitions".into(),
    }
}

/// Names that follow from others.
pub(crate) fn default(body: &mut Value) {
    let kind = body["spec"]["names"]["kind"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let names = &mut body["spec"]["names"];
    if !names.is_object() || kind.is_empty() {
        return;
    }
    if names["singular"].as_str().unwrap_or_default().is_empty() {
        names["singular"] = kind.to_lowercase().into();
    }
    if names["listKind"].as_str().unwrap_or_default().is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
}

/// The status of a new CRD.
pub(crate) fn begin(body: &mut Value) {
    let stored: Vec<Value> = versions(body)
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    body["status"] = json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored});
}

/// Objects of the kind go before the CRD does.
pub(crate) fn begin_delete(object: &mut Value) {
    let metadata = &mut object["metadata"];
    let mut finalizers = metadata["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if !finalizers.iter().any(|one| one == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    metadata["finalizers"] = finalizers.into();
    set_condition(
        object,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
}

fn versions(object: &Value) -> impl Iterator<Item = &Value> {
    object["spec"]["versions"].as_array().into_iter().flatten()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let mut conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions
        .find(|condition| condition["type"] == kind)
        .and_then(|condition| condition["status"].as_str())
}

fn set_condition(object: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let entry = json!({"type": kind, "status": status, "lastTransitionTime": now(), "reason": reason, "message": message});
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else {
        return;
    };
    match conditions
        .iter_mut()
        .find(|condition| condition["type"] == kind)
    {
        Some(found) if found["status"] == status => {}
        Some(found) => *found = entry,
        None => conditions.push(entry),
    }
}

pub(crate) fn validate(new: &Value, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (path, value) in [
        ("spec.group", &spec["group"]),
        ("spec.names.plural", &spec["names"]["plural"]),
        ("spec.names.kind", &spec["names"]["kind"]),
        ("spec.scope", &spec["scope"]),
    ] {
        if text(value).is_empty() {
            errors.push(FieldError::required(path, ""));
        }
    }
    let expected = format!(
        "{}.{}",
        text(&spec["names"]["plural"]),
        text(&spec["group"])
    );
    if new["metadata"]["name"] != expected.as_str() {
        errors.push(FieldError::invalid(
            "metadata.name",
            &new["metadata"]["name"],
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    let stored = versions(new)
        .filter(|version| version["storage"] == true)
        .count();
    if stored != 1 {
        errors.push(FieldError::invalid(
            "spec.versions",
            &spec["versions"],
            "must have exactly one version marked as storage version",
        ));
    }
    for (at, version) in versions(new).enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none() {
            errors.push(FieldError::required(
                format!("spec.versions[{at}].schema.openAPIV3Schema"),
                "schemas are required",
            ));
        }
    }
}

impl State {
    /// A new CRD may not take names that another kind of its group has.
    pub(crate) fn crd_names_free(&self, resource: &Resource, body: &Value) -> Result<(), ApiError> {
        let (group, kind) = (
            body["spec"]["group"].as_str(),
            body["spec"]["names"]["kind"].as_str(),
        );
        if *resource.plural != *collection().plural {
            return Ok(());
        }
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let (Some(group), Some(kind)) = (group, kind) else {
            return Ok(());
        };
        let taken = self
            .registry
            .custom_of_group(group)
            .find(|other| other.kind == kind && format!("{}.{group}", other.plural) != name);
        taken.map_or(Ok(()), |other| {
            let why = format!(
                "the kind is served by {}.{group}: choose another kind",
                other.plural
            );
            Err(ApiError::conflict(resource.subject(), name, &why))
        })
    }

    /// Serves what a stored CRD defines and says so in its status.
    pub(crate) fn crd_changed(&mut self, object: &Arc<Object>) {
        let crd = object.value();
        if object.head.deleting {
            self.enqueue(Work::Crd(object.head.name.clone()));
            return;
        }
        let (group, plural) = names(&crd);
        self.registry.set_custom(&group, &plural, serve(&crd));
        let accepted = crd["spec"]["names"].clone();
        if condition(&crd, "Established") == Some("True")
            && crd["status"]["acceptedNames"] == accepted
        {
            return;
        }
        let before = crd.clone();
        let mut established = crd;
        established["status"]["acceptedNames"] = accepted;
        set_condition(
            &mut established,
            "NamesAccepted",
            "True",
            "NoConflicts",
            "no conflicts found",
        );
        set_condition(
            &mut established,
            "Established",
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        );
        own_status(&before, &mut established);
        self.commit(&collection(), established);
    }

    pub(crate) fn crd_removed(&mut self, last: &Object) {
        let (group, plural) = names(&last.value());
        self.registry.set_custom(&group, &plural, Vec::new());
    }

    /// Deletes what is left of a dying CRD's objects, then lets the CRD go. Returns whether it is gone.
    pub(crate) fn finish_crd(&mut self, name: &str) {
        let Some(live) = self
            .store
            .get(&collection(), name)
            .filter(|live| live.head.deleting)
            .cloned()
        else {
            return;
        };
        let (group, plural) = names(&live.value());
        let id = CollectionId {
            group: group.as_str().into(),
            plural: plural.as_str().into(),
        };
        let Some(resource) = self.registry.of_collection(&id).cloned() else {
            return;
        };
        let objects: Vec<Arc<Object>> = self
            .store
            .range(&id, "")
            .filter(|object| !object.head.deleting)
            .cloned()
            .collect();
        for object in objects {
            self.delete_quietly(
                &resource,
                &object.head.namespace,
                &object.head.name,
                &Default::default(),
            );
        }
        if self.store.range(&id, "").next().is_some() {
            return;
        }
        let Some(crds) = self.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        else {
            return;
        };
        let freed = self.amend(&crds, &live, |crd| {
            if let Some(finalizers) = crd["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|one| one != CLEANUP);
            }
        });
        if let Err(error) = freed {
            tracing::debug!(%error, name, "a CRD could not be let go");
        }
    }
}

/// The server itself manages what it wrote into the status.
fn own_status(before: &Value, after: &mut Value) {
    let Some(resource) = builtin()
        .resources
        .iter()
        .find(|resource| resource.plural == *collection().plural)
    else {
        return;
    };
    let (time, reset) = (now(), crate::write::status_reset(resource));
    let writer = Writer {
        manager: "kube-apiserver",
        api_version: "apiextensions.k8s.io/v1",
        subresource: "status",
        now: &time,
        reset: &reset,
    };
    let mut managers = Managers::read(after);
    managers.update(before, after, resource.schema(), &writer);
    managers.write(after);
}

fn names(crd: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (
        text(&crd["spec"]["group"]),
        text(&crd["spec"]["names"]["plural"]),
    )
}

/// One resource per served version, the most stable first.
fn serve(crd: &Value) -> Vec<Arc<Resource>> {
    let storage = versions(crd)
        .find(|version| version["storage"] == true)
        .and_then(|version| version["name"].as_str())
        .unwrap_or_default();
    let mut served: Vec<&Value> = versions(crd)
        .filter(|version| version["served"] == true)
        .collect();
    served.sort_by_key(|version| {
        std::cmp::Reverse(stability(version["name"].as_str().unwrap_or_default()))
    });
    served
        .into_iter()
        .map(|version| Arc::new(resource(crd, version, storage)))
        .collect()
}

/// Sorts `v2` over `v1` over `v1beta2` over `v1alpha1` over anything else.
fn stability(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| text.parse::<u32>().ok();
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    if let Some(major) = number(rest) {
        return (3, major, 0);
    }
    for (rank, word) in [(2, "beta"), (1, "alpha")] {
        if let Some((major, minor)) = rest
            .split_once(word)
            .and_then(|(major, minor)| Some((number(major)?, number(minor)?)))
        {
            return (rank, major, minor);
        }
    }
    (0, 0, 0)
}

fn resource(crd: &Value, version: &Value, storage: &str) -> Resource {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(text).collect()
    };
    let spec = &crd["spec"];
    let names = &spec["names"];
    let (schemas, root) = schemas(version, spec["preserveUnknownFields"] == true);
    let path = |value: &Value| -> Vec<String> {
        text(value)
            .split('.')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let scale = version.pointer("/subresources/scale").map(|scale| Scale {
        spec_replicas: path(&scale["specReplicasPath"]),
        status_replicas: path(&scale["statusReplicasPath"]),
        selector: scale.get("labelSelectorPath").map(path),
    });
    let (group, version_name, kind) = (
        text(&spec["group"]),
        text(&version["name"]),
        text(&names["kind"]),
    );
    let reversed: Vec<&str> = group.split('.').rev().collect();
    Resource {
        definition: format!("{}.{version_name}.{kind}", reversed.join(".")),
        storage_group: group.clone(),
        storage_version: storage.to_owned(),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        namespaced: spec["scope"] == "Namespaced",
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        verbs: [
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        ]
        .map(str::to_owned)
        .to_vec(),
        status: version.pointer("/subresources/status").is_some(),
        scale,
        columns: Columns::Printer(
            version["additionalPrinterColumns"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        ),
        custom: true,
        written: version
            .pointer("/schema/openAPIV3Schema")
            .cloned()
            .map(Box::new),
        schemas: Some(Arc::new(schemas)),
        root: Some(root),
        group,
        version: version_name,
        kind,
    }
}

fn schemas(version: &Value, preserve: bool) -> (Schemas, crate::schema::NodeId) {
    let mut schemas = Schemas::default();
    let definitions = &builtin().definitions;
    let meta: serde_json::Map<String, Value> = definitions
        .iter()
        .filter(|(name, _)| name.contains(".apimachinery.pkg.apis.meta.v1."))
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    schemas.define(&meta);
    let mut written = version
        .pointer("/schema/openAPIV3Schema")
        .cloned()
        .unwrap_or_else(|| json!({"type": "object"}));
    if preserve {
        written["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    let root = schemas.add(&written);
    let text = schemas.add(&json!({"type": "string"}));
    schemas.set_property(root, "apiVersion", text);
    schemas.set_property(root, "kind", text);
    if let Some(meta) = schemas.named(OBJECT_META) {
        schemas.set_property(root, "metadata", meta);
    }
    (schemas, root)
}

#[cfg(test)]
mod tests {
    use super::stability;

    #[test]
    fn versions_sort_by_stability_then_number() {
        let mut versions = ["v1alpha1", "foo", "v2", "v1beta2", "v1", "v1beta10"];
        versions.sort_by_key(|version| std::cmp::Reverse(stability(version)));
        assert_eq!(
            versions,
            ["v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]
        );
    }
}
