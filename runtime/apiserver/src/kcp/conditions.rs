//! Conditions in the status of kcp's objects: [`set`].

use serde_json::{Value, json};

use crate::stamp::now;

/// Puts a condition in its place; one that says the same already is left alone, with its time.
pub(crate) fn set(object: &mut Value, kind: &str, met: Result<(), (&str, &str, &str)>) {
    let mut entry = json!({"type": kind, "status": "True", "lastTransitionTime": now()});
    if let Err((severity, reason, message)) = met {
        entry["status"] = "False".into();
        entry["severity"] = severity.into();
        entry["reason"] = reason.into();
        entry["message"] = message.into();
    }
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(list) = object["status"]["conditions"].as_array_mut() else {
        return;
    };
    let same = |one: &Value| {
        ["status", "reason", "message"]
            .iter()
            .all(|field| one.get(field) == entry.get(field))
    };
    match list.iter_mut().find(|one| one["type"] == kind) {
        Some(found) if same(found) => {}
        Some(found) => *found = entry,
        None => list.push(entry),
    }
    list.sort_by_key(|one| {
        let kind = one["type"].as_str().unwrap_or_default().to_owned();
        (kind != "Ready", kind)
    });
}

/// Whether a condition is there and met.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    let mut list = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    list.any(|one| one["type"] == kind && one["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_says_the_same_keeps_its_time() {
        let mut object = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "then"}]}});
        set(&mut object, "Ready", Ok(()));
        assert_eq!(
            object["status"]["conditions"][0]["lastTransitionTime"],
            "then"
        );
        set(&mut object, "Ready", Err(("Info", "Waiting", "not yet")));
        assert!(!is_true(&object, "Ready"));
        assert_ne!(
            object["status"]["conditions"][0]["lastTransitionTime"],
            "then"
        );
    }
}
