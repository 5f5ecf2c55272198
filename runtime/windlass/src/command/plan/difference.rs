//! What differs in an object, field by field. Entry point: [`Difference::of`].
//!
//! Versions, identities, times and the notes on who owns which field are no differences. Values of Secrets are never shown.

use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use windlass_apiserver::Change;
use windlass_files::below;

/// Metadata that the server makes.
const OF_SERVER: [&str; 7] = [
    "resourceVersion",
    "uid",
    "generation",
    "managedFields",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];
/// The object as kubectl applied it, which repeats every field.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What kcp notes at the objects of workspaces: annotations, and beginnings of labels.
const OF_KCP: [&str; 2] = ["kcp.io/cluster", "kcp.io/path"];
const CLAIMED_IN_KCP: &str = "claimed.internal.apis.kcp.io/";
/// Fields that are as good as absent if they are empty.
const EMPTY: [&str; 7] = [
    "",
    "data",
    "metadata",
    "metadata.annotations",
    "metadata.labels",
    "spec",
    "status",
];
/// Fields that name an item of a list.
const NAMES: [&str; 5] = ["name", "type", "key", "uid", "ip"];

/// What happens to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Action {
    /// It is created.
    Create,
    /// It is changed.
    Change,
    /// It is deleted, or waits for its finalizers to be.
    Delete,
    /// It is deleted, and another one is created in its place.
    Replace,
}

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Field {
    /// Where it is in the object.
    pub(super) path: String,
    /// Its value before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Value>,
    /// Its value afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Value>,
}

/// What differs in an object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Difference {
    pub(super) action: Action,
    /// For example `apps/v1`.
    pub(super) api_version: String,
    pub(super) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    /// With `*` in place of what the server makes up.
    pub(super) name: String,
    /// Of an object that is to be deleted: what it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) finalizers: Vec<String>,
    pub(super) fields: Vec<Field>,
}

impl Difference {
    /// What a change comes to; `None`: nothing that counts.
    pub(super) fn of(change: &Change) -> Option<Self> {
        let Change { before, after, .. } = change;
        let deleting = |object: &&Value| !object["metadata"]["deletionTimestamp"].is_null();
        let doomed = after.as_ref().filter(deleting);
        let action = match (before, after) {
            (None, None) => return None,
            (None, Some(_)) => Action::Create,
            (Some(_), None) => Action::Delete,
            (Some(before), Some(_)) if doomed.is_some() && !deleting(&before) => Action::Delete,
            (Some(before), Some(after)) if is_another(before, after) => Action::Replace,
            (Some(_), Some(_)) => Action::Change,
        };
        let mut fields = Vec::new();
        if action != Action::Delete || doomed.is_some() {
            let absent = Value::Null;
            let (from, to) = (normal(before.as_ref()), normal(after.as_ref()));
            let (from, to) = (from.as_ref(), to.as_ref());
            compare(
                from.unwrap_or(&absent),
                to.unwrap_or(&absent),
                String::new(),
                &mut fields,
            );
        }
        if action == Action::Create {
            fields.retain(|field| !is_assigned(change, field));
        }
        if fields.is_empty() && action == Action::Change {
            return None;
        }
        if change.group.is_empty() && change.kind == "Secret" {
            fields.iter_mut().for_each(hide);
        }
        let finalizers = doomed.iter().flat_map(|doomed| {
            let finalizers = doomed["metadata"]["finalizers"].as_array();
            finalizers.into_iter().flatten()
        });
        Some(Self {
            action,
            api_version: match &*change.group {
                "" => change.version.clone(),
                group => format!("{group}/{}", change.version),
            },
            kind: change.kind.clone(),
            namespace: change.namespace.clone(),
            name: shown_name(change),
            finalizers: finalizers
                .filter_map(|finalizer| Some(finalizer.as_str()?.to_owned()))
                .collect(),
            fields,
        })
    }
}

/// Whether an object has the name of another one, which was deleted.
fn is_another(before: &Value, after: &Value) -> bool {
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let (before, after) = (uid(before), uid(after));
    before.is_string() && after.is_string() && before != after
}

/// The name of an object, without what the server has made up of it.
fn shown_name(change: &Change) -> String {
    let made = change.after.as_ref().filter(|_| change.before.is_none());
    let prefix = made.and_then(|made| made["metadata"]["generateName"].as_str());
    match prefix {
        Some(prefix) if change.name.starts_with(prefix) => format!("{prefix}*"),
        _ => change.name.clone(),
    }
}

