//! Tests of [`super`].

use super::super::{
    CONTRACT, Draws, FORMAT, GetOptions, Key, Limits, Mode, PatchType, Projection, Request,
    WriteOptions,
};
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::{Value, json};

fn kind(kind: &str) -> Kind {
    Kind {
        group: String::new(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    }
}

fn get(of: &str, object: Value) -> Step {
    let operation = Operation::Get {
        kind: kind(of),
        key: Key {
            namespace: Some("shop".to_owned()),
            name: "one".to_owned(),
        },
        options: GetOptions {
            mode: Mode::Cached,
            projection: Projection::Full,
            subresource: None,
        },
    };
    let cluster = "alpha".to_owned();
    Step::Call {
        asked: Box::new(Asked::Do { cluster, operation }),
        answer: Answer::Object(object.to_string().into()),
    }
}

fn write(operation: impl FnOnce(WriteOptions) -> Operation) -> Step {
    let options = WriteOptions {
        subresource: None,
        dry_run: false,
    };
    Step::Call {
        asked: Box::new(Asked::Do {
            cluster: "alpha".to_owned(),
            operation: operation(options),
        }),
        answer: Answer::Unanswered,
    }
}

/// A recording of these steps.
pub(crate) fn recording(steps: Vec<Step>) -> Recording {
    Recording {
        windlass_recording: FORMAT,
        contract: CONTRACT.to_owned(),
        id: "1".to_owned(),
        time: "2026-01-01T00:00:00.000Z".to_owned(),
        tenant: "default".to_owned(),
        reconciler: "hello".to_owned(),
        revision: "0".repeat(64),
        request: Request {
            cluster: "alpha".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "request-name".to_owned(),
        },
        config: "{}".to_owned().into(),
        limits: Limits {
            memory: 1,
            timeout_ms: 1,
            table_elements: 1,
            handles: 1,
            host_call_bytes: 1,
        },
        stand_ins: 0,
        draws: Draws::default(),
        steps,
        outcome: Outcome::Done,
        must: None,
    }
}

/// The file with stand-ins.
fn file(mut recording: Recording) -> String {
    put_into(&mut recording, &[]).unwrap();
    String::from_utf8(recording.to_file()).unwrap()
}

fn answered(recording: &Recording, at: usize) -> Value {
    let Step::Call {
        answer: Answer::Object(object),
        ..
    } = &recording.steps[at]
    else {
        panic!("no object at {at}");
    };
    serde_json::from_str(object.as_str()).unwrap()
}

fn secret(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "data": data})
}

#[test]
fn a_stand_in_has_the_length_and_the_alphabet_of_its_value() {
    let values = [
        "Tr0ub4dor&3",
        "1",
        "user:p/w@host",
        "héllo, 世界",
        "\u{1f511}",
    ];
    for value in values {
        let mut one = recording(vec![get(
            "Secret",
            secret(json!({"v": STANDARD.encode(value)})),
        )]);
        put_into(&mut one, &[]).unwrap();
        let answered = answered(&one, 0);
        let stand_in = STANDARD
            .decode(answered["data"]["v"].as_str().unwrap())
            .unwrap();
        let stand_in = String::from_utf8(stand_in).unwrap();
        assert_eq!(stand_in.len(), value.len(), "{value} {stand_in}");
        for (from, to) in value.chars().zip(stand_in.chars()) {
            let letter = from.is_alphanumeric() || !from.is_ascii();
            assert_eq!(letter, from != to, "{value} {stand_in}");
            assert_eq!(from.is_ascii_digit(), to.is_ascii_digit());
            assert_eq!(from.is_ascii_uppercase(), to.is_ascii_uppercase());
        }
        assert_eq!(one.stand_ins, 1);
    }
}

