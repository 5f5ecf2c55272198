//! Services: ports and a cluster address, without a network behind it.

use serde_json::{Value, json};

use crate::state::State;
use crate::status::FieldError;

pub(super) fn default(body: &mut Value) {
    for port in body
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if port
            .get("targetPort")
            .is_none_or(|target| target == 0 || target == "")
        {
            port["targetPort"] = port["port"].clone();
        }
    }
    if !external(body) {
        let spec = &mut body["spec"];
        if spec.get("internalTrafficPolicy").is_none() {
            spec["internalTrafficPolicy"] = "Cluster".into();
        }
        if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"))
            && spec.get("externalTrafficPolicy").is_none()
        {
            spec["externalTrafficPolicy"] = "Cluster".into();
        }
    }
}

fn external(body: &Value) -> bool {
    body["spec"]["type"] == "ExternalName"
}

/// An update that does not name the address keeps it.
pub(super) fn keep_cluster_ip(old: &Value, new: &mut Value) {
    if external(new) {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if new["spec"].get(field).is_none_or(|value| value == "")
            && old["spec"].get(field).is_some()
        {
            new["spec"][field] = old["spec"][field].clone();
        }
    }
}

impl State {
    /// Gives a service an address of 10.96.0.0/16 unless it has one or wants none.
    pub(crate) fn allocate_cluster_ip(&mut self, body: &mut Value) {
        if external(body) || !body["spec"].is_object() {
            return;
        }
        let spec = &mut body["spec"];
        if spec["clusterIP"].as_str().unwrap_or_default().is_empty() {
            self.next_ip = self.next_ip % 65_000 + 1;
            spec["clusterIP"] =
                format!("10.96.{}.{}", self.next_ip / 256, self.next_ip % 256).into();
        }
        let address = spec["clusterIP"].clone();
        for (field, value) in [
            ("clusterIPs", json!([address])),
            ("ipFamilies", json!(["IPv4"])),
            ("ipFamilyPolicy", json!("SingleStack")),
        ] {
            if spec.get(field).is_none() {
                spec[field] = value;
            }
        }
    }
}

pub(super) fn validate(new: &Value, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    let ports = spec["ports"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if ports.is_empty() && !external(new) && spec["clusterIP"] != "None" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (at, port) in ports.iter().enumerate() {
        if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("spec.ports[{at}].name"), ""));
        }
        let number = port["port"].as_i64().unwrap_or_default();
        if !(1..=65_535).contains(&number) {
            errors.push(FieldError::invalid(
                format!("spec.ports[{at}].port"),
                &number.into(),
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
}
