//! Columns and cells of the built-in kinds; a kind without its own shows name and age.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use crate::resource::Resource;

type Columns = &'static [(&'static str, &'static str, i64)];

const PLAIN: Columns = &[("Name", "string", 0), ("Age", "string", 0)];

/// Name, type and priority of each column.
pub(super) fn columns(resource: &Resource) -> Columns {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "configmaps") => &[
            ("Name", "string", 0),
            ("Data", "string", 0),
            ("Age", "string", 0),
        ],
        ("", "secrets") => &[
            ("Name", "string", 0),
            ("Type", "string", 0),
            ("Data", "string", 0),
            ("Age", "string", 0),
        ],
        ("", "namespaces") => &[
            ("Name", "string", 0),
            ("Status", "string", 0),
            ("Age", "string", 0),
        ],
        ("", "pods") => &[
            ("Name", "string", 0),
            ("Ready", "string", 0),
            ("Status", "string", 0),
            ("Restarts", "string", 0),
            ("Age", "string", 0),
            ("IP", "string", 1),
            ("Node", "string", 1),
            ("Nominated Node", "string", 1),
            ("Readiness Gates", "string", 1),
        ],
        ("", "services") => &[
            ("Name", "string", 0),
            ("Type", "string", 0),
            ("Cluster-IP", "string", 0),
            ("External-IP", "string", 0),
            ("Port(s)", "string", 0),
            ("Age", "string", 0),
            ("Selector", "string", 1),
        ],
        ("", "serviceaccounts") => &[("Name", "string", 0), ("Age", "string", 0)],
        ("", "nodes") => &[
            ("Name", "string", 0),
            ("Status", "string", 0),
            ("Roles", "string", 0),
            ("Age", "string", 0),
            ("Version", "string", 0),
        ],
        ("", "events") | ("events.k8s.io", "events") => &[
            ("Last Seen", "string", 0),
            ("Type", "string", 0),
            ("Reason", "string", 0),
            ("Object", "string", 0),
            ("Subobject", "string", 1),
            ("Source", "string", 1),
            ("Message", "string", 0),
            ("First Seen", "string", 1),
            ("Count", "string", 1),
            ("Name", "string", 1),
        ],
        ("apps", "deployments") => &[
            ("Name", "string", 0),
            ("Ready", "string", 0),
            ("Up-to-date", "string", 0),
            ("Available", "string", 0),
            ("Age", "string", 0),
            ("Containers", "string", 1),
            ("Images", "string", 1),
            ("Selector", "string", 1),
        ],
        ("apps", "replicasets") => &[
            ("Name", "string", 0),
            ("Desired", "integer", 0),
            ("Current", "integer", 0),
            ("Ready", "integer", 0),
            ("Age", "string", 0),
            ("Containers", "string", 1),
            ("Images", "string", 1),
            ("Selector", "string", 1),
        ],
        ("apps", "statefulsets") => &[
            ("Name", "string", 0),
            ("Ready", "string", 0),
            ("Age", "string", 0),
            ("Containers", "string", 1),
            ("Images", "string", 1),
        ],
        ("apps", "daemonsets") => &[
            ("Name", "string", 0),
            ("Desired", "integer", 0),
            ("Current", "integer", 0),
            ("Ready", "integer", 0),
            ("Up-to-date", "integer", 0),
            ("Available", "integer", 0),
            ("Node Selector", "string", 0),
            ("Age", "string", 0),
            ("Containers", "string", 1),
            ("Images", "string", 1),
            ("Selector", "string", 1),
        ],
        ("coordination.k8s.io", "leases") => &[
            ("Name", "string", 0),
            ("Holder", "string", 0),
            ("Age", "string", 0),
        ],
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
            &[("Name", "string", 0), ("Created At", "string", 0)]
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => &[
            ("Name", "string", 0),
            ("Role", "string", 0),
            ("Age", "string", 0),
            ("Users", "string", 1),
            ("Groups", "string", 1),
            ("ServiceAccounts", "string", 1),
        ],
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            &[("Name", "string", 0), ("Created At", "date", 0)]
        }
        _ => PLAIN,
    }
}

