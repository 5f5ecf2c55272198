//! The cases that every SDK passes: `guest-sdk/spec`. Entry point: [`Script`], which expects the calls of a case.

mod cases;

use crate::error::ApiError;
use crate::resource::Resource;
use crate::types::{
    ApiCode, Event, EventType, GroupVersionKind, ListPage, ObjectKey, Operation, PatchType,
    ReadMode, Reply,
};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The host of a case. Clones share the calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    calls: Rc<RefCell<VecDeque<Value>>>,
    events: Rc<RefCell<Vec<Value>>>,
}

impl Script {
    fn of(case: &Value) -> Self {
        let calls = case["calls"].as_array().into_iter().flatten().cloned();
        Self {
            calls: Rc::new(RefCell::new(calls.collect())),
            events: Rc::default(),
        }
    }

    fn next(&self) -> Value {
        let next = self.calls.borrow_mut().pop_front();
        next.expect("the case expects a further call")
    }

    pub(crate) fn run(&self, operation: &Operation) -> Result<Reply, ApiError> {
        answer(operation, self.next())
    }

    pub(crate) fn batch(&self, operations: &[Operation]) -> Vec<Result<Reply, ApiError>> {
        let expected = self.next();
        assert_eq!(expected["call"], "batch");
        let calls = expected["calls"].as_array().expect("calls");
        assert_eq!(
            calls.len(),
            operations.len(),
            "{expected} for {operations:?}"
        );
        let both = operations.iter().zip(calls);
        both.map(|(operation, call)| answer(operation, call.clone()))
            .collect()
    }

    pub(crate) fn record(&self, event: &Event) {
        self.events.borrow_mut().push(json!({
            "kind": event.kind.to_string(),
            "key": event.key.to_string(),
            "warning": event.event_type == EventType::Warning,
            "reason": event.reason,
            "action": event.action,
            "note": event.note,
        }));
    }
}

/// Compares a call with the one that a case expects, and answers it.
fn answer(operation: &Operation, mut expected: Value) -> Result<Reply, ApiError> {
    let fields = expected.as_object_mut().expect("a call");
    let (answer, fails) = (fields.remove("answer"), fields.remove("fails"));
    let made = written(operation);
    assert_eq!(made, expected);
    if let Some(fails) = fails {
        return Err(failure(&fails));
    }
    Ok(match (operation, answer) {
        (Operation::List(_), answer) => {
            let page = answer.expect("a page");
            let items = page["items"].as_array().into_iter().flatten();
            Reply::Page(ListPage {
                items: items.map(ToString::to_string).collect(),
                continue_token: page["continueToken"].as_str().map(str::to_owned),
                resource_version: "1".to_owned(),
            })
        }
        (Operation::Delete(_), _) | (_, Some(Value::Null)) => Reply::Nothing,
        (_, Some(object)) => Reply::Object(object.to_string()),
        (_, None) => Reply::Object(made["object"].to_string()),
    })
}

fn failure(fails: &Value) -> ApiError {
    let codes = [
        ApiCode::NotFound,
        ApiCode::AlreadyExists,
        ApiCode::Conflict,
        ApiCode::Invalid,
        ApiCode::Denied,
        ApiCode::Forbidden,
        ApiCode::UnknownKind,
        ApiCode::Timeout,
        ApiCode::Unavailable,
    ];
    let code = codes
        .into_iter()
        .find(|code| fails["code"] == code.as_str());
    let status = fails["status"].as_u64().unwrap_or_default();
    ApiError {
        http_status: u16::try_from(status).expect("a status"),
        details: fails.get("details").map(ToString::to_string),
        ..ApiError::new(
            code.expect("a known code"),
            fails["message"].as_str().unwrap_or_default(),
        )
    }
}

/// A call as the cases write it.
fn written(operation: &Operation) -> Value {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let mut made = match operation {
        Operation::Get((kind, key, options)) => {
            let live = (options.mode == ReadMode::Live).then_some(true);
            json!({"call": "get", "kind": kind.to_string(), "key": key.to_string(), "live": live})
        }
        Operation::List((kind, options)) => {
            let index = options.index.as_ref();
            json!({
                "call": "list",
                "kind": kind.to_string(),
                "namespace": options.namespace,
                "index": index.map(|(name, value)| [name, value]),
                "continueToken": options.continue_token,
            })
        }
        Operation::Create((_, object, options)) => {
            json!({"call": "create", "object": parsed(object), "dryRun": options.dry_run.then_some(true)})
        }
        Operation::Update((_, object, _)) => json!({"call": "update", "object": parsed(object)}),
        Operation::Apply((_, object, options)) => {
            json!({"call": "apply", "object": parsed(object), "force": options.force.then_some(true)})
        }
        Operation::Patch((kind, key, how, patch, options)) => {
            assert_eq!(*how, PatchType::Merge);
            json!({
                "call": "patch",
                "kind": kind.to_string(),
                "key": key.to_string(),
                "patch": parsed(patch),
                "subresource": options.subresource,
            })
        }
        Operation::Delete((kind, key, options)) => json!({
            "call": "delete",
            "kind": kind.to_string(),
            "key": key.to_string(),
            "uid": options.uid,
            "propagation": options.propagation.map(|it| format!("{it:?}").to_lowercase().replace("propagation::", "")),
        }),
    };
    let fields = made.as_object_mut().expect("a call");
    fields.retain(|_, value| !value.is_null());
    made
}

fn kind_of(value: &Value) -> GroupVersionKind {
    let text = value.as_str().expect("a kind");
    let (api_version, kind) = text.rsplit_once('/').expect("a kind");
    GroupVersionKind::new(api_version, kind)
}

fn key_of(value: &Value) -> ObjectKey {
    let text = value.as_str().expect("a key");
    match text.split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster_scoped(text),
    }
}

/// The name of an object.
fn name_of(object: &impl Resource) -> String {
    object.identity().name.to_owned()
}
