//! Bindings: [`State::bind`] gives a pod its node, as a scheduler does.

use std::sync::Arc;

use serde_json::{Value, json};

use super::update::precondition_failed;
use crate::resource::Resource;
use crate::schema::decode;
use crate::stamp::now;
use crate::state::State;
use crate::status::{ApiError, FieldError, Subject};
use crate::store::Object;

impl State {
    /// Binds a pod to the node that `binding` names. The server does it on its own account: no manager owns the node's name.
    ///
    /// # Errors
    /// 400 for a binding of another name, 500 for one without a node, 409 for a pod that has a node, waits at a gate, ends, or is another.
    pub(crate) fn bind(
        &mut self,
        pods: &Arc<Resource>,
        (namespace, name): (&str, &str),
        binding: &Value,
        dry_run: bool,
    ) -> Result<(), ApiError> {
        check(binding, name)?;
        let live = Arc::clone(self.object(pods, namespace, name)?);
        check_preconditions(pods, &live, &binding["metadata"])?;
        let mut pod = live.value();
        if let Some(why) = unbindable(&pod, name) {
            let subject = Subject {
                plural: "pods/binding",
                ..pods.subject()
            };
            return Err(ApiError::conflict(subject, name, &why));
        }
        pod["spec"]["nodeName"] = binding["target"]["name"].clone();
        if let Some(status) = pod["status"].as_object_mut() {
            status.remove("nominatedNodeName");
        }
        for field in ["annotations", "labels"] {
            for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
                pod["metadata"][field][key] = value.clone();
            }
        }
        let scheduled = json!({"type": "PodScheduled", "status": "True"});
        set_condition(&mut pod["status"], scheduled);
        if !dry_run {
            decode::settle(&mut pod, pods.schema());
            self.commit(&pods.collection(), pod);
        }
        Ok(())
    }
}

fn check(binding: &Value, name: &str) -> Result<(), ApiError> {
    if binding["metadata"]["name"] != name {
        let text = "name in URL does not match name in Binding object";
        return Err(ApiError::bad_request(text));
    }
    let mut errors = Vec::new();
    let kind = &binding["target"]["kind"];
    if !matches!(kind.as_str(), None | Some("" | "Node")) {
        let supported = ["Node", "<empty>"].map(str::to_owned);
        errors.push(FieldError::not_supported("target.kind", kind, &supported));
    }
    if matches!(binding["target"]["name"].as_str(), None | Some("")) {
        errors.push(FieldError::required("target.name", ""));
    }
    let texts: Vec<String> = errors.iter().map(FieldError::text).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [text] => Err(ApiError::new(500, "", text)),
        _ => Err(ApiError::new(500, "", format!("[{}]", texts.join(", ")))),
    }
}

/// The uid and the version that the binding is for, if it names them.
fn check_preconditions(pods: &Resource, live: &Object, wanted: &Value) -> Result<(), ApiError> {
    let version = live.head.version.to_string();
    for (field, word, found) in [
        ("uid", "UID", &*live.head.uid),
        ("resourceVersion", "ResourceVersion", version.as_str()),
    ] {
        let given = wanted[field].as_str().unwrap_or_default();
        if !given.is_empty() && given != found {
            return Err(precondition_failed(pods, live, word, (given, found)));
        }
    }
    Ok(())
}

fn unbindable(pod: &Value, name: &str) -> Option<String> {
    let gated = |gates: &Value| gates.as_array().is_some_and(|gates| !gates.is_empty());
    if pod["metadata"].get("deletionTimestamp").is_some() {
        return Some(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    match pod["spec"]["nodeName"].as_str() {
        Some(node) if !node.is_empty() => {
            Some(format!("pod {name} is already assigned to node {node:?}"))
        }
        _ if gated(&pod["spec"]["schedulingGates"]) => {
            Some(format!("pod {name} has non-empty .spec.schedulingGates"))
        }
        _ => None,
    }
}

/// Sets a condition of a pod.
pub(super) fn set_condition(status: &mut Value, mut condition: Value) {
    condition["lastProbeTime"] = Value::Null;
    put_condition(status, condition);
}

/// Sets a condition; its time changes with its status.
pub(super) fn put_condition(status: &mut Value, mut condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(all) = status["conditions"].as_array_mut() else {
        return;
    };
    condition["lastTransitionTime"] = now().into();
    match all.iter_mut().find(|one| one["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => all.push(condition),
    }
}