/// The cells of one object, one per column.
pub(super) fn of(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let (name, spec, status) = (
        object["metadata"]["name"].clone(),
        &object["spec"],
        &object["status"],
    );
    let created: Value = object["metadata"]["creationTimestamp"]
        .as_str()
        .map_or_else(|| "<unknown>".to_owned(), |time| age(time, now))
        .into();
    let count = |value: &Value| value.as_i64().unwrap_or_default();
    let entries = |field: &str| object[field].as_object().map_or(0, serde_json::Map::len);
    let template = |field: &str| containers(&spec["template"]["spec"], field);
    let ready = || {
        json!(format!(
            "{}/{}",
            count(&status["readyReplicas"]),
            count(&spec["replicas"])
        ))
    };
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "configmaps") => vec![
            name,
            json!(entries("data") + entries("binaryData")),
            created,
        ],
        ("", "secrets") => vec![
            name,
            object["type"].clone(),
            json!(entries("data")),
            created,
        ],
        ("", "namespaces") => vec![name, status["phase"].clone(), created],
        ("", "pods") => pod(object, name, created),
        ("", "services") => service(object, name, created),
        ("", "nodes") => vec![
            name,
            json!(node_status(object)),
            json!(node_roles(object)),
            created,
            text(&status["nodeInfo"]["kubeletVersion"]),
        ],
        ("", "events") | ("events.k8s.io", "events") => event(object, now),
        ("apps", "deployments") => vec![
            name,
            ready(),
            json!(count(&status["updatedReplicas"])),
            json!(count(&status["availableReplicas"])),
            created,
            template("name"),
            template("image"),
            selector(&spec["selector"]["matchLabels"]),
        ],
        ("apps", "replicasets") => vec![
            name,
            json!(count(&spec["replicas"])),
            json!(count(&status["replicas"])),
            json!(count(&status["readyReplicas"])),
            created,
            template("name"),
            template("image"),
            selector(&spec["selector"]["matchLabels"]),
        ],
        ("apps", "statefulsets") => {
            vec![name, ready(), created, template("name"), template("image")]
        }
        ("apps", "daemonsets") => vec![
            name,
            json!(count(&status["desiredNumberScheduled"])),
            json!(count(&status["currentNumberScheduled"])),
            json!(count(&status["numberReady"])),
            json!(count(&status["updatedNumberScheduled"])),
            json!(count(&status["numberAvailable"])),
            selector(&spec["template"]["spec"]["nodeSelector"]),
            created,
            template("name"),
            template("image"),
            selector(&spec["selector"]["matchLabels"]),
        ],
        ("coordination.k8s.io", "leases") => vec![
            name,
            spec["holderIdentity"].as_str().unwrap_or_default().into(),
            created,
        ],
        ("rbac.authorization.k8s.io", "roles" | "clusterroles")
        | ("apiextensions.k8s.io", "customresourcedefinitions") => {
            vec![name, object["metadata"]["creationTimestamp"].clone()]
        }
        ("rbac.authorization.k8s.io", _) => {
            let role = &object["roleRef"];
            let subjects = |kind: &str| -> Value {
                let found = object["subjects"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|subject| subject["kind"] == kind);
                let names: Vec<&str> = found
                    .filter_map(|subject| subject["name"].as_str())
                    .collect();
                names.join(", ").into()
            };
            let role = format!(
                "{}/{}",
                role["kind"].as_str().unwrap_or_default(),
                role["name"].as_str().unwrap_or_default()
            );
            vec![
                name,
                role.into(),
                created,
                subjects("User"),
                subjects("Group"),
                subjects("ServiceAccount"),
            ]
        }
        _ => vec![name, created],
    }
}

fn text(value: &Value) -> Value {
    value.as_str().unwrap_or_default().into()
}

fn or_none(value: &Value) -> Value {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .unwrap_or("<none>")
        .into()
}

