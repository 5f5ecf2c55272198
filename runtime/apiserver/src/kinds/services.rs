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

/// Addresses that an update leaves out are kept, those that its type does not need go, and the two fields for them follow each other.
pub(super) fn keep_addresses(old: &Value, new: &mut Value) {
    let before = &old["spec"];
    let Some(spec) = new["spec"].as_object_mut() else {
        return;
    };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let (one, other) = (text(before.get("clusterIP")), text(spec.get("clusterIP")));
    let none = |list: Option<&Value>| list.and_then(Value::as_array).is_none_or(Vec::is_empty);
    if none(spec.get("clusterIPs")) && !none(before.get("clusterIPs")) && one == other {
        spec.insert("clusterIPs".into(), before["clusterIPs"].clone());
    }
    if one != other && spec.get("clusterIPs") == before.get("clusterIPs") {
        spec.remove("clusterIPs");
        if !other.is_empty() {
            spec.insert("clusterIPs".into(), json!([other]));
        }
    }
    if spec.get("type").is_some_and(|kind| kind == "ExternalName") {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if spec.get(field) == before.get(field) {
                spec.remove(field);
            }
        }
        if spec.get("internalTrafficPolicy") == before.get("internalTrafficPolicy") {
            spec.remove("internalTrafficPolicy");
        }
        return;
    }
    if before["type"] == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let unset = spec
            .get(field)
            .is_none_or(|value| value == "" || none(Some(value)) && value.is_array());
        if let (true, Some(value)) = (unset, before.get(field)) {
            spec.insert(field.into(), value.clone());
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

pub(super) fn validate(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
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
    if let Some(old) = old.filter(|old| !external(old) && !external(new)) {
        addresses_stay(spec, &old["spec"], errors);
    }
}

/// A service that has an address, or none, goes on so.
fn addresses_stay(after: &Value, before: &Value, errors: &mut Vec<FieldError>) {
    let headless = |spec: &Value| spec["clusterIPs"] == json!(["None"]);
    for field in ["clusterIPs", "ipFamilies"] {
        let free = match field {
            "ipFamilies" => headless(before) || headless(after),
            _ => headless(before) && headless(after),
        };
        if free {
            continue;
        }
        let list = |spec: &Value| spec[field].as_array().cloned().unwrap_or_default();
        for (at, (one, other)) in list(before).iter().zip(&list(after)).enumerate() {
            if one != other {
                let path = format!("spec.{field}[{at}]");
                errors.push(FieldError::invalid(
                    path,
                    &after[field],
                    "may not change once set",
                ));
            }
        }
    }
    let balanced = |spec: &Value| spec["type"] == "LoadBalancer";
    if balanced(before)
        && balanced(after)
        && before["loadBalancerClass"] != after["loadBalancerClass"]
    {
        let class = &after["loadBalancerClass"];
        errors.push(FieldError::invalid(
            "spec.loadBalancerClass",
            class,
            "may not change once set",
        ));
    }
}
