//! All objects of a fleet at one moment, for comparing how two runs ended. Entry point: [`State::of`].
//!
//! What differs in every run is left out: uids, versions, times, generated names, who wrote a field. Events and Leases are left out too.

use super::compare::{self, Difference};
use super::identity::Identity;
use crate::simulated::{CONDITION, SOMEBODY, Simulated};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The fields of `metadata` that differ in every run.
const VOLATILE: [&str; 6] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "deletionGracePeriodSeconds",
];

/// Where somebody leaves a mark.
const ANNOTATION: &str = "metadata.annotations";
const CONDITIONS: &str = "status.conditions";

/// An object by its cluster and its text, as `v1/ConfigMap default/a`.
type Key = (String, String);

/// The objects of a fleet.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// What can be compared of each.
    objects: BTreeMap<Key, Json>,
    /// The version of each, by its real name.
    versions: BTreeMap<Key, String>,
    /// What somebody has changed: an object, and the path in it. It is left out of the objects.
    marks: BTreeSet<(Key, &'static str)>,
}

/// Fields that differ between two runs without faults: no statement about a third.
#[derive(Debug, Clone, Default)]
pub struct Noise(BTreeSet<(String, String, String)>);

impl State {
    /// All objects of all clusters and workspaces now.
    #[must_use]
    pub fn of(fleet: &Simulated) -> Self {
        let mut all = Vec::new();
        fleet.settle_workspaces();
        for name in fleet.everywhere() {
            if let Some(cluster) = fleet.cluster(&name) {
                cluster.settle();
                let objects = cluster.objects().into_iter();
                let counted = objects.filter(|object| !is_left_out(object));
                all.extend(counted.map(|object| (name.clone(), object)));
            }
        }
        Self::new(all)
    }

    fn new(all: Vec<(String, Json)>) -> Self {
        let names = Names::of(&all);
        let mut state = Self::default();
        let mut several: BTreeMap<Key, Vec<Json>> = BTreeMap::new();
        for (cluster, object) in all {
            let version = text(&object["metadata"]["resourceVersion"]).to_owned();
            let real = (cluster.clone(), Identity::of(&object).to_string());
            state.versions.insert(real, version);
            let key = (cluster, names.identity(&object));
            let object = state.without_marks(&key, object);
            several
                .entry(key)
                .or_default()
                .push(names.comparable(object));
        }
        for ((cluster, name), mut alike) in several {
            alike.sort_by_cached_key(ToString::to_string);
            for (number, object) in alike.into_iter().enumerate() {
                // Those with a generated name, one after the other.
                let name = match number {
                    0 => name.clone(),
                    more => format!("{name} ({})", more + 1),
                };
                state.objects.insert((cluster.clone(), name), object);
            }
        }
        state
    }

    /// An object without what somebody has changed in it, which is noted.
    fn without_marks(&mut self, key: &Key, mut object: Json) -> Json {
        let annotations = object.pointer_mut("/metadata/annotations");
        let annotations = annotations.and_then(Json::as_object_mut);
        if annotations.is_some_and(|it| it.remove(SOMEBODY).is_some()) {
            self.marks.insert((key.clone(), ANNOTATION));
        }
        let conditions = object.pointer_mut("/status/conditions");
        if let Some(conditions) = conditions.and_then(Json::as_array_mut) {
            let before = conditions.len();
            conditions.retain(|condition| condition["type"] != CONDITION);
            if conditions.len() < before {
                self.marks.insert((key.clone(), CONDITIONS));
            }
        }
        object
    }

    /// The changes of somebody that are there in another state, and not here, though the object is.
    #[must_use]
    pub fn lost_changes(&self, other: &Self) -> Vec<Difference> {
        let lost = other
            .marks
            .iter()
            .filter(|mark| !self.marks.contains(mark) && self.objects.contains_key(&mark.0));
        let lost = lost.map(|((cluster, object), path)| Difference {
            step: None,
            cluster: cluster.clone(),
            object: object.clone(),
            path: (*path).to_owned(),
            expected: Some(Json::from("what somebody has added")),
            found: None,
        });
        lost.collect()
    }

