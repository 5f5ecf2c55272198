//! Bytes that no server should send: the scanners always return a value or an error, and never panic.

use super::*;
use crate::kind::GroupVersionKind;
use bytes::Bytes;
use fastrand::Rng;
use serde_json::Value;

/// Words that lead deep into the scanners, and some that lead nowhere.
const WORDS: [&[u8]; 36] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b" ",
    b"\n",
    b"\"",
    b"\\",
    b"null",
    b"true",
    b"-",
    b"0",
    b"1e9",
    b"12",
    b".5",
    b"\"metadata\"",
    b"\"managedFields\"",
    b"\"name\"",
    b"\"namespace\"",
    b"\"uid\"",
    b"\"resourceVersion\"",
    b"\"labels\"",
    b"\"ownerReferences\"",
    b"\"items\"",
    b"\"type\"",
    b"\"object\"",
    b"\"ADDED\"",
    b"\"\\u0061\"",
    b"\"\\ud800\"",
    b"\"a\"",
    b"\xff",
    b"\xf0\x9f",
    "é".as_bytes(),
    b"\x00",
];

fn words(rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..rng.usize(0..60) {
        text.extend_from_slice(rng.choice(WORDS.iter()).unwrap());
    }
    text
}

/// A text that was good until pieces of it were taken out, doubled or replaced.
fn mangled(rng: &mut Rng) -> Vec<u8> {
    let good = r#"{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":[{"a":1}],"name":"a","namespace":"b",
        "uid":"c","resourceVersion":"7","labels":{"x":"y\u00e9"},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true}],
        "deletionTimestamp":null,"generation":3},"spec":{"list":[1,2.5e3,"é",{"deep":[[[]]]}]},"status":{}},"items":[{"metadata":{"name":"i"}}]}"#;
    let mut text = good.as_bytes().to_vec();
    for _ in 0..rng.usize(1..6) {
        let (from, length) = (rng.usize(0..text.len()), rng.usize(0..30));
        let piece = text[from..(from + length).min(text.len())].to_vec();
        let at = rng.usize(0..text.len());
        match rng.u8(0..3) {
            0 => drop(text.drain(from..(from + length).min(text.len()))),
            1 => drop(text.splice(at..at, piece)),
            _ => drop(text.splice(at..at, rng.choice(WORDS.iter()).unwrap().iter().copied())),
        }
        if text.is_empty() {
            return text;
        }
    }
    text
}

/// Shows a text to everything that reads what servers send.
fn read_all(text: &[u8]) {
    let kind = GroupVersionKind::new("", "v1", "Pod");
    let sound = check(text).is_ok();
    assert!(!sound || std::str::from_utf8(text).is_ok());
    let _ = Head::scan(text);
    let _ = ObjectVersion::scan(text);
    if let Ok(frame) = Frame::scan(text) {
        assert!(sound, "a frame is a JSON text");
        read_all_of_object(&text[frame.object.range()], &kind);
    }
    if let Ok(list) = List::split(Bytes::copy_from_slice(text)) {
        assert!(sound, "a list is a JSON text");
        for item in list.items() {
            read_all_of_object(item, &kind);
        }
    }
    read_all_of_object(text, &kind);
}

fn read_all_of_object(text: &[u8], kind: &GroupVersionKind) {
    let Ok(object) = Object::ingest(text, kind) else {
        return;
    };
    assert!(check(object.json()).is_ok());
    let version = ObjectVersion::scan(text).expect("an object has a key and a version");
    assert_eq!(version.key, object.key());
    assert_eq!(version.uid, object.uid());
    assert_eq!(version.version, object.resource_version());
    let _ = (
        object.owners(),
        object.labels().to_map(),
        object.generation(),
    );
    assert!(object.same_content(&object) && object.same_labels(&object));
    for part in [object.metadata_only(), object.metadata_of(kind)] {
        assert_eq!(part.key(), object.key());
        assert!(check(part.json()).is_ok());
    }
    let parsed: Result<Value, _> = serde_json::from_slice(object.json());
    assert!(parsed.is_ok() || text.len() > 128, "a parser reads it too");
}

#[test]
fn random_bytes_are_refused_and_never_panic() {
    for seed in 0..3_000 {
        let mut rng = Rng::with_seed(seed);
        let bytes: Vec<u8> = (0..rng.usize(0..200)).map(|_| rng.u8(..)).collect();
        read_all(&bytes);
    }
}

#[test]
fn random_words_never_panic() {
    for seed in 0..20_000 {
        read_all(&words(&mut Rng::with_seed(seed)));
    }
}

#[test]
fn mangled_events_never_panic_and_what_passes_is_sound() {
    for seed in 0..20_000 {
        read_all(&mangled(&mut Rng::with_seed(seed)));
    }
}
