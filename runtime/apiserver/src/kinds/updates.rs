//! Updates of kinds in which what may change depends on the rest of the object: pods, jobs and claims.

use serde_json::{Value, json};

use super::containers::containers_mut;
use super::immutable::same;
use crate::quantity::Quantity;
use crate::status::FieldError;

const POD: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const CLAIM: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// A pod keeps all but images, deadlines, new tolerations and gates that go.
pub(super) fn pod(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (after, before) = (&new["spec"], &old["spec"]);
    for list in ["containers", "initContainers"] {
        if items(&after[list]).len() != items(&before[list]).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{list}"), detail));
            return;
        }
    }
    if let Some(error) = deadline(after, before) {
        errors.push(error);
        if !after["activeDeadlineSeconds"].is_null() {
            return;
        }
    }
    let kept = items(&before["tolerations"]).iter().all(|one| {
        items(&after["tolerations"])
            .iter()
            .any(|other| tolerates_alike(one, other))
    });
    if !kept {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", detail));
    }
    new_gates(after, before, errors);
    if !same(&frozen(after, before), before) {
        errors.push(FieldError::forbidden("spec", POD));
    }
}

/// Containers that were added to a pod stay as they are.
pub(super) fn ephemeral_containers(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let field = "spec.ephemeralContainers";
    let after = items(&new["spec"]["ephemeralContainers"]);
    for container in items(&old["spec"]["ephemeralContainers"]) {
        let name = &container["name"];
        let what = match after.iter().find(|one| one["name"] == *name) {
            None => "removed",
            Some(kept) if !same(kept, container) => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {name} may not be {what}\n");
        errors.push(FieldError::forbidden(field, &detail));
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A deadline may come and may come nearer.
fn deadline(after: &Value, before: &Value) -> Option<FieldError> {
    let field = "activeDeadlineSeconds";
    let path = "spec.activeDeadlineSeconds";
    let detail = match (after[field].as_i64(), before[field].as_i64()) {
        (Some(after), _) if !(0..=i64::from(i32::MAX)).contains(&after) => {
            "must be between 0 and 2147483647, inclusive"
        }
        (Some(after), Some(before)) if after > before => {
            "must be less than or equal to previous value"
        }
        (None, Some(_)) => "must not update from a positive integer to nil value",
        _ => return None,
    };
    Some(FieldError::invalid(path, &after[field], detail))
}

fn tolerates_alike(one: &Value, other: &Value) -> bool {
    let mut one = one.clone();
    one["tolerationSeconds"] = other["tolerationSeconds"].clone();
    same(&one, other)
}

fn new_gates(after: &Value, before: &Value, errors: &mut Vec<FieldError>) {
    let known = items(&before["schedulingGates"]);
    for (at, gate) in items(&after["schedulingGates"]).iter().enumerate() {
        if !known.iter().any(|one| one["name"] == gate["name"]) {
            let name = gate["name"].as_str().unwrap_or_default();
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            let path = format!("spec.schedulingGates[{at}].name");
            errors.push(FieldError::forbidden(path, &detail));
        }
    }
}

/// The new spec of a pod, with all that may change as it was.
fn frozen(after: &Value, before: &Value) -> Value {
    let mut spec = after.clone();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        spec[field] = before[field].clone();
    }
    let grace = &before["terminationGracePeriodSeconds"];
    if grace.as_i64().is_some_and(|seconds| seconds < 0)
        && spec["terminationGracePeriodSeconds"] == 1
    {
        spec["terminationGracePeriodSeconds"] = grace.clone();
    }
    for list in ["containers", "initContainers"] {
        for (at, container) in containers_mut(&mut spec, list).enumerate() {
            container["image"] = before[list][at]["image"].clone();
        }
    }
    spec
}

/// A job keeps its template; one that is suspended and has no pods may be scheduled elsewhere and get other resources.
pub(super) fn job(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (after, before) = (&new["spec"], &old["spec"]);
    if !same(&after["completions"], &before["completions"]) {
        let indexed = after["completionMode"] == "Indexed";
        let detail = if indexed {
            "can only be modified in tandem with spec.parallelism"
        } else {
            "field is immutable"
        };
        if !indexed || after["completions"] != after["parallelism"] {
            errors.push(FieldError::invalid(
                "spec.completions",
                &after["completions"],
                detail,
            ));
        }
    }
    let idle = before["suspend"] == true
        && is_true(old, "Suspended")
        && old["status"]["active"].as_i64().unwrap_or_default() == 0;
    let template = &after["template"];
    if !idle {
        if !same(template, &before["template"]) {
            errors.push(FieldError::invalid(
                "spec.template",
                template,
                "field is immutable",
            ));
        }
        return;
    }
    if !same(
        &template["spec"],
        &movable(&template["spec"], &before["template"]["spec"]),
    ) {
        let spec = &template["spec"];
        errors.push(FieldError::invalid(
            "spec.template.spec",
            spec,
            "field is immutable",
        ));
    }
}

fn is_true(object: &Value, condition: &str) -> bool {
    items(&object["status"]["conditions"])
        .iter()
        .any(|one| one["type"] == condition && one["status"] == "True")
}

/// The old spec of a template, with all that a suspended job may change as it is to be.
fn movable(after: &Value, before: &Value) -> Value {
    let mut spec = before.clone();
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        spec[field] = after[field].clone();
    }
    let affinity = &after["affinity"]["nodeAffinity"];
    if !affinity.is_null() || !spec["affinity"].is_null() {
        spec["affinity"]["nodeAffinity"] = affinity.clone();
    }
    if after["affinity"].is_null() && same(&spec["affinity"], &json!({})) {
        spec["affinity"] = Value::Null;
    }
    for list in ["containers", "initContainers"] {
        for (at, container) in containers_mut(&mut spec, list).enumerate() {
            let other = &after[list][at];
            if other["name"] == container["name"] {
                container["resources"] = other["resources"].clone();
            }
        }
    }
    spec
}

/// A claim is bound once, and a bound one may grow.
pub(super) fn claim(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (mut after, mut before) = (new["spec"].clone(), old["spec"].clone());
    if before["volumeName"].as_str().unwrap_or_default().is_empty() {
        before["volumeName"] = after["volumeName"].clone();
    }
    if before["storageClassName"].is_null() {
        before["storageClassName"] = after["storageClassName"].clone();
    }
    if new["status"]["phase"] == "Bound" {
        if !after["resources"]["requests"].is_null() {
            after["resources"]["requests"]["storage"] =
                before["resources"]["requests"]["storage"].clone();
        }
        after["volumeAttributesClassName"] = before["volumeAttributesClassName"].clone();
    }
    if !same(&after, &before) {
        errors.push(FieldError::forbidden("spec", CLAIM));
    }
    let capacity = size(&old["status"]["capacity"]).unwrap_or(Quantity::of(0));
    if let (Some(after), Some(before)) = (claimed(new), claimed(old))
        && after < before
        && after <= capacity
    {
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden(
            "spec.resources.requests.storage",
            detail,
        ));
    }
}

/// How much a claim asks for.
pub(super) fn claimed(claim: &Value) -> Option<Quantity> {
    size(&claim["spec"]["resources"]["requests"])
}

fn size(amounts: &Value) -> Option<Quantity> {
    amounts["storage"].as_str().and_then(Quantity::parse)
}
