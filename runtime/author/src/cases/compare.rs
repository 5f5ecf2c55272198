//! Compares objects with expected ones. Entry points: [`present`] and [`unwanted`].

use super::identity::Identity;
use super::steps::Place;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fmt;
use windlass_files::below;

/// The longest value that is shown, in characters.
const LONGEST: usize = 400;

/// A difference between an object and the expected one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Where the step stands, in a file of steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<Place>,
    /// The cluster; `local` is the local one.
    pub(super) cluster: String,
    /// The object, for example `v1/ConfigMap default/name`.
    pub(super) object: String,
    /// The path in the object; empty: the whole object.
    pub(super) path: String,
    /// The expected value, if any.
    pub(super) expected: Option<Json>,
    /// The actual value, if any.
    pub(super) found: Option<Json>,
}

impl Difference {
    /// Where it is: the cluster and the object.
    #[must_use]
    pub fn place(&self) -> String {
        format!("cluster {}, {}", self.cluster, self.object)
    }
}

/// Returns every field of `expected` that differs in `found`. Fields that are not expected may have any value. `null` expects that
/// the field is absent. Lists must have the same length.
pub(super) fn present(
    cluster: &str,
    expected: &Json,
    found: Option<&Json>,
    differences: &mut Vec<Difference>,
) {
    let mut mismatches = Vec::new();
    match found {
        Some(found) => differ(expected, Some(found), String::new(), &mut mismatches),
        None => mismatches.push((String::new(), Some(expected.clone()), None)),
    }
    differences.extend(
        mismatches
            .into_iter()
            .map(|(path, expected_there, found)| Difference {
                step: None,
                cluster: cluster.to_owned(),
                object: Identity::of(expected).to_string(),
                path,
                expected: expected_there,
                found,
            }),
    );
}

/// Returns every field that differs between an object and the expected one, in both directions.
pub(super) fn equal(
    cluster: &str,
    object: &str,
    expected: Option<&Json>,
    found: Option<&Json>,
    differences: &mut Vec<Difference>,
) {
    let mismatches = match (expected, found) {
        (Some(expected), Some(found)) => mismatches(expected, found),
        (None, None) => Vec::new(),
        (expected, found) => vec![(String::new(), expected.cloned(), found.cloned())],
    };
    let differing = mismatches.into_iter();
    differences.extend(differing.map(|(path, expected, found)| Difference {
        step: None,
        cluster: cluster.to_owned(),
        object: object.to_owned(),
        path,
        expected,
        found,
    }));
}

/// An object that must not exist.
pub(super) fn unwanted(cluster: &str, object: &Json) -> Difference {
    Difference {
        step: None,
        cluster: cluster.to_owned(),
        object: Identity::of(object).to_string(),
        path: String::new(),
        expected: None,
        found: Some(Json::from("present")),
    }
}

/// Whether an object has at least the expected fields.
pub(super) fn has(found: &Json, expected: &Json) -> bool {
    let mut mismatches = Vec::new();
    differ(expected, Some(found), String::new(), &mut mismatches);
    mismatches.is_empty()
}

/// An Event that was expected, beside the reasons and texts of those that were recorded.
pub(super) fn no_event(cluster: &str, expected: &Json, events: &[Json]) -> Difference {
    let said = events.iter().map(|event| {
        let (reason, text) = (&event["reason"], &event["message"]);
        let text = text.as_str().unwrap_or_default();
        format!("{}: {text}", reason.as_str().unwrap_or_default())
    });
    Difference {
        step: None,
        cluster: cluster.to_owned(),
        object: "Events".to_owned(),
        path: "one of them".to_owned(),
        expected: Some(expected.clone()),
        found: Some(said.collect()),
    }
}

/// A field that differs: its path, the expected value and the actual one.
pub type Mismatch = (String, Option<Json>, Option<Json>);

/// Every field that differs between two values, in both directions.
#[must_use]
pub fn mismatches(expected: &Json, found: &Json) -> Vec<Mismatch> {
    let mut mismatches = Vec::new();
    differ_exactly(expected, found, String::new(), &mut mismatches);
    mismatches
}