    /// How many changes of somebody are there.
    #[must_use]
    pub fn count_changes(&self) -> usize {
        self.marks.len()
    }

    /// How another run ended otherwise than this one.
    #[must_use]
    pub fn differences(&self, found: &Self, noise: &Noise) -> Vec<Difference> {
        let mut all = Vec::new();
        let keys: BTreeSet<&Key> = self.objects.keys().chain(found.objects.keys()).collect();
        for key in keys {
            let (expected, found) = (self.objects.get(key), found.objects.get(key));
            compare::equal(&key.0, &key.1, expected, found, &mut all);
        }
        all.retain(|it| {
            let place = (it.cluster.clone(), it.object.clone(), it.path.clone());
            !noise.0.contains(&place)
        });
        all
    }

    /// The fields in which another run without faults ended otherwise.
    #[must_use]
    pub fn noise(&self, other: &Self) -> Noise {
        let differences = self.differences(other, &Noise::default()).into_iter();
        let places = differences.map(|it| (it.cluster, it.object, it.path));
        Noise(places.collect())
    }

    /// What was written from an earlier state on, up to this one: each object that came, went or has another version.
    #[must_use]
    pub fn written_since(&self, before: &Self) -> Vec<Difference> {
        let mut all = Vec::new();
        let versions = (&before.versions, &self.versions);
        let keys: BTreeSet<&Key> = versions.0.keys().chain(versions.1.keys()).collect();
        for key in keys {
            let (then, now) = (versions.0.get(key), versions.1.get(key));
            if then == now {
                continue;
            }
            let value = |version: Option<&String>| version.map(|it| Json::from(it.as_str()));
            all.push(Difference {
                step: None,
                cluster: key.0.clone(),
                object: key.1.clone(),
                path: "metadata.resourceVersion".to_owned(),
                expected: value(then),
                found: value(now),
            });
        }
        all
    }
}

/// What every run makes anew: names by their uid, and generated names.
struct Names {
    uids: HashMap<String, String>,
    generated: HashMap<String, String>,
}

impl Names {
    fn of(all: &[(String, Json)]) -> Self {
        let mut generated = HashMap::new();
        for (_, object) in all {
            let metadata = &object["metadata"];
            let (prefix, name) = (text(&metadata["generateName"]), text(&metadata["name"]));
            if !prefix.is_empty() && name.len() > prefix.len() {
                generated.insert(name.to_owned(), format!("{prefix}*"));
            }
        }
        let mut names = Self {
            uids: HashMap::new(),
            generated,
        };
        for (cluster, object) in all {
            let uid = text(&object["metadata"]["uid"]).to_owned();
            let called = format!("uid of {} in {cluster}", names.identity(object));
            names.uids.insert(uid, called);
        }
        names
    }

    /// The text by which an object is found in every run.
    fn identity(&self, object: &Json) -> String {
        let mut identity = Identity::of(object);
        if let Some(generated) = self.generated.get(&identity.name) {
            identity.name.clone_from(generated);
        }
        identity.to_string()
    }

    fn comparable(&self, mut object: Json) -> Json {
        let generation = object["metadata"]["generation"].clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in VOLATILE {
                metadata.remove(field);
            }
            leave_out_empty(metadata);
        }
        self.replace(&mut object, "", &generation);
        object
    }

    fn replace(&self, value: &mut Json, field: &str, generation: &Json) {
        match value {
            Json::Object(fields) => {
                for (field, value) in fields {
                    self.replace(value, field, generation);
                }
            }
            Json::Array(items) => {
                for item in items {
                    self.replace(item, field, generation);
                }
            }
            Json::String(text) => {
                if let Some(word) = self.word(text, field) {
                    *text = word;
                }
            }
            Json::Number(_) if field == "observedGeneration" => {
                let is_current = value == generation;
                *value = Json::from(if is_current { "current" } else { "older" });
            }
            _ => {}
        }
    }

    /// A word that is the same in every run.
    fn word(&self, text: &str, field: &str) -> Option<String> {
        if let Some(name) = self.uids.get(text).or_else(|| self.generated.get(text)) {
            return Some(name.clone());
        }
        let lower = field.to_ascii_lowercase();
        if lower == "uid" {
            return Some("uid of nothing that is there".to_owned());
        }
        if lower.ends_with("resourceversion") {
            return Some("a version".to_owned());
        }
        is_time(text).then(|| "a time".to_owned())
    }
}

