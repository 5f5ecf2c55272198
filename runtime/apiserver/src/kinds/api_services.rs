//! APIServices: they are kept, and no other server is asked for the group that one names.

use serde_json::{Value, json};

use crate::stamp::now;
use crate::status::FieldError;

pub(super) fn default(body: &mut Value) {
    if let Some(service) = body["spec"]
        .get_mut("service")
        .filter(|service| service.is_object())
        && service.get("port").is_none()
    {
        service["port"] = json!(443);
    }
}

/// A group without a service is the server's own.
pub(super) fn begin(body: &mut Value) {
    body["status"] = json!({});
    if body["spec"].get("service").is_none() {
        body["status"]["conditions"] = json!([{"type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available", "lastTransitionTime": now()}]);
    }
}

pub(super) fn validate(new: &Value, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = format!("{}.{}", text(&spec["version"]), text(&spec["group"]));
    if new["metadata"]["name"] != *name {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {name:?}");
        let error = FieldError::invalid("metadata.name", &new["metadata"]["name"], &detail);
        errors.push(error);
    }
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let number = spec[field].as_i64().unwrap_or_default();
        if !(1..=most).contains(&number) {
            let detail = format!("must be positive and less than {most}");
            let path = format!("spec.{field}");
            errors.push(FieldError::invalid(path, &number.into(), &detail));
        }
    }
    let Some(service) = spec.get("service") else {
        return;
    };
    for field in ["namespace", "name"] {
        if text(&service[field]).is_empty() {
            errors.push(FieldError::required(format!("spec.service.{field}"), ""));
        }
    }
    if spec["insecureSkipTLSVerify"] == true && !text(&spec["caBundle"]).is_empty() {
        let detail = "may not be true if caBundle is present";
        let error = FieldError::invalid("spec.insecureSkipTLSVerify", &true.into(), detail);
        errors.push(error);
    }
}