#[test]
fn the_same_value_has_the_same_stand_in_in_every_recording() {
    let stand_in = |key: &str| {
        let mut one = recording(vec![get("Secret", secret(json!({key: "c2VjcmV0"})))]);
        put_into(&mut one, &[]).unwrap();
        answered(&one, 0)["data"][key].clone()
    };
    assert_eq!(stand_in("a"), stand_in("b"));
}

#[test]
fn a_value_is_hidden_wherever_the_run_shows_it() {
    let password = "pä<ss>\"word";
    let url = format!("db://me:{password}@host");
    let plain = json!({"data": {"url": url, "b64": STANDARD.encode(password)}}).to_string();
    // The same as Go, as Python, and as somebody else writes it, and within JSON within a text.
    let of_go = plain.replace('<', "\\u003c").replace('>', "\\u003e");
    let of_python = plain.replace('ä', "\\u00e4");
    let odd = plain.replace("word", "w\\u006frd");
    let nested = json!({"metadata": {"annotations": {"applied": plain}}}).to_string();
    let unpadded = STANDARD_NO_PAD.encode(password);
    let mut steps = vec![get(
        "Secret",
        secret(json!({"password": STANDARD.encode(password)})),
    )];
    for text in [
        plain,
        of_go,
        of_python,
        odd,
        nested,
        json!([unpadded]).to_string(),
    ] {
        steps.push(write(|options| Operation::Create {
            kind: kind("ConfigMap"),
            object: text.into(),
            options,
        }));
    }
    steps.push(Step::Log {
        level: "info".to_owned(),
        message: format!("the password is {password}"),
        fields: vec![("password".to_owned(), password.to_owned())],
    });
    steps.swap(0, 1); // it may be seen before it is known to be one
    let mut one = recording(steps);
    one.config = json!({"password": password}).to_string().into();
    one.outcome = Outcome::Failed {
        terminal: false,
        reason: "error".to_owned(),
        message: format!("cannot use {password}"),
    };
    put_into(&mut one, &[]).unwrap();
    let file = String::from_utf8(one.to_file()).unwrap();
    let decoded = serde_json::from_str::<Value>(&file).unwrap().to_string();
    for text in [&file, &decoded] {
        for form in ["word@", "w\\u006frd", "pä<ss", "u003css", "u00e4<ss", "ss>"] {
            assert!(!text.contains(form), "{form}: {text}");
        }
        assert!(!text.contains(&unpadded), "{text}");
    }
    assert_eq!(file.matches("the password is").count(), 1);
}

#[test]
fn parts_of_a_value_are_hidden_that_a_guest_is_likely_to_take() {
    let logins = json!({"auths": {"host": {"auth": STANDARD.encode("robot:logintoken")}}});
    let pem = "-----BEGIN KEY-----\nMIIEvAIBADANBgkq\n-----END KEY-----\n";
    let data = json!({
        "file": STANDARD.encode("with-a-line-end\n"),
        "pem": STANDARD.encode(pem),
        "env": STANDARD.encode("USER=x\nPASSWORD='quoted-one'\n"),
        ".dockerconfigjson": STANDARD.encode(logins.to_string()),
        "long": STANDARD.encode("0123456789abcdefghij"),
    });
    let log = |message: &str| Step::Log {
        level: "warn".to_owned(),
        message: message.to_owned(),
        fields: Vec::new(),
    };
    let one = recording(vec![
        get("Secret", secret(data)),
        log("url http://with-a-line-end/"),
        log("MIIEvAIBADANBgkq"),
        log(&crate::clean::clean(&format!("key {pem}"), 1000)),
        log("quoted-one logintoken"),
        log("the token is 0123456789abc…"),
    ]);
    let file = file(one);
    for part in [
        "with-a-line-end",
        "MIIEvAIBADANBgkq",
        "quoted-one",
        "logintoken",
        "0123456789abc",
    ] {
        assert!(!file.contains(part), "{part}: {file}");
    }
    assert!(
        file.contains("url http://") && file.contains("the token is "),
        "{file}"
    );
}