/// An object without what is no difference.
fn normal(object: Option<&Value>) -> Option<Value> {
    let mut object = object?.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !OF_SERVER.contains(&name.as_str()));
        metadata.remove("name");
        metadata.remove("namespace");
        metadata.remove("generateName");
        for pairs in ["annotations", "labels"] {
            let pairs = metadata.get_mut(pairs).and_then(Value::as_object_mut);
            let noted = |key: &str| {
                key == APPLIED || OF_KCP.contains(&key) || key.starts_with(CLAIMED_IN_KCP)
            };
            pairs
                .into_iter()
                .for_each(|pairs| pairs.retain(|key, _| !noted(key)));
        }
        let owners = metadata.get_mut("ownerReferences");
        for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
            owner.as_object_mut().map(|owner| owner.remove("uid"));
        }
    }
    Some(object)
}

fn compare(before: &Value, after: &Value, path: String, fields: &mut Vec<Field>) {
    let is_of_server = path.starts_with("status") || path.starts_with("metadata");
    if before == after || (is_of_server && is_time(before) && is_time(after)) {
        return;
    }
    let empty = Map::new();
    let (had, has) = (before.is_object(), after.is_object());
    match (before, after) {
        (Value::Object(_), Value::Object(_) | Value::Null) | (Value::Null, Value::Object(_)) => {
            let (before, after) = (
                before.as_object().unwrap_or(&empty),
                after.as_object().unwrap_or(&empty),
            );
            if before.is_empty() && after.is_empty() {
                // One of both is absent, which means nothing for these.
                if !EMPTY.contains(&path.as_str()) {
                    let there = |is: bool| is.then(|| json!({}));
                    let (before, after) = (there(had), there(has));
                    fields.push(Field {
                        path,
                        before,
                        after,
                    });
                }
                return;
            }
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let of = |fields: &Map<String, Value>| fields.get(name).cloned();
                let (before, after) = (of(before), of(after));
                compare(
                    &before.unwrap_or_default(),
                    &after.unwrap_or_default(),
                    below(&path, name),
                    fields,
                );
            }
        }
        (Value::Array(one), Value::Array(other)) => lists(one, other, &path, fields),
        (Value::Null, Value::Array(items)) if !items.is_empty() => {
            lists(&[], items, &path, fields);
        }
        (Value::Array(items), Value::Null) if !items.is_empty() => {
            lists(items, &[], &path, fields);
        }
        (before, after) => {
            // Each run has its own times: with them equal changes would differ.
            let there = |value: &Value| match value {
                Value::Null => None,
                time if is_time(time) => Some(json!("(time)")),
                uid if before.is_null() && is_uid(uid) => Some(json!("(uid)")),
                value => Some(value.clone()),
            };
            fields.push(Field {
                path,
                before: there(before),
                after: there(after),
            });
        }
    }
}

/// Compares lists by the names of their items, where all have one; else by their places.
fn lists(before: &[Value], after: &[Value], path: &str, fields: &mut Vec<Field>) {
    let keyed = NAMES
        .iter()
        .find_map(|key| Some((key, by_name(before, key)?, by_name(after, key)?)));
    let Some((key, one, other)) = keyed else {
        for at in 0..before.len().max(after.len()) {
            let of = |items: &[Value]| items.get(at).cloned().unwrap_or_default();
            compare(&of(before), &of(after), format!("{path}[{at}]"), fields);
        }
        return;
    };
    if !path.ends_with("conditions") && !path.ends_with("ownerReferences") {
        let names = |items: &[Value], others: &BTreeMap<&str, &Value>| -> Vec<Value> {
            let names = items.iter().map(|item| item[key].clone());
            let is_there = |name: &Value| name.as_str().is_some_and(|it| others.contains_key(it));
            names.filter(is_there).collect()
        };
        let (was, is) = (names(before, &other), names(after, &one));
        // Containers begin in their order.
        if was != is {
            fields.push(Field {
                path: format!("{path} (order)"),
                before: Some(was.into()),
                after: Some(is.into()),
            });
        }
    }
    let names: BTreeSet<&str> = one.keys().chain(other.keys()).copied().collect();
    for name in names {
        let of = |items: &BTreeMap<&str, &Value>| items.get(name).copied().cloned();
        compare(
            &of(&one).unwrap_or_default(),
            &of(&other).unwrap_or_default(),
            format!("{path}[{name}]"),
            fields,
        );
    }
}

/// The items by what names them; `None`: not every one has such a name of its own.
fn by_name<'a>(items: &'a [Value], key: &str) -> Option<BTreeMap<&'a str, &'a Value>> {
    let named = items
        .iter()
        .map(|item| Some((item.get(key)?.as_str()?, item)));
    let named: Option<BTreeMap<&str, &Value>> = named.collect();
    named.filter(|named| named.len() == items.len())
}

