//! The cases that every SDK passes, of the helpers that are here: `guest-sdk/spec`. Entry point: [`Script`], which expects the calls of a case.

use super::calls::Calls;
use super::dependents::Dependents;
use super::finalizers::{ensure_finalizer, remove_finalizer};
use super::fingerprint::fingerprint;
use super::status::set_status;
use super::{Effect, Written, ensure};
use crate::api::{ApiCode, ApiError, ListPage, Operation, PatchType, ReadMode, Reply};
use crate::kind::GroupVersionKind;
use crate::object::{Condition, Object, readiness};
use crate::outcome::{Action, Failure};
use crate::request::ObjectKey;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// The cluster of a case. It compares each call with the one that the case expects, and answers it.
struct Script {
    calls: Mutex<VecDeque<Value>>,
}

impl Script {
    fn of(case: &Value) -> Self {
        let calls = case["calls"].as_array().into_iter().flatten().cloned();
        Self {
            calls: Mutex::new(calls.collect()),
        }
    }

    fn next(&self) -> Value {
        let next = self.calls.lock().pop_front();
        next.expect("the case expects a further call")
    }
}

impl Calls for Script {
    async fn run(&self, operation: Operation) -> Result<Reply, ApiError> {
        answer(&operation, self.next())
    }

    async fn batch(&self, operations: Vec<Operation>) -> Vec<Result<Reply, ApiError>> {
        let expected = self.next();
        assert_eq!(expected["call"], "batch");
        let calls = expected["calls"].as_array().expect("calls");
        assert_eq!(calls.len(), operations.len(), "{expected}");
        let both = operations.iter().zip(calls);
        both.map(|(operation, call)| answer(operation, call.clone()))
            .collect()
    }
}

fn answer(operation: &Operation, mut expected: Value) -> Result<Reply, ApiError> {
    let fields = expected.as_object_mut().expect("a call");
    let (answer, fails) = (fields.remove("answer"), fields.remove("fails"));
    let made = shown(operation);
    assert_eq!(made, expected);
    if let Some(fails) = fails {
        return Err(failure(&fails));
    }
    Ok(match (operation, answer) {
        (Operation::List(..), answer) => {
            let page = answer.expect("a page");
            let items = page["items"].as_array().into_iter().flatten();
            Reply::Page(ListPage {
                items: items.map(|item| item.to_string().into()).collect(),
                continue_token: page["continueToken"].as_str().map(str::to_owned),
                resource_version: "1".to_owned(),
            })
        }
        (Operation::Delete(..), _) | (_, Some(Value::Null)) => Reply::Nothing,
        (_, Some(object)) => Reply::Object(object.to_string().into()),
        (_, None) => Reply::Object(made["object"].to_string().into()),
    })
}

fn failure(fails: &Value) -> ApiError {
    let mut codes = [
        ApiCode::NotFound,
        ApiCode::AlreadyExists,
        ApiCode::Conflict,
        ApiCode::Invalid,
        ApiCode::Denied,
        ApiCode::Forbidden,
        ApiCode::UnknownKind,
        ApiCode::Timeout,
        ApiCode::Unavailable,
    ]
    .into_iter();
    let code = codes.find(|code| fails["code"] == code.as_str());
    let status = fails["status"].as_u64().unwrap_or_default();
    ApiError {
        http_status: u16::try_from(status).expect("a status"),
        details: fails.get("details").map(ToString::to_string),
        ..ApiError::host(code.expect("a known code"), text(&fails["message"]))
    }
}