/// Empty maps and lists of metadata are as good as none: who adds and removes a label leaves one behind.
fn leave_out_empty(metadata: &mut Map<String, Json>) {
    metadata.retain(|_, value| match value {
        Json::Object(fields) => !fields.is_empty(),
        Json::Array(items) => !items.is_empty(),
        _ => true,
    });
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

/// Events come in the background, and Leases with time.
fn is_left_out(object: &Json) -> bool {
    matches!(text(&object["kind"]), "Event" | "Lease")
}

/// Whether it is a time as `2026-01-02T03:04:05Z`, with or without fractions of a second.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    (20..=35).contains(&bytes.len())
        && [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18].map(digit) == [true; 14]
        && [4, 7, 10, 13, 16].map(|at| bytes[at]) == *b"--T::"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(name: &str, uid: &str, fields: Json) -> (String, Json) {
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": uid,
                "creationTimestamp": format!("2026-01-02T03:04:0{uid}Z"), "generation": 3},
        });
        for (key, value) in fields.as_object().into_iter().flatten() {
            match object.get_mut(key).and_then(Json::as_object_mut) {
                Some(there) => there.extend(
                    value
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(k, v)| (k.clone(), v.clone())),
                ),
                None => object[key] = value.clone(),
            }
        }
        ("eu".to_owned(), object)
    }

    fn said(expected: Vec<(String, Json)>, found: Vec<(String, Json)>) -> Vec<String> {
        let differences = State::new(expected).differences(&State::new(found), &Noise::default());
        differences
            .iter()
            .map(|it| format!("{} {}", it.object, it.path))
            .collect()
    }

    #[test]
    fn what_every_run_makes_anew_is_no_difference() {
        let run = |uid: &str, owner: &str| {
            let child = json!({
                "metadata": {"generateName": "a-", "ownerReferences": [{"name": "a", "uid": owner}]},
                "status": {"observedGeneration": 3, "at": format!("2026-01-02T03:04:05.{uid}Z")},
            });
            let name = format!("a-{uid}x");
            vec![
                map("a", owner, json!({"data": {"child": name}})),
                map(&name, uid, child),
            ]
        };
        assert_eq!(said(run("1", "2"), run("7", "8")), [""; 0]);
        let orphan = |mut run: Vec<(String, Json)>| {
            run[1].1["metadata"]["ownerReferences"][0]["uid"] = json!("gone");
            run
        };
        assert_eq!(
            said(run("1", "2"), orphan(run("7", "8"))),
            ["v1/ConfigMap default/a-* metadata.ownerReferences[0].uid"]
        );
    }

    #[test]
    fn a_second_object_of_a_generated_name_is_one_too_many() {
        let child =
            |name: &str, uid: &str| map(name, uid, json!({"metadata": {"generateName": "a-"}}));
        assert_eq!(
            said(
                vec![child("a-x", "1")],
                vec![child("a-y", "2"), child("a-z", "3")]
            ),
            ["v1/ConfigMap default/a-* (2) "]
        );
    }

    #[test]
    fn fields_are_compared_both_ways_but_for_noise() {
        let with = |data: Json| vec![map("a", "1", json!({"data": data}))];
        let (one, two) = (with(json!({"x": "1"})), with(json!({"y": "1"})));
        assert_eq!(
            said(one.clone(), two.clone()),
            [
                "v1/ConfigMap default/a data.x",
                "v1/ConfigMap default/a data.y"
            ]
        );
        let (one, two) = (State::new(one), State::new(two));
        assert!(one.differences(&two, &one.noise(&two)).is_empty());
        assert!(one.written_since(&two).is_empty());
        let later = State::new(vec![map("a", "2", json!({}))]);
        assert_eq!(later.written_since(&one).len(), 1);
    }
}
