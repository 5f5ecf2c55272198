//! What goes up: the status of the consumer's object, made from its copy's. Entry points: [`projected`], [`with_condition`], [`change`].

use crate::config::Published;
use crate::project::mutate;
use crate::template::Facts;
use crate::trouble::Condition;
use serde_json::{Map, Value, json};
use windlass_sdk::Object;

/// The status that the copy gives the consumer's object.
pub(crate) fn projected(
    published: &Published,
    source: &Object,
    copy: &Object,
    facts: &Facts,
) -> Value {
    let theirs = json!({"status": translated(source, copy)});
    let mut next = json!({"status": source.0["status"]});
    if published.up.fields.is_empty() {
        next = theirs.clone();
    }
    for path in &published.up.fields {
        match path.find(&theirs).first() {
            Some(value) => path.set(&mut next, value),
            None => path.remove(&mut next),
        }
    }
    // A field that a template needs may come later.
    drop(mutate(&published.up.mutations, &mut next, &copy.0, facts));
    next["status"].take()
}

/// The copy's status, with the generations that it has observed as generations of the consumer's object.
fn translated(source: &Object, copy: &Object) -> Value {
    let generation = |object: &Object| object.0["metadata"]["generation"].as_i64();
    let mut status = copy.0["status"].clone();
    let (Some(ours), Some(theirs)) = (generation(source), generation(copy)) else {
        return status;
    };
    let translate = |observed: &mut Value| {
        if let Some(seen) = observed.as_i64() {
            *observed = json!(if seen == theirs { ours } else { ours - 1 });
        }
    };
    if let Some(observed) = status.get_mut("observedGeneration") {
        translate(observed);
    }
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if let Some(observed) = condition.get_mut("observedGeneration") {
            translate(observed);
        }
    }
    status
}

/// The same status with a condition, in the place of the one of its type.
pub(crate) fn with_condition(
    mut status: Value,
    before: &Object,
    kind: &str,
    condition: &Condition,
    now: &str,
) -> Value {
    let is_it = |other: &Value| other["type"] == kind;
    let listed = |status: &Value| status["conditions"].as_array().cloned().unwrap_or_default();
    let previous = listed(&before.0["status"]).into_iter().find(is_it);
    let since = previous
        .filter(|previous| previous["status"] == condition.status)
        .map_or(json!(now), |previous| {
            previous["lastTransitionTime"].clone()
        });
    let mut all = listed(&status);
    all.retain(|other| !is_it(other));
    let mut ours = json!({"type": kind, "status": condition.status, "reason": condition.reason, "message": condition.message,
        "lastTransitionTime": since});
    if let Some(generation) = before.at("/metadata/generation") {
        ours["observedGeneration"] = generation.clone();
    }
    all.push(ours);
    if !status.is_object() {
        status = Value::Object(Map::new());
    }
    status["conditions"] = Value::Array(all);
    status
}

/// The merge patch that makes one status of another; `None`: they are the same.
pub(crate) fn change(before: &Value, after: &Value) -> Option<Value> {
    if before == after || (before.is_null() && after == &json!({})) {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in after {
        let changed = match before.get(name) {
            Some(before) => change(before, value),
            None => Some(value.clone()),
        };
        patch.extend(changed.map(|changed| (name.clone(), changed)));
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::published;

    fn source() -> Object {
        Object(
            json!({"metadata": {"generation": 7}, "status": {"url": "old", "mine": 1, "conditions": [
            {"type": "Synced", "status": "True", "lastTransitionTime": "then"}]}}),
        )
    }

    fn copy(observed: i64) -> Object {
        Object(
            json!({"metadata": {"generation": 3}, "status": {"url": "http://svc.ns", "secret": "s", "observedGeneration": observed,
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": observed}]}}),
        )
    }

    #[test]
    fn the_whole_status_goes_up_with_generations_of_the_consumer() {
        let status = projected(
            &published(json!({})),
            &source(),
            &copy(3),
            &Facts::default(),
        );
        assert_eq!(
            (&status["url"], &status["mine"]),
            (&json!("http://svc.ns"), &Value::Null)
        );
        assert_eq!(status["observedGeneration"], 7);
        assert_eq!(status["conditions"][0]["observedGeneration"], 7);
        let status = projected(
            &published(json!({})),
            &source(),
            &copy(2),
            &Facts::default(),
        );
        assert_eq!(
            status["observedGeneration"], 6,
            "the service has not seen it"
        );
    }

    #[test]
    fn chosen_fields_go_up_and_mutations_change_them() {
        let up = json!({"up": {"fields": ["status.url", "status.gone"], "mutations": [
            {"path": "status.host", "template": "{.status.url}/{name}"}, {"path": "status.late", "template": "{.status.late}"},
            {"path": "status.mine", "delete": true}]}});
        let facts = Facts {
            name: "bin".into(),
            ..Facts::default()
        };
        let status = projected(&published(up), &source(), &copy(3), &facts);
        let conditions = &source().0["status"]["conditions"];
        assert_eq!(
            status,
            json!({"url": "http://svc.ns", "host": "http://svc.ns/bin", "conditions": conditions})
        );
    }

    #[test]
    fn a_condition_stands_beside_those_of_the_service() {
        let status = with_condition(
            copy(3).0["status"].clone(),
            &source(),
            "Synced",
            &Condition::synced(),
            "now",
        );
        let conditions = status["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 2);
        assert_eq!(
            conditions[1]["lastTransitionTime"], "then",
            "it said so before"
        );
        let other = with_condition(
            Value::Null,
            &Object(json!({})),
            "Synced",
            &Condition::synced(),
            "now",
        );
        assert_eq!(other["conditions"][0]["lastTransitionTime"], "now");
    }

    #[test]
    fn a_patch_has_what_differs() {
        let before = json!({"a": 1, "b": {"c": 1, "d": 2}, "gone": 1, "same": [1]});
        let after = json!({"a": 2, "b": {"c": 1}, "same": [1]});
        let patch = json!({"a": 2, "b": {"d": null}, "gone": null});
        assert_eq!(change(&before, &after), Some(patch));
        assert_eq!(change(&after, &after), None);
        assert_eq!(change(&Value::Null, &json!({})), None);
    }
}
