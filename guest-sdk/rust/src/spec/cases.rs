//! What the cases do, and whether it comes out as they say.

use super::{Script, failure, key_of, kind_of, name_of};
use crate::cluster::fingerprint;
use crate::error::settled;
use crate::raw::Handle;
use crate::testing::TestFleet;
use crate::{
    Action, ApiError, Cluster, Condition, Dependents, Effect, Error, ListOptions, Object, Resource,
    Result, Written, readiness,
};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

fn object(value: &Value) -> Object {
    Object(value.clone())
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs(value.as_u64().expect("seconds"))
}

/// What is shown of a condition that was read: the fields that a case has.
fn condition(of: &Condition) -> Value {
    let mut shown = json!({
        "type": of.kind, "status": of.status.as_str(), "reason": of.reason, "message": of.message,
        "observedGeneration": of.observed_generation, "lastTransitionTime": of.last_transition_time,
    });
    let fields = shown.as_object_mut().expect("fields");
    fields.retain(|_, value| !value.is_null());
    shown
}

fn written(written: &Written<Object>) -> Value {
    let effect = match written.effect {
        Effect::Created => "created",
        Effect::Updated => "updated",
        Effect::Unchanged => "unchanged",
    };
    assert_eq!(written.changed(), effect != "unchanged");
    json!({"effect": effect, "object": written.object})
}

fn reconciled(result: Result<Action>) -> Result<Value> {
    Ok(match settled(result)? {
        Action::Done => json!({"done": true}),
        Action::RequeueAfterMs(after) => json!({"requeueAfterMs": after}),
    })
}

fn declared(with: &Value, script: &Script) -> Dependents<'static> {
    let mut parts = Dependents::new();
    for kind in with["kinds"].as_array().expect("kinds") {
        let kind = kind_of(kind);
        parts = parts.kind(&kind.api_version(), &kind.kind);
        let recreate = with["recreate"].as_array().into_iter().flatten();
        if recreate.map(kind_of).any(|of| of == kind) {
            parts = parts.recreate();
        }
    }
    if let Some(finalizer) = with["finalizer"].as_str() {
        parts = parts.finalizer(finalizer);
    }
    if with["status"].is_object() {
        parts = parts.status(with["status"].clone());
    }
    if with["recheckSeconds"].is_u64() {
        parts = parts.recheck(seconds(&with["recheckSeconds"]));
    }
    if with["ready"].is_object() {
        let ready = with["ready"].clone();
        parts = parts.ready(move |object| match ready[object.kind().kind].as_str() {
            Some(why) => Some(why.to_owned()),
            None => readiness(object),
        });
    }
    if with["cleanup"].is_object() {
        let (cleanup, script) = (with["cleanup"].clone(), script.clone());
        parts = parts.cleanup(move || {
            assert_eq!(script.next(), json!({"call": "cleanup"}));
            if let Some(waits) = cleanup.get("notReady") {
                let after = seconds(&waits["seconds"]);
                return Err(Error::not_ready(text(&waits["message"]), after));
            }
            match cleanup.get("fails") {
                Some(fails) => Err(failure(fails).into()),
                None => Ok(()),
            }
        });
    }
    parts
}