/// Whether a value is a time as Kubernetes writes them.
fn is_time(value: &Value) -> bool {
    let Some(text) = value.as_str().filter(|text| text.len() >= 20) else {
        return false;
    };
    text.as_bytes()[4] == b'-' && text.ends_with('Z') && text.parse::<jiff::Timestamp>().is_ok()
}

/// Whether a value is an identity as servers make them.
fn is_uid(value: &Value) -> bool {
    let dashes = [8, 13, 18, 23];
    value.as_str().is_some_and(|text| {
        let mut bytes = text.bytes().enumerate();
        text.len() == 36
            && bytes.all(|(at, byte)| {
                if dashes.contains(&at) {
                    byte == b'-'
                } else {
                    byte.is_ascii_hexdigit()
                }
            })
    })
}

/// Whether a server chooses the value of a new object's field, and the copy's server has chosen another one than the real one will.
fn is_assigned(change: &Change, field: &Field) -> bool {
    let is_service = change.group.is_empty() && change.kind == "Service";
    let is_address = field.path.starts_with("spec.clusterIP") || field.path.ends_with(".nodePort");
    is_service && is_address && field.after != Some(json!("None")) && !is_written(change, field)
}

/// Whether a writer of an object owns a field, by the last part of its path.
fn is_written(change: &Change, field: &Field) -> bool {
    let name = field.path.rsplit('.').next().unwrap_or_default();
    let name = name.split('[').next().unwrap_or_default();
    let owned = change
        .after
        .as_ref()
        .map(|after| after["metadata"]["managedFields"].to_string());
    owned.is_some_and(|owned| owned.contains(&format!("\"f:{name}\"")))
}

/// Replaces the value of a Secret by its length. Tools keep whole Secrets in annotations, so their values are hidden too.
fn hide(field: &mut Field) {
    let is_data = field.path.starts_with("data") || field.path.starts_with("stringData");
    if !is_data && !field.path.starts_with("metadata.annotations") {
        return;
    }
    let hidden = |value: &Value| {
        let length = match value.as_str() {
            Some(text) if is_data => decoded_length(text),
            text => text.map_or(0, str::len),
        };
        json!(format!("(secret, {length} bytes)"))
    };
    field.before = field.before.as_ref().map(hidden);
    field.after = field.after.as_ref().map(hidden);
}