#[test]
fn what_a_guest_takes_out_of_a_stand_in_is_what_stands_for_that_part() {
    let mut one = recording(vec![
        get(
            "Secret",
            secret(json!({"a": STANDARD.encode("in-a-file\n")})),
        ),
        get("ConfigMap", json!({"data": {"a": "in-a-file"}})),
    ]);
    put_into(&mut one, &[]).unwrap();
    let whole = answered(&one, 0)["data"]["a"].as_str().unwrap().to_owned();
    let whole = String::from_utf8(STANDARD.decode(whole).unwrap()).unwrap();
    assert_eq!(answered(&one, 1)["data"]["a"], whole.trim());
    assert_ne!(whole.trim(), "in-a-file");
}

#[test]
fn names_of_fields_and_numbers_stay() {
    let mut one = recording(vec![
        get(
            "Secret",
            secret(json!({"a": STANDARD.encode("password"), "b": STANDARD.encode("100000")})),
        ),
        get("ConfigMap", json!({"data": {"password": 100_000}})),
    ]);
    put_into(&mut one, &[]).unwrap();
    assert_eq!(answered(&one, 1)["data"]["password"], 100_000);
}

#[test]
fn what_is_no_object_and_no_patch_is_hidden_whole() {
    let steps = [
        "{\"data\": {\"a\": \"dG9wc2VjcmV0\"}",
        "\"topsecret\"",
        "{\"stringData\": {\"pin\": 123456, \"deep\": {\"a\": [\"topsecret\"]}}}",
        "{\"data\": {\"a\": \"dG9wc2VjcmV0\"}, \"data\": {\"b\": \"dG9w\"}}",
        "[{\"op\": \"add\", \"value\": \"dG9wc2VjcmV0\"}]",
        "[{\"op\": \"add\", \"path\": \"/metadata/annotations/applied\", \"value\": \"topsecret\"}]",
    ];
    let steps = steps.map(|text| {
        write(|options| Operation::Patch {
            kind: kind("Secret"),
            key: Key {
                namespace: None,
                name: "one".to_owned(),
            },
            patch_type: PatchType::Merge,
            patch: text.to_owned().into(),
            options,
        })
    });
    let file = file(recording(steps.into()));
    for secret in ["topsecret", "dG9wc2VjcmV0", "123456", "dG9w"] {
        assert!(!file.contains(secret), "{secret}: {file}");
    }
}

#[test]
fn random_numbers_of_which_a_secret_may_be_made_are_others() {
    let create = || {
        write(|options| Operation::Create {
            kind: kind("Secret"),
            object: secret(json!({"a": STANDARD.encode("generated")}))
                .to_string()
                .into(),
            options,
        })
    };
    let random = |steps: Vec<Step>| {
        let mut one = recording(steps);
        one.draws.random = "00ff".to_owned();
        put_into(&mut one, &[]).unwrap();
        one.draws.random
    };
    let read = get("Secret", secret(json!({"a": STANDARD.encode("generated")})));
    assert_eq!(random(vec![read, create()]), "00ff", "it was read before");
    let other = random(vec![create()]);
    assert!(other != "00ff" && other.len() == 4, "{other}");
}

#[test]
fn calls_are_compared_without_the_secrets_that_they_write() {
    let asked = |value: &str| {
        let step = write(|options| Operation::Create {
            kind: kind("Secret"),
            object: secret(json!({"a": value})).to_string().into(),
            options,
        });
        let Step::Call { asked, .. } = step else {
            unreachable!("it is a call");
        };
        without_secrets(*asked)
    };
    assert_eq!(asked("eA=="), asked("eQ=="));
    assert!(
        !serde_json::to_string(&asked("eA=="))
            .unwrap()
            .contains("eA==")
    );
}