/// A call as the cases write it.
fn shown(operation: &Operation) -> Value {
    let parsed = |json: &[u8]| serde_json::from_slice::<Value>(json).expect("JSON");
    let mut made = match operation {
        Operation::Get(kind, key, options) => {
            let live = (options.mode == ReadMode::Live).then_some(true);
            json!({"call": "get", "kind": kind.to_string(), "key": key.to_string(), "live": live})
        }
        Operation::List(kind, options) => json!({
            "call": "list", "kind": kind.to_string(), "namespace": options.namespace,
            "index": options.index.as_ref().map(|(name, value)| [name, value]), "continueToken": options.continue_token,
        }),
        Operation::Create(_, object, options) => {
            json!({"call": "create", "object": parsed(object), "dryRun": options.dry_run.then_some(true)})
        }
        Operation::Update(_, object, _) => json!({"call": "update", "object": parsed(object)}),
        Operation::Apply(_, object, options) => {
            json!({"call": "apply", "object": parsed(object), "force": options.force.then_some(true)})
        }
        Operation::Patch(kind, key, how, patch, options) => {
            assert_eq!(*how, PatchType::Merge);
            json!({
                "call": "patch", "kind": kind.to_string(), "key": key.to_string(), "patch": parsed(patch),
                "subresource": options.subresource,
            })
        }
        Operation::Delete(kind, key, options) => json!({
            "call": "delete", "kind": kind.to_string(), "key": key.to_string(), "uid": options.uid,
            "propagation": options.propagation.map(|it| format!("{it:?}").to_lowercase()),
        }),
    };
    let fields = made.as_object_mut().expect("a call");
    fields.retain(|_, value| !value.is_null());
    made
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn object(value: &Value) -> Object {
    Object(value.clone())
}

fn kind(value: &Value) -> GroupVersionKind {
    let (api_version, kind) = text(value).rsplit_once('/').expect("a kind");
    GroupVersionKind::from_api_version(api_version, kind)
}

fn key(value: &Value) -> ObjectKey {
    match text(value).split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster_scoped(text(value)),
    }
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs(value.as_u64().expect("seconds"))
}

fn written(written: Written<Object>) -> Value {
    let effect = match written.effect {
        Effect::Created => "created",
        Effect::Updated => "updated",
        Effect::Unchanged => "unchanged",
    };
    assert_eq!(written.changed(), effect != "unchanged");
    json!({"effect": effect, "object": written.object.0})
}

fn condition(found: Option<Condition>) -> Value {
    let Some(found) = found else {
        return Value::Null;
    };
    let mut shown = json!({
        "type": found.kind, "status": found.status.as_str(), "reason": found.reason, "message": found.message,
        "observedGeneration": found.observed_generation, "lastTransitionTime": found.last_transition_time,
    });
    let fields = shown.as_object_mut().expect("fields");
    fields.retain(|_, value| !value.is_null());
    shown
}

fn given_condition(given: &Value) -> Condition {
    let [name, status, reason, message] =
        ["type", "status", "reason", "message"].map(|field| text(&given[field]));
    Condition {
        observed_generation: given["observedGeneration"].as_i64(),
        ..Condition::new(name, status, reason).message(message)
    }
}

