//! Scanned text against serde_json's trees: random objects, odd spellings, and every way to cut a text short.

use super::*;
use crate::kind::GroupVersionKind;
use bytes::Bytes;
use fastrand::Rng;
use serde_json::{Map, Value, json};

fn pod() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Pod")
}

fn object(value: &Value) -> Object {
    Object::parse(Bytes::from(value.to_string())).unwrap()
}

fn random_string(rng: &mut Rng) -> String {
    const ALPHABET: [&str; 14] = [
        "a",
        "Z",
        "0",
        "-",
        "/",
        ".",
        "\"",
        "\\",
        "\n",
        "\u{1}",
        "é",
        "漢",
        "😀",
        "longer-run-of-text",
    ];
    (0..rng.usize(0..8))
        .map(|_| *rng.choice(ALPHABET.iter()).unwrap())
        .collect()
}

fn random_value(rng: &mut Rng, depth: u32) -> Value {
    match rng.u32(0..if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => Value::Bool(rng.bool()),
        2 => Value::from(rng.i64(..)),
        3 => Value::from(f64::from(rng.i32(..)) / 4.0),
        4 => Value::from(random_string(rng)),
        5 => (0..rng.usize(0..4))
            .map(|_| random_value(rng, depth - 1))
            .collect(),
        _ => Value::Object(
            (0..rng.usize(0..4))
                .map(|_| (random_string(rng), random_value(rng, depth - 1)))
                .collect(),
        ),
    }
}

fn random_strings(rng: &mut Rng) -> Value {
    Value::Object(
        (0..rng.usize(0..4))
            .map(|_| (random_string(rng), Value::from(random_string(rng))))
            .collect(),
    )
}

fn random_object(rng: &mut Rng) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".into(), format!("n{}", random_string(rng)).into());
    for (field, value) in [
        ("namespace", Value::from("ns")),
        ("uid", Value::from("u-1")),
        ("resourceVersion", Value::from("77")),
        ("generation", Value::from(rng.i64(1..))),
        ("labels", random_strings(rng)),
        ("annotations", random_strings(rng)),
        ("managedFields", random_value(rng, 3)),
        ("deletionTimestamp", Value::from("2026-01-01T00:00:00Z")),
        (
            "ownerReferences",
            json!([{"apiVersion": "v1", "kind": "Node", "name": random_string(rng), "uid": "u", "controller": true}]),
        ),
        ("other", random_value(rng, 3)),
    ] {
        if rng.bool() {
            metadata.insert(field.into(), value);
        }
    }
    let mut object = Map::new();
    object.insert("metadata".into(), metadata.into());
    for field in ["apiVersion", "kind"] {
        if rng.bool() {
            object.insert(field.into(), format!("x{}", random_string(rng)).into());
        }
    }
    for field in ["spec", "status", "data"] {
        if rng.bool() {
            object.insert(field.into(), random_value(rng, 4));
        }
    }
    object.into()
}

/// Prints a value with random white space and, here and there, characters spelled as escapes.
fn print(rng: &mut Rng, value: &Value, out: &mut String) {
    let space = |rng: &mut Rng, out: &mut String| {
        for _ in 0..rng.usize(0..3) {
            out.push_str(rng.choice([" ", "\n", "\t", "\r"]).unwrap());
        }
    };
    let string = |rng: &mut Rng, text: &str, out: &mut String| {
        out.push('"');
        for c in text.chars() {
            if rng.u32(0..8) == 0 {
                c.encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            } else {
                let quoted = Value::from(c.to_string()).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
        }
        out.push('"');
    };
    space(rng, out);
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                print(rng, item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (i, (key, member)) in members.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                space(rng, out);
                string(rng, key, out);
                space(rng, out);
                out.push(':');
                print(rng, member, out);
            }
            out.push('}');
        }
        Value::String(text) => string(rng, text, out),
        other => out.push_str(&other.to_string()),
    }
    space(rng, out);
}