fn containers(spec: &Value, field: &str) -> Value {
    let list: Vec<&str> = spec["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|container| container[field].as_str())
        .collect();
    list.join(",").into()
}

fn selector(labels: &Value) -> Value {
    let pairs: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() {
        "<none>".into()
    } else {
        pairs.join(",").into()
    }
}

fn pod(object: &Value, name: Value, created: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let total = spec["containers"].as_array().map_or(0, Vec::len);
    let states: Vec<&Value> = status["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let ready = states.iter().filter(|state| state["ready"] == true).count();
    let restarts: i64 = states
        .iter()
        .filter_map(|state| state["restartCount"].as_i64())
        .sum();
    let waiting = states
        .iter()
        .find_map(|state| state["state"]["waiting"]["reason"].as_str());
    let shown = if object["metadata"].get("deletionTimestamp").is_some() {
        "Terminating"
    } else {
        waiting
            .or(status["reason"].as_str())
            .or(status["phase"].as_str())
            .unwrap_or("Unknown")
    };
    vec![
        name,
        json!(format!("{ready}/{total}")),
        shown.into(),
        json!(restarts.to_string()),
        created,
        or_none(&status["podIP"]),
        or_none(&spec["nodeName"]),
        or_none(&status["nominatedNodeName"]),
        "<none>".into(),
    ]
}

fn service(object: &Value, name: Value, created: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let port = |port: &Value| {
        let node = port["nodePort"]
            .as_i64()
            .map(|node| format!(":{node}"))
            .unwrap_or_default();
        format!(
            "{}{node}/{}",
            port["port"],
            port["protocol"].as_str().unwrap_or("TCP")
        )
    };
    let ports: Vec<String> = spec["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(port)
        .collect();
    let ports = if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    };
    let external = match spec["type"].as_str() {
        Some("LoadBalancer") => "<pending>".into(),
        Some("ExternalName") => spec["externalName"].clone(),
        _ => "<none>".into(),
    };
    vec![
        name,
        spec["type"].clone(),
        or_none(&spec["clusterIP"]),
        external,
        ports.into(),
        created,
        selector(&spec["selector"]),
    ]
}

fn node_status(object: &Value) -> String {
    let ready = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let status = match ready.and_then(|condition| condition["status"].as_str()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if object["spec"]["unschedulable"] == true {
        format!("{status},SchedulingDisabled")
    } else {
        status.to_owned()
    }
}

fn node_roles(object: &Value) -> String {
    let labels = object["metadata"]["labels"].as_object();
    let roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    }
}

/// An event in either of its versions.
fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &str, new: &str| {
        object
            .get(core)
            .or_else(|| object.get(new))
            .cloned()
            .unwrap_or_default()
    };
    let since = |times: &[Value]| -> Value {
        let found = times.iter().find_map(Value::as_str);
        found
            .map_or_else(|| "<unknown>".to_owned(), |time| age(time, now))
            .into()
    };
    let about = either("involvedObject", "regarding");
    let target = format!(
        "{}/{}",
        about["kind"].as_str().unwrap_or_default().to_lowercase(),
        about["name"].as_str().unwrap_or_default()
    );
    let event_time = object["eventTime"].clone();
    let last = since(&[
        object["series"]["lastObservedTime"].clone(),
        either("lastTimestamp", "deprecatedLastTimestamp"),
        event_time.clone(),
    ]);
    let first = since(&[
        either("firstTimestamp", "deprecatedFirstTimestamp"),
        event_time,
    ]);
    let source = either("source", "deprecatedSource")["component"]
        .as_str()
        .map_or_else(
            || either("reportingComponent", "reportingController"),
            Value::from,
        );
    let count = object["series"]["count"]
        .as_i64()
        .or_else(|| either("count", "deprecatedCount").as_i64())
        .unwrap_or(1);
    vec![
        last,
        text(&object["type"]),
        text(&object["reason"]),
        target.into(),
        text(&about["fieldPath"]),
        text(&source),
        json!(
            either("message", "note")
                .as_str()
                .unwrap_or_default()
                .trim()
        ),
        first,
        json!(count.to_string()),
        object["metadata"]["name"].clone(),
    ]
}