fn declared<'a>(with: &'a Value, script: &'a Script) -> Dependents<'a> {
    let mut parts = Dependents::new();
    for each in with["kinds"].as_array().expect("kinds") {
        parts = parts.kind(kind(each));
        let recreate = with["recreate"].as_array();
        if recreate.is_some_and(|recreate| recreate.contains(each)) {
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
        parts = parts.ready(move |object| match ready[&*object.gvk().kind].as_str() {
            Some(why) => Some(why.to_owned()),
            None => readiness(object),
        });
    }
    let cleanup = &with["cleanup"];
    if cleanup.is_object() {
        parts = parts.cleanup(async move {
            assert_eq!(script.next(), json!({"call": "cleanup"}));
            if let Some(waits) = cleanup.get("notReady") {
                return Ok(Action::RequeueAfter(seconds(&waits["seconds"])));
            }
            match cleanup.get("fails") {
                Some(fails) => Err(failure(fails).into()),
                None => Ok(Action::Done),
            }
        });
    }
    parts
}

/// Runs a case. Returns what it returned, and the object that it changed; `None` if the helper is not here.
async fn run(case: &Value, script: &Script) -> Result<Option<(Value, Object)>, Failure> {
    let (with, now) = (&case["with"], now(case));
    let mut changed = object(&with["object"]);
    let finalizer = || text(&with["finalizer"]);
    let returned = match text(&case["do"]) {
        "condition" => condition(changed.condition(text(&with["type"]))),
        "setCondition" => changed
            .set_condition(given_condition(&with["condition"]), now)
            .into(),
        "isDeleting" => changed.is_deleting().into(),
        "hasFinalizer" => changed.has_finalizer(finalizer()).into(),
        "ensureFinalizer" => written(ensure_finalizer(script, changed.clone(), finalizer()).await?),
        "removeFinalizer" => written(remove_finalizer(script, changed.clone(), finalizer()).await?),
        "setController" => {
            changed.set_controller(&object(&with["owner"]))?;
            Value::Null
        }
        "ensure" => written(ensure(script, changed.clone()).await?),
        "setStatus" => {
            let (kind, key) = (kind(&with["kind"]), key(&with["key"]));
            written(set_status(script, &kind, &key, &with["status"]).await?)
        }
        "readiness" => json!(readiness(&changed)),
        "fingerprint" => fingerprint(&with["value"]).into(),
        "dependents" => {
            let desired = with["desired"].as_array().expect("objects").iter();
            let (desired, primary) = (desired.map(object).collect(), object(&with["primary"]));
            let parts = declared(with, script);
            match parts.reconcile_at(script, &primary, desired, now).await? {
                Action::Done => json!({"done": true}),
                Action::RequeueAfter(after) => json!({"requeueAfterMs": after.as_millis()}),
            }
        }
        // What kube has, or an author of native reconcilers does otherwise.
        "createOrUpdate"
        | "setOwner"
        | "event"
        | "listAll"
        | "controllerOf"
        | "requeueAfter"
        | "notReady"
        | "describeDependents"
        | "ownerReference"
        | "controllerReference" => {
            return Ok(None);
        }
        other => panic!("no such helper: {other}"),
    };
    Ok(Some((returned, changed)))
}

fn now(case: &Value) -> Timestamp {
    let now = case["now"].as_str().unwrap_or("2026-01-31T09:30:00.000Z");
    now.parse().expect("a time")
}

/// Checks that a case comes out as it says; returns whether its helper is here.
async fn check(case: &Value) -> bool {
    let script = Script::of(case);
    match (run(case, &script).await, case.get("fails")) {
        (Ok(None), _) => return false,
        (Ok(Some((returned, changed))), None) => {
            if let Some(expected) = case.get("returns") {
                assert_eq!(&returned, expected);
            }
            if let Some(expected) = case.get("object") {
                assert_eq!(&changed.0, expected);
            }
        }
        (Err(error), Some(fails)) => assert_eq!(error.message, failure(fails).to_string()),
        (came, fails) => panic!("{came:?} for {fails:?}"),
    }
    let left = script.calls.lock();
    assert!(left.is_empty(), "calls that were not made: {left:?}");
    true
}

/// Whether a case cannot be written here: [`Dependents::recreate`] is of a kind that was added.
fn is_of_other_languages(with: &Value) -> bool {
    let kinds = with["kinds"].as_array();
    let mut recreate = with["recreate"].as_array().into_iter().flatten();
    recreate.any(|kind| kinds.is_some_and(|kinds| !kinds.contains(kind)))
}

#[tokio::test]
async fn every_case_of_the_helpers_comes_out_as_in_the_sdks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk/spec");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let spec: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for case in spec["cases"].as_array().unwrap() {
            if is_of_other_languages(&case["with"]) {
                continue;
            }
            println!("{}: {}", path.display(), text(&case["name"]));
            count += usize::from(check(case).await);
        }
    }
    assert!(count > 100, "{count} cases");
}
