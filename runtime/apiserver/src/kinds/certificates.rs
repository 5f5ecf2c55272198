//! CertificateSigningRequests: who asks, and the conditions by which one is approved or denied. No certificate is issued, and the
//! request's signature is not checked.

use serde_json::{Value, json};

use crate::part::Part;
use crate::stamp::now;
use crate::status::FieldError;

const CONDITIONS: &str = "status.conditions";
/// Conditions that are never false.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];
/// Conditions that only the approval sets.
const APPROVAL: [&str; 2] = ["Approved", "Denied"];
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Notes who asks.
pub(super) fn begin(body: &mut Value) {
    let Some(spec) = body["spec"].as_object_mut() else {
        return;
    };
    for field in ["uid", "extra"] {
        spec.remove(field);
    }
    spec.insert("username".into(), "system:admin".into());
    let groups = json!(["system:masters", "system:authenticated"]);
    spec.insert("groups".into(), groups);
    body["status"] = json!({});
}

/// Conditions get their times; the approval stays as it is where something else is written.
pub(super) fn update(part: Part, old: &Value, new: &mut Value) {
    if part == Part::Main {
        new["spec"] = old["spec"].clone();
    }
    if !matches!(part, Part::Status | Part::Approval) {
        return;
    }
    let before = items(&old["status"]["conditions"]);
    let after = new
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in after.into_iter().flatten() {
        let same = before.iter().find(|one| one["type"] == condition["type"]);
        if part == Part::Status
            && let Some(same) = same.filter(|one| APPROVAL.iter().any(|kind| one["type"] == *kind))
        {
            *condition = same.clone();
        }
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now().into();
        }
        if condition["lastTransitionTime"].is_null() {
            let since = same
                .filter(|one| one["status"] == condition["status"])
                .map(|one| one["lastTransitionTime"].clone())
                .filter(|time| !time.is_null());
            condition["lastTransitionTime"] = since.unwrap_or_else(|| now().into());
        }
    }
}

pub(super) fn validate(new: &Value, old: Option<(&Value, Part)>, errors: &mut Vec<FieldError>) {
    if old.is_none() {
        spec(&new["spec"], errors);
    }
    let conditions = items(&new["status"]["conditions"]);
    each_condition(conditions, errors);
    let Some((old, part)) = old else {
        return;
    };
    let before = items(&old["status"]["conditions"]);
    let count = |list: &[Value], kind: &str| list.iter().filter(|one| one["type"] == kind).count();
    for kind in FINAL {
        if count(conditions, kind) < count(before, kind) {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.push(FieldError::forbidden(CONDITIONS, &detail));
        }
    }
    for kind in APPROVAL.iter().filter(|_| part != Part::Approval) {
        if count(conditions, kind) > count(before, kind) {
            let detail = format!("updates may not add a condition of type {kind:?}");
            errors.push(FieldError::forbidden(CONDITIONS, &detail));
        }
    }
    let certificate = |object: &Value| object["status"]["certificate"].clone();
    if certificate(new) != certificate(old) && !certificate(old).is_null() {
        let detail = "updates may not modify existing certificate content";
        errors.push(FieldError::forbidden("status.certificate", detail));
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn spec(spec: &Value, errors: &mut Vec<FieldError>) {
    let usages = items(&spec["usages"]);
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    for (at, usage) in usages.iter().enumerate() {
        if !USAGES.iter().any(|known| usage == known) {
            let known = USAGES.map(str::to_owned);
            let path = format!("spec.usages[{at}]");
            errors.push(FieldError::not_supported(path, usage, &known));
        }
    }
    for (at, usage) in usages.iter().enumerate() {
        if usages[..at].contains(usage) {
            let path = format!("spec.usages[{at}]");
            errors.push(FieldError::duplicate(path, usage));
        }
    }
    let signer = spec["signerName"].as_str().unwrap_or_default();
    let wrong = |detail: &str| FieldError::invalid("spec.signerName", &spec["signerName"], detail);
    match signer.split('/').count() {
        _ if signer.is_empty() => errors.push(FieldError::required("spec.signerName", "")),
        _ if signer == "kubernetes.io/legacy-unknown" => {
            errors.push(wrong(
                "the legacy signerName is not allowed via this API version",
            ));
        }
        2 => {}
        _ => errors.push(wrong(
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        )),
    }
    if let Some(seconds) = spec["expirationSeconds"]
        .as_i64()
        .filter(|time| *time < 600)
    {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        let error = FieldError::invalid("spec.expirationSeconds", &seconds.into(), detail);
        errors.push(error);
    }
}

fn each_condition(conditions: &[Value], errors: &mut Vec<FieldError>) {
    let has = |list: &[Value], kind: &str| list.iter().any(|one| one["type"] == kind);
    for (at, condition) in conditions.iter().enumerate() {
        let path = format!("{CONDITIONS}[{at}]");
        let kind = condition["type"].as_str().unwrap_or_default();
        if kind.is_empty() {
            errors.push(FieldError::required(format!("{path}.type"), ""));
        }
        let allowed: &[&str] = if FINAL.contains(&kind) {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        match condition["status"].as_str().unwrap_or_default() {
            "" => errors.push(FieldError::required(format!("{path}.status"), "")),
            status if !allowed.contains(&status) => {
                let allowed: Vec<String> = allowed.iter().map(|&one| one.to_owned()).collect();
                let path = format!("{path}.status");
                errors.push(FieldError::not_supported(
                    path,
                    &condition["status"],
                    &allowed,
                ));
            }
            _ => {}
        }
        let earlier = &conditions[..at];
        let excluded = match kind {
            "Approved" => has(earlier, "Denied"),
            "Denied" => has(earlier, "Approved"),
            _ => false,
        };
        if excluded {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(CONDITIONS, &condition["type"], detail));
        }
        if has(earlier, kind) {
            let path = format!("{path}.type");
            errors.push(FieldError::duplicate(path, &condition["type"]));
        }
    }
}
