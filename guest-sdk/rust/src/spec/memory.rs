//! The cases of the cluster in memory, which those of all SDKs pass: `guest-sdk/spec/memory`.

use super::{key_of, kind_of};
use crate::testing::{TestCluster, TestFleet};
use crate::{
    ApiError, ApplyOptions, DeleteOptions, GetOptions, GroupVersionKind, ListOptions, PatchType,
    Selection, WriteOptions,
};
use serde_json::{Value, json};
use std::path::Path;

fn option(of: &Value, field: &str) -> Option<String> {
    of[field].as_str().map(str::to_owned)
}

fn kind(object: &Value) -> GroupVersionKind {
    let text = |field: &str| object[field].as_str().unwrap().to_owned();
    GroupVersionKind::new(&text("apiVersion"), &text("kind"))
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Takes a step. Returns what it answers; nothing for an absent object.
fn take(alpha: &TestCluster, step: &Value) -> Result<Value, ApiError> {
    let (name, with) = step
        .as_object()
        .unwrap()
        .iter()
        .find(|(name, _)| !["answer", "fails", "status", "more"].contains(&name.as_str()))
        .unwrap();
    let is_status = step["status"] == true;
    let writes = match is_status {
        true => WriteOptions::status(),
        false => WriteOptions::default(),
    };
    let text = with.to_string();
    let selection = Selection {
        namespace: option(with, "namespace"),
        label_selector: option(with, "labelSelector"),
        field_selector: option(with, "fieldSelector"),
    };
    Ok(match name.as_str() {
        "put" => {
            alpha.put(with.clone());
            Value::Null
        }
        "remove" => {
            let (kind, key) = (kind_of(&with["kind"]), key_of(&with["key"]));
            alpha.remove_object(&kind, &key);
            Value::Null
        }
        "create" => parsed(&alpha.serve_create(&kind(with), &text, &writes)?),
        "update" => parsed(&alpha.serve_update(&kind(with), &text, &writes)?),
        "apply" => {
            let options = ApplyOptions {
                subresource: writes.subresource,
                ..ApplyOptions::default()
            };
            parsed(&alpha.serve_apply(&kind(with), &text, &options)?)
        }
        "patch" => {
            let (kind, key) = (kind_of(&with["kind"]), key_of(&with["key"]));
            let patch = with["patch"].to_string();
            parsed(&alpha.serve_patch(&kind, &key, PatchType::Merge, &patch, &writes)?)
        }
        "get" => {
            let (kind, key) = (kind_of(&with["kind"]), key_of(&with["key"]));
            let found = alpha.serve_get(&kind, &key, &GetOptions::default())?;
            found.map_or(Value::Null, |text| parsed(&text))
        }
        "delete" => {
            let (kind, key) = (kind_of(&with["kind"]), key_of(&with["key"]));
            let options = DeleteOptions {
                uid: option(with, "uid"),
                resource_version: option(with, "resourceVersion"),
                ..DeleteOptions::default()
            };
            alpha.client().delete_with(&kind, &key, &options)?.into()
        }
        "deleteCollection" => {
            let options = DeleteOptions::default();
            alpha.serve_delete_collection(&kind_of(&with["kind"]), &selection, &options)?;
            Value::Null
        }
        "list" => {
            let options = ListOptions {
                namespace: selection.namespace,
                label_selector: selection.label_selector,
                field_selector: selection.field_selector,
                limit: with["limit"]
                    .as_u64()
                    .unwrap_or_default()
                    .try_into()
                    .unwrap(),
                ..ListOptions::default()
            };
            let page = alpha.serve_list(&kind_of(&with["kind"]), &options)?;
            assert_eq!(
                page.continue_token.is_some(),
                step["more"] == true,
                "{step}"
            );
            let names = page
                .items
                .iter()
                .map(|item| parsed(item)["metadata"]["name"].clone());
            names.collect()
        }
        other => panic!("{other}"),
    })
}

/// At least the expected fields; null: the field is not there.
fn has(found: &Value, expected: &Value) -> bool {
    match expected {
        Value::Object(fields) => fields.iter().all(|(name, value)| has(&found[name], value)),
        _ => found == expected,
    }
}

#[test]
fn every_case_of_the_cluster_in_memory() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec/memory/cases.json");
    let spec = parsed(&std::fs::read_to_string(file).unwrap());
    for case in spec["cases"].as_array().unwrap() {
        println!("{}", case["name"]);
        let alpha = TestFleet::new().cluster("alpha");
        for step in case["steps"].as_array().unwrap() {
            match take(&alpha, step) {
                Ok(came) => {
                    assert!(step["fails"].is_null(), "{step} came to {came}");
                    let expected = step.get("answer").unwrap_or(&json!({})).clone();
                    assert!(has(&came, &expected), "{step} came to {came}");
                }
                Err(error) => assert_eq!(step["fails"], error.code.as_str(), "{step}"),
            }
        }
    }
}
