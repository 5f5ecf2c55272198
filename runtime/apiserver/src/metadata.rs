//! Object metadata: what the server sets on a create ([`begin`]), keeps on an update ([`keep`]) and checks ([`validate`]).

use serde_json::{Map, Value};

use crate::resource::Resource;
use crate::selector::{label_key, label_value};
use crate::stamp;
use crate::status::FieldError;

/// Set by the server alone; a client's value is overwritten by the stored one.
const SERVER_OWNED: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

/// Gives a new object its name, uid, times and generation.
pub(crate) fn begin(resource: &Resource, namespace: &str, body: &mut Value, now: String) {
    let Some(metadata) = body["metadata"].as_object_mut() else {
        return;
    };
    for field in SERVER_OWNED.iter().chain(&["resourceVersion"]) {
        metadata.remove(*field);
    }
    let named = metadata
        .get("name")
        .and_then(Value::as_str)
        .is_some_and(|name| !name.is_empty());
    let prefix = metadata
        .get("generateName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !named && !prefix.is_empty() {
        let name = stamp::name(prefix);
        metadata.insert("name".into(), name.into());
    }
    if !namespace.is_empty() {
        metadata.insert("namespace".into(), namespace.into());
    }
    metadata.insert("uid".into(), stamp::uid().into());
    metadata.insert("creationTimestamp".into(), now.into());
    if resource.generations() {
        metadata.insert("generation".into(), 1.into());
    }
}

/// Puts what only the server sets back to what is stored.
pub(crate) fn keep(old: &Map<String, Value>, new: &mut Map<String, Value>) {
    for field in SERVER_OWNED {
        match old.get(field) {
            Some(value) => new.insert(field.to_owned(), value.clone()),
            None => new.remove(field),
        };
    }
}

/// Names, labels, annotations, finalizers and owner references.
pub(crate) fn validate(
    resource: &Resource,
    metadata: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    if old.is_none() {
        validate_name(resource, metadata, errors);
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if !label_key(key) {
            errors.push(FieldError::invalid(
                "metadata.labels",
                &Value::from(key.as_str()),
                QUALIFIED,
            ));
        }
        if let Some(text) = value.as_str().filter(|text| !label_value(text)) {
            let detail = if text.len() > 63 {
                "must be no more than 63 bytes"
            } else {
                LABEL
            };
            errors.push(FieldError::invalid("metadata.labels", value, detail));
        }
    }
    let annotations = metadata["annotations"].as_object();
    for key in annotations
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
        .filter(|key| !label_key(&key.to_lowercase()))
    {
        errors.push(FieldError::invalid(
            "metadata.annotations",
            &Value::from(key.as_str()),
            QUALIFIED,
        ));
    }
    let size: usize = annotations
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len())
        .sum();
    if size > 256 * 1024 {
        errors.push(FieldError::too_long("metadata.annotations", 256 * 1024));
    }
    validate_owners(metadata, errors);
    let finalizers = |of: &Value| -> Vec<String> {
        of["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    if let Some(old) = old.filter(|old| old.get("deletionTimestamp").is_some()) {
        let known = finalizers(old);
        let added: Vec<String> = finalizers(metadata)
            .into_iter()
            .filter(|one| !known.contains(one))
            .collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|one| format!("{one:?}")).collect();
            let text = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            // Two validations find this error and list it as a cause; the message has it once.
            errors.push(FieldError::forbidden("metadata.finalizers", &text));
            errors.push(FieldError::forbidden("metadata.finalizers", &text));
        }
    }
}

fn validate_owners(metadata: &Value, errors: &mut Vec<FieldError>) {
    let owners = metadata["ownerReferences"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for owner in owners {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences.{field}");
                let what = if field == "apiVersion" {
                    "version "
                } else {
                    ""
                };
                let detail = format!("{what}must not be empty");
                errors.push(FieldError::invalid(path, &Value::from(""), &detail));
            }
        }
    }
    let controllers = owners
        .iter()
        .filter(|owner| owner["controller"] == true)
        .count();
    if controllers > 1 {
        let text =
            "Only one reference can have Controller set to true. Found \"true\" in references for";
        errors.push(FieldError::invalid(
            "metadata.ownerReferences",
            &metadata["ownerReferences"],
            text,
        ));
    }
}

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

fn validate_name(resource: &Resource, metadata: &Value, errors: &mut Vec<FieldError>) {
    let name = metadata["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
        return;
    }
    let edge = |part: &str| {
        let fine = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        fine(part.as_bytes().first()) && fine(part.as_bytes().last())
    };
    let label = |part: &str| {
        edge(part)
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    let invalid = |detail: &str| FieldError::invalid("metadata.name", &Value::from(name), detail);
    if resource.group == "certificates.k8s.io" {
        // Any segment of a path will do.
    } else if resource.group == "rbac.authorization.k8s.io" {
        if name.contains('/') || name.contains('%') {
            errors.push(invalid("may not contain '/' or '%'"));
        }
    } else if resource.is("", "namespaces") || resource.is("", "services") {
        if name.len() > 63 {
            errors.push(invalid("must be no more than 63 bytes"));
        } else if !label(name) {
            errors.push(invalid(DNS_LABEL));
        }
    } else if name.len() > 253 {
        errors.push(invalid("must be no more than 253 bytes"));
    } else if !name.split('.').all(label) {
        errors.push(invalid(SUBDOMAIN));
    }
}