/// How many bytes a text in base64 has.
fn decoded_length(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: &str, before: Option<Value>, after: Option<Value>) -> Change {
        Change {
            group: String::new(),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
            namespace: "default".to_owned(),
            name: "a-x7".to_owned(),
            has_schema: true,
            before,
            after,
        }
    }

    fn lines(difference: &Difference) -> Vec<String> {
        let shown = |value: &Option<Value>| value.as_ref().map_or("-".into(), Value::to_string);
        let fields = difference.fields.iter();
        let lines = fields.map(|f| format!("{} {} {}", f.path, shown(&f.before), shown(&f.after)));
        lines.collect()
    }

    #[test]
    fn versions_times_and_owners_of_fields_are_no_difference() {
        let object = |version: &str, time: &str| {
            json!({"metadata": {"name": "a", "resourceVersion": version, "managedFields": [version],
                "ownerReferences": [{"name": "o", "uid": version}]},
                "status": {"conditions": [{"type": "Ready", "lastTransitionTime": time}]}})
        };
        let before = object("1", "2026-01-01T00:00:00Z");
        let after = object("2", "2026-01-02T00:00:00Z");
        assert_eq!(
            Difference::of(&change("ConfigMap", Some(before), Some(after))),
            None
        );
    }

    #[test]
    fn fields_that_differ_are_named_by_their_paths() {
        let before = json!({"metadata": {"name": "a", "labels": {"app": "x"}},
            "spec": {"list": [{"name": "web", "image": "a:1"}, {"name": "side"}], "args": ["a", "b"]}});
        let after = json!({"metadata": {"name": "a"},
            "spec": {"list": [{"name": "side"}, {"name": "web", "image": "a:2"}], "args": ["a"]}});
        let found = Difference::of(&change("Pod", Some(before), Some(after))).unwrap();
        assert_eq!(found.action, Action::Change);
        assert_eq!(
            lines(&found),
            [
                "metadata.labels.app \"x\" -",
                "spec.args[1] \"b\" -",
                "spec.list (order) [\"web\",\"side\"] [\"side\",\"web\"]",
                "spec.list[web].image \"a:1\" \"a:2\"",
            ]
        );
    }

    #[test]
    fn no_value_of_a_secret_is_shown() {
        let secret = |value: &str| {
            json!({"metadata": {"name": "a", "annotations": {APPLIED: value, "original": value}},
            "data": {"key": value}})
        };
        let (before, after) = (secret("c2VjcmV0"), secret("c2VjcmV0LXR3bw=="));
        let found = Difference::of(&change("Secret", Some(before), Some(after))).unwrap();
        assert_eq!(
            lines(&found),
            [
                "data.key \"(secret, 6 bytes)\" \"(secret, 10 bytes)\"",
                "metadata.annotations.original \"(secret, 8 bytes)\" \"(secret, 16 bytes)\""
            ]
        );
        let equal = Difference::of(&change(
            "Secret",
            Some(secret("YQ==")),
            Some(secret("Yg==")),
        ));
        assert_eq!(equal.unwrap().fields.len(), 2);
    }

    #[test]
    fn an_object_that_waits_for_a_finalizer_is_to_be_deleted() {
        let before = json!({"metadata": {"name": "a", "finalizers": ["x.dev/held"]}});
        let mut after = before.clone();
        after["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let found = Difference::of(&change(
            "ConfigMap",
            Some(before.clone()),
            Some(after.clone()),
        ));
        let found = found.unwrap();
        assert_eq!(
            (found.action, found.finalizers),
            (Action::Delete, vec!["x.dev/held".to_owned()])
        );
        // It was so before.
        assert_eq!(
            Difference::of(&change("ConfigMap", Some(after.clone()), Some(after))),
            None
        );
        let gone = Difference::of(&change("ConfigMap", Some(before), None)).unwrap();
        assert_eq!((gone.action, gone.fields.len()), (Action::Delete, 0));
    }

    #[test]
    fn what_means_something_is_a_difference() {
        let of = |spec: Value| json!({"metadata": {"uid": "1"}, "spec": spec});
        let found = |before: Value, after: Value| {
            let change = change("NetworkPolicy", Some(of(before)), Some(of(after)));
            Difference::of(&change)
                .map(|found| lines(&found))
                .unwrap_or_default()
        };
        // Everything may come in.
        let opened = found(json!({"ingress": []}), json!({"ingress": [{}]}));
        assert_eq!(opened, ["spec.ingress[0] - {}"]);
        let names = |one: &str, other: &str| json!({"steps": [{"name": one}, {"name": other}]});
        let turned = found(names("a", "b"), names("b", "a"));
        assert_eq!(turned, ["spec.steps (order) [\"a\",\"b\"] [\"b\",\"a\"]"]);
        let until = |year: u32| json!({"until": format!("{year}-01-01T00:00:00Z")});
        let later = found(until(2026), until(2036));
        assert_eq!(later, ["spec.until \"(time)\" \"(time)\""]);
        assert_eq!(found(json!({}), Value::Null), [""; 0]);
    }

    #[test]
    fn another_object_of_the_same_name_is_a_replacement() {
        let of = |uid: &str| json!({"metadata": {"name": "a", "uid": uid}, "data": {"k": "v"}});
        let found = Difference::of(&change("ConfigMap", Some(of("1")), Some(of("2")))).unwrap();
        assert_eq!((found.action, found.fields.len()), (Action::Replace, 0));
    }

    #[test]
    fn what_a_server_chooses_is_not_shown() {
        let uid = "0b9a5c3e-1f6d-4a5e-9a55-0d4d2f3c7a11";
        let service = json!({"metadata": {"name": "a", "labels": {"of": uid}},
            "spec": {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "type": "ClusterIP"}});
        let found = Difference::of(&change("Service", None, Some(service))).unwrap();
        assert_eq!(
            lines(&found),
            [
                "metadata.labels.of - \"(uid)\"",
                "spec.type - \"ClusterIP\""
            ]
        );
        let headless = json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "None"}});
        let found = Difference::of(&change("Service", None, Some(headless))).unwrap();
        assert_eq!(lines(&found), ["spec.clusterIP - \"None\""]);
    }

    #[test]
    fn a_made_up_name_is_shown_as_what_was_asked_for() {
        let made = json!({"metadata": {"name": "a-x7", "generateName": "a-"},
            "data": {"at": "2026-01-01T00:00:00Z", "k": "v"}});
        let found = Difference::of(&change("ConfigMap", None, Some(made))).unwrap();
        assert_eq!((found.name.as_str(), found.action), ("a-*", Action::Create));
        assert_eq!(lines(&found), ["data.at - \"(time)\"", "data.k - \"v\""]);
    }
}
