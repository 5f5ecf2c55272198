//! CustomResourceDefinitions: what the server fills in, checks and notes in their status, and what they serve ([`set_served`]).
//!
//! Nothing here stores an object: callers do, with what they get.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::apply::{Managers, Writer};
use crate::builtin::builtin;
use crate::part::Part;
use crate::registry::Registry;
use crate::resource::{CollectionId, Resource};
use crate::rules;
use crate::stamp::now;
use crate::status::{ApiError, FieldError};

mod patterns;
mod served;

pub(crate) use served::resources;

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Where CRDs are kept.
pub(crate) fn collection() -> CollectionId {
    CollectionId {
        group: "apiextensions.k8s.io".into(),
        plural: "customresourcedefinitions".into(),
        identity: "".into(),
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

/// Whether the kind of a definition is served.
pub(crate) fn is_established(definition: &Value) -> bool {
    condition(definition, "Established") == Some("True")
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
    let single = versions(new).count() == 1;
    for (at, version) in versions(new).enumerate() {
        // A server keeps the schema of an only version for all.
        let path = if single {
            "spec.validation.openAPIV3Schema".to_owned()
        } else {
            format!("spec.versions[{at}].schema.openAPIV3Schema")
        };
        let (schemas, root) = served::schemas(version, spec["preserveUnknownFields"] == true);
        rules::validate(schemas.at(root), &path, errors);
        patterns::validate(schemas.at(root), &path, errors);
        if version.pointer("/schema/openAPIV3Schema").is_none() {
            errors.push(FieldError::required(
                format!("spec.versions[{at}].schema.openAPIV3Schema"),
                "schemas are required",
            ));
        }
    }
}

/// A new CRD may not take the kind that another one of its group has.
///
/// # Errors
/// 409 that names the other.
pub(crate) fn names_free(
    registry: &Registry,
    resource: &Resource,
    body: &Value,
) -> Result<(), ApiError> {
    let (group, kind) = (
        body["spec"]["group"].as_str(),
        body["spec"]["names"]["kind"].as_str(),
    );
    if resource.collection() != collection() {
        return Ok(());
    }
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let (Some(group), Some(kind)) = (group, kind) else {
        return Ok(());
    };
    let taken = registry
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

/// Where the objects of the kind that a CRD defines are kept.
pub(crate) fn defined(crd: &Value) -> CollectionId {
    let text = |value: &Value| value.as_str().unwrap_or_default().into();
    CollectionId {
        group: text(&crd["spec"]["group"]),
        plural: text(&crd["spec"]["names"]["plural"]),
        identity: "".into(),
    }
}

/// What a definition asks for and does not get here, in one line; `None` where that is nothing.
pub(crate) fn left_out(registry: &Registry, crd: &Value) -> Option<String> {
    let id = defined(crd);
    let served = registry
        .custom_of_group(&id.group)
        .filter(|resource| *resource.plural == *id.plural);
    let mut unchecked = 0;
    let mut functions = BTreeSet::new();
    for (count, needed) in served.filter_map(|resource| resource.rules.unchecked()) {
        unchecked += count;
        functions.extend(needed.into_iter().map(str::to_owned));
    }
    let mut findings = Vec::new();
    if unchecked > 0 {
        let functions: Vec<String> = functions.into_iter().collect();
        findings.push(format!(
            "{unchecked} of its rules are not checked, they need {}",
            functions.join(", ")
        ));
    }
    if crd["spec"]["conversion"]["strategy"] == "Webhook" {
        findings.push("its conversion webhook is not called".to_owned());
    }
    let name = crd["metadata"]["name"].as_str().unwrap_or_default();
    (!findings.is_empty()).then(|| {
        format!(
            "CustomResourceDefinition {name} in memory: {}",
            findings.join("; ")
        )
    })
}

/// Whether a line was not said before by this process, which has many clusters with the same definitions.
pub(crate) fn is_news(line: &str) -> bool {
    const MOST: usize = 1000;
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock();
    said.len() >= MOST || said.insert(line.to_owned())
}

/// Whether other versions are served once a CRD is.
pub(crate) fn changes_served(registry: &Registry, crd: &Value) -> bool {
    let id = defined(crd);
    versions(crd).any(|version| {
        let name = version["name"].as_str().unwrap_or_default();
        let served = registry.find(&id.group, name, &id.plural).is_some();
        served != (version["served"] == true)
    })
}

/// Serves what a stored CRD defines, in the place of what it defined before.
pub(crate) fn set_served(registry: &mut Registry, crd: &Value) {
    let id = defined(crd);
    registry.set_custom(&id.group, &id.plural, resources(crd, ""));
}

/// Serves nothing of a CRD that is gone.
pub(crate) fn set_unserved(registry: &mut Registry, crd: &Value) {
    let id = defined(crd);
    registry.set_custom(&id.group, &id.plural, Vec::new());
}

/// A CRD whose status says that it is served; `None` where it says so already.
pub(crate) fn established(crd: &Value) -> Option<Value> {
    let accepted = &crd["spec"]["names"];
    let said = condition(crd, "Established") == Some("True")
        && crd["status"]["acceptedNames"] == *accepted;
    if said {
        return None;
    }
    let mut established = crd.clone();
    established["status"]["acceptedNames"] = accepted.clone();
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
    own_status(crd, &mut established);
    Some(established)
}

/// Nothing of its kind is left: the CRD may go.
pub(crate) fn let_go(crd: &mut Value) {
    if let Some(finalizers) = crd["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|one| one != CLEANUP);
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
    let (time, reset) = (now(), Part::Status.others(resource));
    let writer = Writer {
        manager: "kube-apiserver",
        api_version: "apiextensions.k8s.io/v1",
        subresource: Part::Status.name(),
        now: &time,
        reset: &reset,
    };
    let mut managers = Managers::read(after);
    managers.update(before, after, resource.schema(), &writer);
    managers.write(after);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_definition_does_not_get_is_one_line_and_said_once() {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "isSemver(self.v)"}, {"rule": "true"}]});
        let mut crd = json!({"metadata": {"name": "things.left.example.com"}, "spec": {"group": "left.example.com", "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        let mut registry = Registry::default();
        set_served(&mut registry, &crd);
        let line = left_out(&registry, &crd).unwrap();
        assert_eq!(
            line,
            "CustomResourceDefinition things.left.example.com in memory: 1 of its rules are not checked, they need isSemver"
        );
        assert!(is_news(&line) && !is_news(&line));
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object"});
        crd["spec"]["conversion"] = json!({"strategy": "Webhook"});
        set_served(&mut registry, &crd);
        let line = left_out(&registry, &crd).unwrap();
        assert!(line.ends_with("in memory: its conversion webhook is not called"));
        crd["spec"]["conversion"] = json!({"strategy": "None"});
        assert_eq!(left_out(&registry, &crd), None);
    }
}
