//! Why an object is not ready. Entry point: [`readiness`].

use super::{Condition, ConditionStatus, Object};

/// Why an object is not ready; `None` if it is. Deployments, StatefulSets, Services, Jobs and PersistentVolumeClaims are ready by
/// their own rules, other objects by their condition `Ready`, else `Available`. An object without them is ready once it exists.
#[must_use]
pub fn readiness(object: &Object) -> Option<String> {
    if object.is_deleting() {
        return Some("it is being deleted".to_owned());
    }
    let kind = object.gvk();
    match (&*kind.group, &*kind.kind) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("", "Service") => service(object),
        ("batch", "Job") => job(object),
        ("", "PersistentVolumeClaim") => {
            let bound = object.text_at("/status/phase") == Some("Bound");
            (!bound).then(|| "it is not bound".to_owned())
        }
        _ => other(object),
    }
}

fn deployment(object: &Object) -> Option<String> {
    let (wanted, updated) = (wanted(object), number(object, "/status/updatedReplicas"));
    let available = number(object, "/status/availableReplicas");
    let old = number(object, "/status/replicas") - updated;
    let stuck = object.condition("Progressing").filter(|progressing| {
        let late = progressing.reason == "ProgressDeadlineExceeded";
        late && progressing.status == ConditionStatus::False
    });
    if is_older(object, Some(number(object, "/status/observedGeneration"))) {
        return Some(unseen(object));
    }
    if let Some(stuck) = stuck {
        return Some(stuck.said());
    }
    if updated < wanted {
        return Some(format!("{updated} of {wanted} replicas are updated"));
    }
    if old > 0 {
        return Some(format!("{old} old replicas are left"));
    }
    (available < wanted).then(|| format!("{available} of {wanted} replicas are available"))
}

fn stateful_set(object: &Object) -> Option<String> {
    let (wanted, updated) = (wanted(object), number(object, "/status/updatedReplicas"));
    let ready = number(object, "/status/readyReplicas");
    let newer = wanted - number(object, "/spec/updateStrategy/rollingUpdate/partition");
    let on_delete = object.text_at("/spec/updateStrategy/type") == Some("OnDelete");
    if is_older(object, Some(number(object, "/status/observedGeneration"))) {
        return Some(unseen(object));
    }
    if updated < newer && !on_delete {
        return Some(format!("{updated} of {newer} replicas are updated"));
    }
    (ready < wanted).then(|| format!("{ready} of {wanted} replicas are ready"))
}

fn service(object: &Object) -> Option<String> {
    let balanced = object.text_at("/spec/type") == Some("LoadBalancer");
    let addresses = object.at("/status/loadBalancer/ingress");
    let none = addresses
        .and_then(|all| all.as_array())
        .is_none_or(Vec::is_empty);
    (balanced && none).then(|| "its load balancer has no address".to_owned())
}

fn job(object: &Object) -> Option<String> {
    let is = |condition: &Condition| condition.status == ConditionStatus::True;
    if let Some(failed) = object.condition("Failed").filter(is) {
        return Some(failed.said());
    }
    let complete = object.condition("Complete").filter(is).is_some();
    (!complete).then(|| "it is not complete".to_owned())
}

fn other(object: &Object) -> Option<String> {
    let ready = object.condition("Ready");
    let found = ready.or_else(|| object.condition("Available"))?;
    let observed = object
        .at("/status/observedGeneration")
        .and_then(|at| at.as_i64());
    if is_older(object, found.observed_generation) || is_older(object, observed) {
        return Some(unseen(object));
    }
    (found.status != ConditionStatus::True).then(|| found.said())
}

fn number(object: &Object, pointer: &str) -> i64 {
    object.at(pointer).and_then(|at| at.as_i64()).unwrap_or(0)
}

fn wanted(object: &Object) -> i64 {
    object
        .at("/spec/replicas")
        .and_then(|at| at.as_i64())
        .unwrap_or(1)
}

/// Whether something is of an older generation than the object; what names none is not.
fn is_older(object: &Object, observed: Option<i64>) -> bool {
    observed.is_some_and(|observed| observed < number(object, "/metadata/generation"))
}

fn unseen(object: &Object) -> String {
    let generation = number(object, "/metadata/generation");
    format!("its controller has not seen its generation {generation}")
}