fn differ(expected: &Json, found: Option<&Json>, path: String, mismatches: &mut Vec<Mismatch>) {
    match (expected, found) {
        (Json::Null, None | Some(Json::Null)) => {}
        (Json::Null, Some(found)) => mismatches.push((path, None, Some(found.clone()))),
        (Json::Object(fields), Some(Json::Object(there))) => {
            for (key, value) in fields {
                differ(value, there.get(key), below(&path, key), mismatches);
            }
        }
        (Json::Array(items), Some(Json::Array(there))) if items.len() == there.len() => {
            for (index, (item, there)) in items.iter().zip(there).enumerate() {
                differ(item, Some(there), format!("{path}[{index}]"), mismatches);
            }
        }
        (expected, Some(found)) if expected == found => {}
        (expected, found) => mismatches.push((path, Some(expected.clone()), found.cloned())),
    }
}

fn differ_exactly(expected: &Json, found: &Json, path: String, mismatches: &mut Vec<Mismatch>) {
    match (expected, found) {
        (Json::Object(fields), Json::Object(there)) => {
            let keys: BTreeSet<&String> = fields.keys().chain(there.keys()).collect();
            for key in keys {
                let path = below(&path, key);
                match (fields.get(key), there.get(key)) {
                    (Some(one), Some(other)) => differ_exactly(one, other, path, mismatches),
                    (one, other) => mismatches.push((path, one.cloned(), other.cloned())),
                }
            }
        }
        (Json::Array(items), Json::Array(there)) if items.len() == there.len() => {
            for (index, (one, other)) in items.iter().zip(there).enumerate() {
                differ_exactly(one, other, format!("{path}[{index}]"), mismatches);
            }
        }
        (one, other) if one == other => {}
        (one, other) => mismatches.push((path, Some(one.clone()), Some(other.clone()))),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(step) = &self.step {
            write!(f, "{step}, ")?;
        }
        write!(f, "cluster {}, {}", self.cluster, self.object)?;
        match (self.path.is_empty(), &self.expected, &self.found) {
            (true, Some(_), None) => write!(f, ": it is not there"),
            (true, None, _) => write!(f, ": it is there and should not be"),
            (_, expected, found) => {
                let path = &self.path;
                write!(
                    f,
                    "\n  {path}\n    expected {}\n    found    {}",
                    shown(expected),
                    shown(found)
                )
            }
        }
    }
}

/// A value for people, cut to a bound.
#[must_use]
pub fn shown(value: &Option<Json>) -> String {
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(expected: &Json, found: &Json) -> Vec<String> {
        let mut differences = Vec::new();
        present("alpha", expected, Some(found), &mut differences);
        differences
            .into_iter()
            .map(|difference| difference.path)
            .collect()
    }

    #[test]
    fn only_what_is_expected_is_compared() {
        let found = json!({"a": {"b": 1, "c": 2}, "l": [{"x": 1, "y": 2}], "n": null});
        assert_eq!(
            paths(
                &json!({"a": {"b": 1}, "l": [{"x": 1}], "n": null, "gone": null}),
                &found
            ),
            [""; 0]
        );
        assert_eq!(
            paths(&json!({"a": {"b": 2, "d": 1}}), &found),
            ["a.b", "a.d"]
        );
        assert_eq!(paths(&json!({"l": []}), &found), ["l"]);
        assert_eq!(paths(&json!({"l": [{"y": 3}]}), &found), ["l[0].y"]);
        assert_eq!(paths(&json!({"a": null}), &found), ["a"]);
        assert_eq!(paths(&json!({"a": "text"}), &found), ["a"]);
    }

    #[test]
    fn a_difference_says_object_path_expected_and_found() {
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": "a", "labels": {"x.dev/y": "1"}},
        });
        let mut differences = Vec::new();
        let found = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"}});
        present("alpha", &expected, Some(&found), &mut differences);
        present("beta", &expected, None, &mut differences);
        differences.push(unwanted("beta", &expected));
        let said: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "cluster alpha, v1/ConfigMap default/a\n  metadata.labels\n    expected {\"x.dev/y\":\"1\"}\n    found    nothing",
                "cluster beta, v1/ConfigMap default/a: it is not there",
                "cluster beta, v1/ConfigMap default/a: it is there and should not be",
            ]
        );
        assert_eq!(
            below("metadata.labels", "x.dev/y"),
            "metadata.labels[\"x.dev/y\"]"
        );
    }
}
