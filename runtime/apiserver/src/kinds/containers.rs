//! What a server checks of the containers of a pod and of a pod template: [`check`]. They are changed through [`containers_mut`].

use std::collections::BTreeSet;

use serde_json::Value;

use crate::quantity::Quantity;
use crate::status::FieldError;

/// Adds an error for each wrong container; `claims` are names of volumes that the kind itself brings.
pub(super) fn check(spec: &Value, path: &str, claims: &[&str], errors: &mut Vec<FieldError>) {
    let volumes = volumes(spec, path, claims, errors);
    if items(&spec["containers"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        for (at, container) in items(&spec[list]).iter().enumerate() {
            let path = format!("{path}.{list}[{at}]");
            name(container, &path, &mut names, errors);
            mounts(container, &path, &volumes, errors);
            resources(&container["resources"], &path, errors);
        }
    }
    let others = names.clone();
    for (at, container) in items(&spec["ephemeralContainers"]).iter().enumerate() {
        let path = format!("{path}.ephemeralContainers[{at}]");
        name(container, &path, &mut names, errors);
        mounts(container, &path, &volumes, errors);
        ephemeral(container, &path, &others, errors);
    }
}

/// A container that is added to a pod looks at another, and has nothing that a pod is planned by.
fn ephemeral(container: &Value, path: &str, others: &BTreeSet<&str>, errors: &mut Vec<FieldError>) {
    const REFUSED: [&str; 8] = [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ];
    let target = text(&container["targetContainerName"]);
    if !target.is_empty() && !others.contains(target) {
        let path = format!("{path}.targetContainerName");
        errors.push(FieldError::not_found(
            path,
            &container["targetContainerName"],
        ));
    }
    let set = |value: &Value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    for field in REFUSED.iter().filter(|field| set(&container[**field])) {
        let detail = "cannot be set for an Ephemeral Container";
        errors.push(FieldError::forbidden(format!("{path}.{field}"), detail));
    }
}

/// The containers of a pod's spec in one of its lists.
pub(super) fn containers_mut<'a>(
    spec: &'a mut Value,
    list: &str,
) -> impl Iterator<Item = &'a mut Value> {
    let all = spec.get_mut(list).and_then(Value::as_array_mut);
    all.into_iter().flatten()
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn volumes<'a>(
    spec: &'a Value,
    path: &str,
    claims: &[&'a str],
    errors: &mut Vec<FieldError>,
) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (at, volume) in items(&spec["volumes"]).iter().enumerate() {
        let path = format!("{path}.volumes[{at}].name");
        match text(&volume["name"]) {
            "" => errors.push(FieldError::required(path, "")),
            name if !names.insert(name) => {
                errors.push(FieldError::duplicate(path, &volume["name"]))
            }
            _ => {}
        }
    }
    names.extend(claims);
    names
}

fn name<'a>(
    container: &'a Value,
    path: &str,
    names: &mut BTreeSet<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    let field = format!("{path}.name");
    match text(&container["name"]) {
        "" => errors.push(FieldError::required(field, "")),
        name if !names.insert(name) => {
            errors.push(FieldError::duplicate(field, &container["name"]));
        }
        _ => {}
    }
    if text(&container["image"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.image"), ""));
    }
}

fn mounts(container: &Value, path: &str, volumes: &BTreeSet<&str>, errors: &mut Vec<FieldError>) {
    let mut places = BTreeSet::new();
    for (at, mount) in items(&container["volumeMounts"]).iter().enumerate() {
        let path = format!("{path}.volumeMounts[{at}]");
        match text(&mount["name"]) {
            "" => errors.push(FieldError::required(format!("{path}.name"), "")),
            name if !volumes.contains(name) => {
                errors.push(FieldError::not_found(
                    format!("{path}.name"),
                    &mount["name"],
                ));
            }
            _ => {}
        }
        match text(&mount["mountPath"]) {
            "" => errors.push(FieldError::required(format!("{path}.mountPath"), "")),
            place if !places.insert(place) => {
                let path = format!("{path}.mountPath");
                errors.push(FieldError::invalid(
                    path,
                    &mount["mountPath"],
                    "must be unique",
                ));
            }
            _ => {}
        }
    }
}

/// Amounts are not negative, and a request is no more than its limit.
fn resources(resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let amounts = |kind: &str| {
        let amounts = resources[kind].as_object().into_iter().flatten();
        amounts
            .filter_map(|(name, amount)| Some((name, amount, Quantity::parse(amount.as_str()?)?)))
    };
    for kind in ["limits", "requests"] {
        for (name, amount, quantity) in amounts(kind) {
            if quantity.sign() < 0 {
                let path = format!("{path}.resources.{kind}[{name}]");
                let detail = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(path, amount, detail));
            }
        }
    }
    for (name, amount, request) in amounts("requests") {
        let limit = resources["limits"][name].as_str().and_then(Quantity::parse);
        if let Some(limit) = limit.filter(|limit| request > *limit) {
            let detail = format!(
                "must be less than or equal to {name} limit of {}",
                limit.canonical()
            );
            let path = format!("{path}.resources.requests");
            errors.push(FieldError::invalid(path, amount, &detail));
        }
    }
}