#[test]
fn a_scan_finds_what_a_parser_finds() {
    for seed in 0..2_000 {
        let mut rng = Rng::with_seed(seed);
        let value = random_object(&mut rng);
        let mut text = String::new();
        print(&mut rng, &value, &mut text);
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            value,
            "seed {seed}: the printer is wrong"
        );

        let ingested = Object::ingest(text.as_bytes(), &pod()).unwrap();
        let mut expected = value.clone();
        expected["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        for (field, default) in [("apiVersion", "v1"), ("kind", "Pod")] {
            expected
                .as_object_mut()
                .unwrap()
                .entry(field)
                .or_insert(default.into());
        }
        assert_eq!(
            serde_json::from_slice::<Value>(ingested.json()).unwrap(),
            expected,
            "seed {seed}"
        );
        assert_eq!(
            Object::parse(ingested.json().clone()).unwrap().head(),
            ingested.head(),
            "seed {seed}: positions moved wrongly"
        );
        assert_same(&ingested, &expected, seed);

        let metadata_only = ingested.metadata_only();
        let parts = json!({"apiVersion": expected["apiVersion"], "kind": expected["kind"], "metadata": expected["metadata"]});
        assert_eq!(
            serde_json::from_slice::<Value>(metadata_only.json()).unwrap(),
            parts,
            "seed {seed}"
        );
        assert_same(&metadata_only, &parts, seed);
    }
}

