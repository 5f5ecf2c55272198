//! Pods and the kinds that carry a pod template.

use serde_json::{Value, json};

use super::containers::{self, containers_mut};
use crate::resource::Resource;
use crate::stamp::now;
use crate::status::FieldError;

pub(super) fn default_template(body: &mut Value) {
    if let Some(spec) = body.pointer_mut("/spec/template/spec") {
        default_pod_spec(spec);
    }
}

pub(super) fn default_pod(body: &mut Value) {
    default_pod_spec(&mut body["spec"]);
    default_requests(&mut body["spec"]);
    if body["spec"].get("enableServiceLinks").is_none() {
        body["spec"]["enableServiceLinks"] = true.into();
    }
}

/// A container of a pod asks for its limits where it says nothing else.
fn default_requests(spec: &mut Value) {
    for list in ["containers", "initContainers"] {
        for container in containers_mut(spec, list) {
            let limits = container.pointer("/resources/limits");
            for (name, limit) in limits
                .and_then(Value::as_object)
                .cloned()
                .into_iter()
                .flatten()
            {
                let requests = &mut container["resources"]["requests"];
                if requests.get(&name).is_none() {
                    requests[&name] = limit;
                }
            }
        }
    }
}

/// What admission adds to a pod: its priority and how long it stays on a node that is lost.
pub(super) fn admit_pod(spec: &mut Value) {
    if spec.get("priorityClassName").is_none() && spec.get("priority").is_none() {
        spec["priority"] = json!(0);
        spec["preemptionPolicy"] = "PreemptLowerPriority".into();
    }
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        if !tolerations
            .iter()
            .any(|toleration| toleration["key"] == key)
        {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec["tolerations"] = tolerations.into();
}

/// A daemon set says in an annotation how often its template changed.
pub(super) fn default_daemon_set(body: &mut Value) {
    default_template(body);
    let metadata = &mut body["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    let generation = &mut metadata["annotations"]["deprecated.daemonset.template.generation"];
    if generation.is_null() {
        *generation = "1".into();
    }
}

pub(super) fn default_job(body: &mut Value) {
    default_template(body);
    for (field, value) in [
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
        ("suspend", json!(false)),
        ("completions", json!(1)),
        ("parallelism", json!(1)),
        ("manualSelector", json!(false)),
    ] {
        if body["spec"].get(field).is_none() {
            body["spec"][field] = value;
        }
    }
    let labels = body.pointer("/spec/template/metadata/labels").cloned();
    if let (Some(labels), None) = (labels, body["metadata"].get("labels")) {
        body["metadata"]["labels"] = labels;
    }
}

pub(super) fn default_cron_job(body: &mut Value) {
    if let Some(spec) = body.pointer_mut("/spec/jobTemplate/spec/template/spec") {
        default_pod_spec(spec);
    }
}

pub(super) fn default_pod_spec(spec: &mut Value) {
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in containers_mut(spec, list) {
            let image = container["image"].as_str().unwrap_or_default().to_owned();
            if container.get("imagePullPolicy").is_none() {
                let latest = !image.contains('@')
                    && image
                        .rsplit('/')
                        .next()
                        .is_none_or(|last| !last.contains(':') || last.ends_with(":latest"));
                container["imagePullPolicy"] =
                    if latest { "Always" } else { "IfNotPresent" }.into();
            }
        }
    }
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        spec["serviceAccount"] = account;
    } else if let Some(account) = spec.get("serviceAccount").cloned() {
        spec["serviceAccountName"] = account;
    }
}

/// A pod with gates says that it is not scheduled yet.
pub(super) fn hold_at_gates(pod: &mut Value) {
    let gates = pod["spec"]["schedulingGates"].as_array();
    if gates.is_none_or(Vec::is_empty) {
        return;
    }
    pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates", "lastProbeTime": null, "lastTransitionTime": now()}]);
}