#[test]
fn short_values_are_hidden_in_secrets_alone() {
    let mut one = recording(vec![
        get("Secret", secret(json!({"user": STANDARD.encode("admin")}))),
        get("ConfigMap", json!({"data": {"user": "admin"}})),
    ]);
    put_into(&mut one, &[]).unwrap();
    assert_ne!(answered(&one, 0)["data"]["user"], STANDARD.encode("admin"));
    assert_eq!(answered(&one, 1)["data"]["user"], "admin");
}

#[test]
fn names_of_the_request_stay() {
    let name = STANDARD.encode("request-name");
    let mut one = recording(vec![
        get("Secret", secret(json!({"name": name}))),
        get("ConfigMap", json!({"metadata": {"name": "request-name"}})),
    ]);
    put_into(&mut one, &[]).unwrap();
    assert_eq!(answered(&one, 1)["metadata"]["name"], "request-name");
    assert_ne!(answered(&one, 0)["data"]["name"], name);
}

#[test]
fn writes_of_secrets_are_hidden_in_every_form() {
    let b64 = STANDARD.encode("topsecret");
    let patch = |text: String| {
        write(|options| Operation::Patch {
            kind: kind("Secret"),
            key: Key {
                namespace: None,
                name: "one".to_owned(),
            },
            patch_type: PatchType::Merge,
            patch: text.into(),
            options,
        })
    };
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let applied = json!({"metadata": {"annotations": {annotation: "{\"data\":{\"a\":\"b\"}}"}}});
    let steps = vec![
        patch(json!({"stringData": {"a": "topsecret"}}).to_string()),
        patch(json!({"data": {"a": b64, "gone": null}}).to_string()),
        patch(json!([{"op": "add", "path": "/data/a", "value": b64}]).to_string()),
        patch(json!([{"op": "add", "path": "/stringData", "value": {"a": "topsecret"}}]).to_string()),
        patch(json!([{"op": "replace", "path": "", "value": {"data": {"a": b64}}}, {"op": "remove", "path": "/data/b"}]).to_string()),
        patch("no JSON: topsecret".to_owned()),
        get("Secret", applied),
    ];
    let file = file(recording(steps));
    assert!(
        !file.contains("topsecret") && !file.contains(&b64),
        "{file}"
    );
    assert!(
        !file.contains("{\\\"data\\\":{\\\"a\\\":\\\"b\\\"}}"),
        "{file}"
    );
    assert!(
        file.contains("\"gone\":null") && file.contains("/data/b"),
        "{file}"
    );
}

#[test]
fn bytes_that_are_no_text_have_stand_ins_too() {
    let key = STANDARD.encode([0xff, 0, 1, 2, 3, 0xfe, 9]);
    let mut one = recording(vec![
        get("Secret", secret(json!({"key": key}))),
        get("ConfigMap", json!({"data": {"copy": key}})),
    ]);
    put_into(&mut one, &[]).unwrap();
    let hidden = answered(&one, 0)["data"]["key"].clone();
    assert_eq!(hidden, answered(&one, 1)["data"]["copy"]);
    let bytes = STANDARD.decode(hidden.as_str().unwrap()).unwrap();
    assert!(bytes.len() == 7 && hidden != key.as_str());
}

#[test]
fn texts_of_the_configuration_that_are_secret_are_hidden_however_short() {
    let mut one = recording(vec![get("ConfigMap", json!({"data": {"copy": "hunter2"}}))]);
    let config = json!({"user": "bob", "list": ["hunter2"], "greeting": "hello"});
    one.config = config.to_string().into();
    put_into(&mut one, &["bob".to_owned(), "hunter2".to_owned()]).unwrap();
    let hidden: Value = serde_json::from_str(one.config.as_str()).unwrap();
    assert_eq!(hidden["greeting"], "hello");
    assert!(hidden["user"] != "bob" && hidden["list"][0] != "hunter2");
    assert_eq!(answered(&one, 0)["data"]["copy"], hidden["list"][0]);
}