fn assert_same(object: &Object, value: &Value, seed: u64) {
    let metadata = &value["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    assert_eq!(object.kind(), text(&value["kind"]), "seed {seed}");
    assert_eq!(object.name(), text(&metadata["name"]), "seed {seed}");
    assert_eq!(
        object.namespace().unwrap_or_default(),
        text(&metadata["namespace"]),
        "seed {seed}"
    );
    assert_eq!(object.uid(), text(&metadata["uid"]), "seed {seed}");
    assert_eq!(
        object.resource_version(),
        text(&metadata["resourceVersion"]),
        "seed {seed}"
    );
    assert_eq!(
        object.generation(),
        metadata["generation"].as_i64(),
        "seed {seed}"
    );
    assert_eq!(
        object.is_deleting(),
        metadata.get("deletionTimestamp").is_some(),
        "seed {seed}"
    );
    let labels = json!(object.labels().to_map());
    assert_eq!(
        labels,
        metadata.get("labels").cloned().unwrap_or(json!({})),
        "seed {seed}"
    );
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        assert_eq!(
            object.labels().get(key).unwrap(),
            text(value),
            "seed {seed}"
        );
    }
    let owners: Vec<String> = object
        .owners()
        .iter()
        .map(|owner| owner.name.to_string())
        .collect();
    let expected: Vec<String> = metadata["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|owner| text(&owner["name"]))
        .collect();
    assert_eq!(owners, expected, "seed {seed}");
}

#[test]
fn a_text_cut_anywhere_is_an_error() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let value = random_object(&mut rng);
        let mut text = String::new();
        print(&mut rng, &value, &mut text);
        let text = text.trim_end();
        let list = format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"5"}},"items":[{text}]}}"#
        );
        let frame = format!(r#"{{"type":"ADDED","object":{text}}}"#);
        for cut in 0..text.len() {
            let cut = &text.as_bytes()[..cut];
            assert!(
                Head::scan(cut).is_err()
                    && check(cut).is_err()
                    && Object::ingest(cut, &pod()).is_err(),
                "seed {seed}"
            );
        }
        for cut in 0..list.len() {
            assert!(
                List::split(Bytes::copy_from_slice(&list.as_bytes()[..cut])).is_err(),
                "seed {seed}"
            );
        }
        for cut in 0..frame.len() {
            assert!(
                Frame::scan(&frame.as_bytes()[..cut]).is_err(),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_byte_changed_anywhere_never_panics_and_agrees_with_a_parser() {
    for seed in 0..3_000 {
        let mut rng = Rng::with_seed(seed);
        let mut text = random_object(&mut rng).to_string().into_bytes();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(0..text.len());
            text[at] = *rng
                .choice(b"{}[]\",:\\u0e-+. n1x\0\x80\xFF".iter())
                .unwrap();
        }
        let parsed = serde_json::from_slice::<Value>(&text);
        // A number too large for f64 is the one thing that a parser refuses and a scan does not.
        if !parsed
            .as_ref()
            .is_err_and(|error| error.to_string().contains("out of range"))
        {
            assert_eq!(check(&text).is_ok(), parsed.is_ok(), "seed {seed}");
        }
        let _ = Object::ingest(&text, &pod());
    }
}

#[test]
fn the_grammar_is_strict() {
    for text in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "tru",
        "nul",
        "True",
        "\"\t\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "1 2",
        "{} x",
        "[1 2]",
        "'a'",
        "NaN",
        "\u{feff}{}",
        "//x\n1",
    ] {
        assert!(check(text.as_bytes()).is_err(), "{text}");
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
    }
    assert_eq!(
        check(b"\"\xff\"").unwrap_err().problem,
        JsonProblem::NotUtf8
    );
    assert_eq!(
        check(b"[tru").unwrap_err(),
        JsonError {
            problem: JsonProblem::CutOff,
            at: 4
        }
    );
}

#[test]
fn nesting_has_a_limit() {
    let nested =
        |open: &str, close: &str, depth: usize| open.repeat(depth) + "1" + &close.repeat(depth);
    assert!(check(nested("[", "]", 128).as_bytes()).is_ok());
    assert!(check(nested("{\"a\":", "}", 128).as_bytes()).is_ok());
    assert_eq!(
        check(nested("[", "]", 129).as_bytes()).unwrap_err().problem,
        JsonProblem::TooDeep
    );
    let bomb = format!(
        r#"{{"metadata":{{"name":"a","x":{}}}}}"#,
        nested("[", "]", 127)
    );
    assert_eq!(
        Head::scan(bomb.as_bytes()).unwrap_err().problem,
        JsonProblem::TooDeep
    );
    assert_eq!(
        check("[".repeat(1_000_000).as_bytes()).unwrap_err().problem,
        JsonProblem::TooDeep
    );
}

#[test]
fn the_last_of_equal_keys_counts() {
    let text = r#"{"metadata":{"name":"a","uid":"x","managedFields":[1]},"kind":"A","metadata":{"name":"b","name":"c","managedFields":[2],"managedFields":[]},"kind":"B"}"#;
    let object = Object::ingest(text.as_bytes(), &pod()).unwrap();
    assert_eq!(
        (&*object.name(), &*object.uid(), &*object.kind()),
        ("c", "", "B")
    );
    assert!(!object.json().windows(7).any(|window| window == b"managed"));
    assert_eq!(
        Object::parse(object.json().clone()).unwrap().head(),
        object.head()
    );
}

#[test]
fn managed_fields_are_cut_wherever_they_stand() {
    for (metadata, expected) in [
        (r#"{"managedFields":[],"name":"a"}"#, r#"{"name":"a"}"#),
        (r#"{"name":"a","managedFields":[]}"#, r#"{"name":"a"}"#),
        (
            r#"{"name":"a" , "managedFields" : [{}] ,"b":2}"#,
            r#"{"name":"a"  ,"b":2}"#,
        ),
        (
            r#"{"managedFields":1,"managedFields":2,"name":"a"}"#,
            r#"{"name":"a"}"#,
        ),
        (
            r#"{"managedFields":1,"name":"a","managedFields":2}"#,
            r#"{"name":"a"}"#,
        ),
        (
            r#"{"name":"a","b":{"managedFields":1}}"#,
            r#"{"name":"a","b":{"managedFields":1}}"#,
        ),
    ] {
        let object = |metadata: &str| {
            format!(r#"{{"apiVersion":"v1","kind":"A","managedFields":1,"metadata":{metadata}}}"#)
        };
        let kind = GroupVersionKind::new("", "v1", "A");
        let ingested = Object::ingest(object(metadata).as_bytes(), &kind).unwrap();
        assert_eq!(ingested.json(), &object(expected));
    }
}

#[test]
fn fields_of_the_wrong_type_are_named_and_not_quoted() {
    for (text, field) in [
        (r#"{"metadata":"s3cret"}"#, "metadata"),
        (r#"{"metadata":{"name":7}}"#, "metadata.name"),
        (
            r#"{"metadata":{"name":"a","labels":{"a":"s3cret","b":{}}}}"#,
            "metadata.labels",
        ),
        (
            r#"{"metadata":{"name":"a","generation":1.5}}"#,
            "metadata.generation",
        ),
        (
            r#"{"metadata":{"name":"a","ownerReferences":{}}}"#,
            "metadata.ownerReferences",
        ),
        (
            r#"{"metadata":{"namespace":"s3cret"}}"#,
            "metadata.name is missing",
        ),
        (r#"{"metadata":{"name":""}}"#, "metadata.name is missing"),
        (r#"{}"#, "metadata.name is missing"),
    ] {
        let error = Object::parse(Bytes::from(text)).unwrap_err().to_string();
        assert!(
            error.starts_with(field) && !error.contains("s3cret"),
            "{error}"
        );
    }
    assert!(Object::parse(Bytes::from("[]")).is_err());
    let nulls = r#"{"metadata":{"name":"a","labels":null,"namespace":null,"generation":null,"ownerReferences":null,"deletionTimestamp":null}}"#;
    let object = Object::parse(Bytes::from(nulls)).unwrap();
    assert!(
        object.labels().to_map().is_empty()
            && object.namespace().is_none()
            && object.owners().is_empty()
            && !object.is_deleting()
    );
}

#[test]
fn parts_are_compared_by_their_bytes() {
    let old = object(
        &json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"a": 1}, "status": {"s": 1}}),
    );
    let with = |path: &str, value: Value| {
        let mut new: Value = serde_json::from_slice(old.json()).unwrap();
        *new.pointer_mut(path).unwrap() = value;
        object(&new)
    };
    let status = with("/status", json!({"s": 2}));
    assert!(old.same_content(&status) && old.same_labels(&status) && !old.same_status(&status));
    let labels = with("/metadata/labels", json!({"x": "2"}));
    assert!(
        old.same_content(&labels) && !old.same_labels(&labels) && old.same_annotations(&labels)
    );
    assert!(!old.same_content(&with("/spec", json!({"a": 2}))));
    let empty = object(&json!({"metadata": {"name": "a", "annotations": {}}, "spec": {"a": 1}}));
    assert!(old.same_annotations(&empty), "none and empty are the same");
    assert!(!old.same_content(&object(&json!({"metadata": {"name": "a"}}))));
}

#[test]
fn a_list_is_split_into_its_items() {
    let body = r#" {"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"t\u006fk","remainingItemCount":3},
        "items":[{"metadata":{"name":"a"}}, {"metadata":{"name":"b"},"kind":"Other"} ]}"#;
    let list = List::split(Bytes::from(body)).unwrap();
    assert_eq!(list.resource_version, "9");
    assert_eq!(list.continue_token.as_deref(), Some("tok"));
    let objects: Vec<Object> = list
        .items()
        .map(|item| Object::ingest(item, &pod()).unwrap())
        .collect();
    assert_eq!(
        objects[0].json(),
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#
    );
    assert_eq!(
        objects[1].json(),
        r#"{"apiVersion":"v1","metadata":{"name":"b"},"kind":"Other"}"#
    );

    let empty = List::split(Bytes::from(r#"{"metadata":{"continue":""},"items":null}"#)).unwrap();
    assert!(empty.items().len() == 0 && empty.continue_token.is_none());
    for bad in [
        r#"{"items":{}}"#,
        r#"{"kind":"Status"}"#,
        "[]",
        r#"{"items":[1,]}"#,
    ] {
        assert!(List::split(Bytes::from(bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_frame_is_split_into_type_and_object() {
    let line =
        br#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"12"}}}"#;
    let frame = Frame::scan(line).unwrap();
    assert_eq!(frame.frame_type, FrameType::Bookmark);
    let head = Head::scan(&line[frame.object.range()]).unwrap();
    assert_eq!(
        &line[frame.object.range()][head.resource_version.range()],
        b"\"12\""
    );
    for bad in [
        r#"{"type":"NEW","object":{}}"#,
        r#"{"type":"ADDED"}"#,
        r#"{"object":{}}"#,
        r#"{"type":"ADDED","object":[]}"#,
        "{}",
        "x",
    ] {
        assert!(Frame::scan(bad.as_bytes()).is_err(), "{bad}");
    }
}