/// The class that the kubelet would evict by.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let containers = spec["containers"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let full = |map: &Value| map["cpu"].is_string() && map["memory"].is_string();
    let none = |container: &Value| {
        ["limits", "requests"]
            .iter()
            .all(|kind| container["resources"].get(*kind).is_none())
    };
    if containers.iter().all(none) {
        return "BestEffort";
    }
    let guaranteed = |container: &Value| {
        let resources = &container["resources"];
        full(&resources["limits"])
            && (resources.get("requests").is_none() || resources["requests"] == resources["limits"])
    };
    if containers.iter().all(guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Counters of a status that are written even where they are zero.
pub(super) fn zero_counts(resource: &Resource, body: &mut Value) {
    let counts: &[&str] = match resource.plural.as_str() {
        "statefulsets" => &["availableReplicas"],
        "poddisruptionbudgets" => &[
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ],
        _ => return,
    };
    for count in counts {
        if body["status"].get(*count).is_none() {
            body["status"][*count] = json!(0);
        }
    }
}

/// A job without a selector selects its own pods by its uid.
pub(super) fn select_job_pods(body: &mut Value) {
    body["status"] = json!({});
    if body["spec"]["manualSelector"] == true {
        return;
    }
    let (uid, name) = (
        body["metadata"]["uid"].clone(),
        body["metadata"]["name"].clone(),
    );
    body["spec"]["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    let template = &mut body["spec"]["template"];
    if !template["metadata"].is_object() {
        template["metadata"] = json!({});
    }
    if !template["metadata"]["labels"].is_object() {
        template["metadata"]["labels"] = json!({});
    }
    let labels = &mut template["metadata"]["labels"];
    labels["batch.kubernetes.io/controller-uid"] = uid.clone();
    labels["controller-uid"] = uid;
    labels["batch.kubernetes.io/job-name"] = name.clone();
    labels["job-name"] = name;
    let labels = labels.clone();
    if body["metadata"].get("labels").is_none() {
        body["metadata"]["labels"] = labels;
    }
}

pub(super) fn validate_pod(new: &Value, created: bool, errors: &mut Vec<FieldError>) {
    containers::check(&new["spec"], "spec", &[], errors);
    if created && new["spec"].get("ephemeralContainers").is_some() {
        let detail = "cannot be set on create";
        errors.push(FieldError::forbidden("spec.ephemeralContainers", detail));
    }
}

/// The pods of a job end, and so does the one of a run of a cron job.
pub(super) fn validate_job(new: &Value, errors: &mut Vec<FieldError>) {
    let (path, spec) = if new["spec"].get("jobTemplate").is_some() {
        (
            "spec.jobTemplate.spec.template.spec",
            &new["spec"]["jobTemplate"]["spec"],
        )
    } else {
        ("spec.template.spec", &new["spec"])
    };
    let spec = &spec["template"]["spec"];
    containers::check(spec, path, &[], errors);
    if !matches!(spec["restartPolicy"].as_str(), Some("OnFailure" | "Never")) {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        errors.push(FieldError::required(
            format!("{path}.restartPolicy"),
            detail,
        ));
    }
}

pub(super) fn validate(resource: &Resource, new: &Value, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    if let Some(count) = spec["replicas"].as_i64().filter(|count| *count < 0) {
        errors.push(FieldError::invalid(
            "spec.replicas",
            &count.into(),
            "must be greater than or equal to 0",
        ));
    }
    let selector = spec["selector"]["matchLabels"].as_object();
    let expressions = spec["selector"]["matchExpressions"].as_array();
    if spec.get("selector").is_none_or(Value::is_null) {
        errors.push(FieldError::required("spec.selector", ""));
    } else if selector.is_none_or(serde_json::Map::is_empty)
        && expressions.is_none_or(Vec::is_empty)
    {
        errors.push(FieldError::invalid(
            "spec.selector",
            &json!({}),
            &format!("empty selector is invalid for {}", shown(resource)),
        ));
    }
    let labels = spec["template"]["metadata"]["labels"].as_object();
    let present = spec
        .get("selector")
        .is_some_and(|selector| !selector.is_null());
    let matches = present
        && selector
            .into_iter()
            .flatten()
            .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value));
    if !matches {
        let value = labels.map_or_else(|| json!({}), |labels| Value::Object(labels.clone()));
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            &value,
            "`selector` does not match template `labels`",
        ));
    }
    let claims = spec["volumeClaimTemplates"]
        .as_array()
        .into_iter()
        .flatten();
    let claims: Vec<&str> = claims
        .filter_map(|claim| claim["metadata"]["name"].as_str())
        .collect();
    containers::check(
        &spec["template"]["spec"],
        "spec.template.spec",
        &claims,
        errors,
    );
}

fn shown(resource: &Resource) -> String {
    resource.kind.to_lowercase()
}