/// Runs a case. Returns what it returned, and the object that it changed.
fn run(case: &Value, script: &Script, cluster: &Cluster) -> Result<(Value, Object)> {
    let with = &case["with"];
    let mut changed = object(&with["object"]);
    let returned = match text(&case["do"]) {
        "condition" => changed
            .condition(text(&with["type"]))
            .as_ref()
            .map_or(Value::Null, condition),
        "setCondition" => {
            let given = &with["condition"];
            let wanted = Condition::new(
                text(&given["type"]),
                text(&given["status"]),
                text(&given["reason"]),
            );
            let wanted = Condition {
                observed_generation: given["observedGeneration"].as_i64(),
                ..wanted.message(text(&given["message"]))
            };
            changed.set_condition(wanted).into()
        }
        "isDeleting" => changed.is_deleting().into(),
        "hasFinalizer" => changed.has_finalizer(text(&with["finalizer"])).into(),
        "ensureFinalizer" => {
            written(&cluster.ensure_finalizer(&changed, text(&with["finalizer"]))?)
        }
        "removeFinalizer" => {
            written(&cluster.remove_finalizer(&changed, text(&with["finalizer"]))?)
        }
        "ownerReference" => json!(object(&with["owner"]).owner_reference()),
        "controllerReference" => json!(object(&with["owner"]).controller_reference()),
        "setOwner" => {
            changed.set_owner(&object(&with["owner"]))?;
            Value::Null
        }
        "setController" => {
            changed.set_controller(&object(&with["owner"]))?;
            Value::Null
        }
        "controllerOf" => json!(changed.controller()),
        "ensure" => written(&cluster.ensure(&changed)?),
        "createOrUpdate" => {
            let of = cluster.of(kind_of(&with["kind"]));
            written(&of.create_or_update(&key_of(&with["key"]), |object| {
                for (name, value) in with["set"].as_object().expect("fields") {
                    object.0[name] = value.clone();
                }
            })?)
        }
        "setStatus" => {
            let of = cluster.of(kind_of(&with["kind"]));
            written(&of.set_status(&key_of(&with["key"]), &with["status"])?)
        }
        "event" => {
            let (about, reason, note) = (
                object(&with["about"]),
                text(&with["reason"]),
                text(&with["note"]),
            );
            match with["warning"].as_bool() {
                Some(true) => cluster.warn(&about, reason, note),
                _ => cluster.event(&about, reason, note),
            }
            Value::Null
        }
        "listAll" => {
            let options = ListOptions {
                namespace: with["namespace"].as_str().map(str::to_owned),
                ..ListOptions::default()
            };
            let take = with["take"].as_u64().unwrap_or(u64::MAX);
            let objects = cluster.of(kind_of(&with["kind"])).iterate(options);
            let names = objects
                .take(usize::try_from(take)?)
                .map(|each| Ok(name_of(&each?)));
            json!(names.collect::<Result<Vec<String>, ApiError>>()?)
        }
        "requeueAfter" => reconciled(Ok(Action::requeue_after(seconds(&with["seconds"]))))?,
        "notReady" => {
            let after = seconds(&with["seconds"]);
            reconciled(Err(Error::not_ready(text(&with["message"]), after)))?
        }
        "readiness" => json!(readiness(&changed)),
        "fingerprint" => fingerprint(&with["value"]).into(),
        "dependents" => {
            let desired = with["desired"]
                .as_array()
                .expect("objects")
                .iter()
                .map(object);
            let primary = object(&with["primary"]);
            reconciled(declared(with, script).reconcile(cluster, &primary, desired))?
        }
        "describeDependents" => {
            let description = crate::Description::new("").dependents(&declared(with, script));
            let watches = description.watches.iter().map(|watch| {
                assert_eq!(watch.enqueue, crate::Enqueue::ControllerOwner);
                json!({"kind": watch.kind.to_string(), "enqueue": "controller-owner"})
            });
            let indexes = description.indexes.iter().map(
                |index| json!({"kind": index.kind.to_string(), "name": index.name, "path": index.path}),
            );
            json!({"watches": watches.collect::<Vec<_>>(), "indexes": indexes.collect::<Vec<_>>()})
        }
        other => panic!("there is no {other}"),
    };
    Ok((returned, changed))
}

/// Checks that a case comes out as it says.
fn check(case: &Value) {
    let (script, fleet) = (Script::of(case), TestFleet::new());
    fleet.set_now(case["now"].as_str().unwrap_or("2026-01-31T09:30:00.000Z"));
    let cluster = Cluster::from_handle(Handle::Script(script.clone()));
    match (
        fleet.enter(|| run(case, &script, &cluster)),
        case.get("fails"),
    ) {
        (Ok((returned, changed)), None) => {
            if let Some(expected) = case.get("returns") {
                assert_eq!(&returned, expected);
            }
            if let Some(expected) = case.get("object") {
                assert_eq!(&changed.0, expected);
            }
        }
        (Err(error), Some(fails)) => assert_eq!(error.message(), failure(fails).to_string()),
        (came, fails) => panic!("{came:?} for {fails:?}"),
    }
    assert!(
        script.calls.borrow().is_empty(),
        "calls that were not made: {script:?}"
    );
    let expected = |field: &str| case.get(field).cloned().unwrap_or_else(|| json!([]));
    assert_eq!(json!(*script.events.borrow()), expected("events"));
    let lines = fleet.logs();
    let lines = lines.iter().map(|line| {
        let fields = line
            .fields
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)));
        let level = format!("{:?}", line.level).to_lowercase();
        let level = level.trim_start_matches("level::");
        json!({"level": level, "message": line.message, "fields": Value::Object(fields.collect())})
    });
    assert_eq!(json!(lines.collect::<Vec<_>>()), expected("logs"));
}

/// Whether a case cannot be written here: [`Dependents::recreate`] is of a kind that was added.
fn is_of_other_languages(with: &Value) -> bool {
    let kinds = with["kinds"].as_array();
    let mut recreate = with["recreate"].as_array().into_iter().flatten();
    recreate.any(|kind| kinds.is_some_and(|kinds| !kinds.contains(kind)))
}

#[test]
fn every_case_of_the_specification() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let spec: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for case in spec["cases"].as_array().unwrap() {
            if is_of_other_languages(&case["with"]) {
                continue;
            }
            println!("{}: {}", path.display(), text(&case["name"]));
            check(case);
            count += 1;
        }
    }
    assert!(count > 100, "{count} cases");
}
