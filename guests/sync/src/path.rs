//! Paths into objects, such as `spec.users[*].secretRef.name`. Entry point: [`Path`].

use serde::Deserialize;
use serde_json::{Map, Value};
use std::fmt;

/// Steps of a path.
const MOST_STEPS: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// `name`, or `['name.with.dots']`.
    Field(String),
    /// `[2]`.
    Item(usize),
    /// `[*]`.
    Every,
}

/// A path: fields with dots between them, `['quoted']` fields, `[2]` items of a list, `[*]` for all of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Path {
    text: String,
    steps: Vec<Step>,
}

impl TryFrom<String> for Path {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let steps = steps(&text).ok_or_else(|| {
            format!(
                "{text:?} is no path: write fields with dots between them, as in spec.users[*].name"
            )
        })?;
        Ok(Self { text, steps })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let (mut steps, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['") {
            let (name, after) = quoted.split_once("']")?;
            steps.push(Step::Field(name.to_owned()));
            rest = after;
        } else if let Some(index) = rest.strip_prefix('[') {
            let (index, after) = index.split_once(']')?;
            steps.push(match index {
                "*" => Step::Every,
                index => Step::Item(index.parse().ok()?),
            });
            rest = after;
        } else {
            let name = if steps.is_empty() {
                rest
            } else {
                rest.strip_prefix('.')?
            };
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (name, after) = name.split_at(end);
            steps.push(Step::Field(name.to_owned()));
            rest = after;
        }
    }
    let named = steps
        .iter()
        .all(|step| !matches!(step, Step::Field(name) if name.is_empty()));
    let begins = matches!(steps.first(), Some(Step::Field(_)));
    (named && begins && steps.len() <= MOST_STEPS).then_some(steps)
}

impl Path {
    /// The field that it begins with.
    pub(crate) fn first(&self) -> &str {
        match self.steps.first() {
            Some(Step::Field(name)) => name,
            _ => "",
        }
    }

    /// The field after the first one.
    pub(crate) fn second(&self) -> Option<&str> {
        match self.steps.get(1) {
            Some(Step::Field(name)) => Some(name),
            _ => None,
        }
    }

    /// Whether it names one place: it has no `[2]` and no `[*]`.
    pub(crate) fn is_plain(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Field(_)))
    }

    /// The values that are there.
    pub(crate) fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![object];
        for step in &self.steps {
            found = found
                .into_iter()
                .flat_map(|value| match step {
                    Step::Field(name) => value.get(name).into_iter().collect::<Vec<_>>(),
                    Step::Item(index) => value.get(*index).into_iter().collect(),
                    Step::Every => value.as_array().into_iter().flatten().collect(),
                })
                .collect();
        }
        found
    }

    /// The texts that are there and not empty.
    pub(crate) fn texts(&self, object: &Value) -> Vec<String> {
        let texts = self.find(object).into_iter().filter_map(Value::as_str);
        texts
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Changes the values that are there.
    pub(crate) fn change(&self, object: &mut Value, change: &mut dyn FnMut(&mut Value)) {
        visit(object, &self.steps, false, change);
    }

    /// Sets the values, and makes the fields on the way to them. Items of lists are not made.
    pub(crate) fn set(&self, object: &mut Value, value: &Value) {
        visit(object, &self.steps, true, &mut |there| {
            *there = value.clone();
        });
    }

    /// Takes the values away.
    pub(crate) fn remove(&self, object: &mut Value) {
        let Some((last, parents)) = self.steps.split_last() else {
            return;
        };
        visit(object, parents, false, &mut |parent| match (last, parent) {
            (Step::Field(name), Value::Object(fields)) => {
                fields.remove(name);
            }
            (Step::Item(index), Value::Array(items)) if *index < items.len() => {
                items.remove(*index);
            }
            (Step::Every, Value::Array(items)) => items.clear(),
            _ => {}
        });
    }
}

fn visit(value: &mut Value, steps: &[Step], make: bool, change: &mut dyn FnMut(&mut Value)) {
    let Some((step, rest)) = steps.split_first() else {
        return change(value);
    };
    match step {
        Step::Field(name) => {
            if make && !value.is_object() && !value.is_array() {
                *value = Value::Object(Map::new());
            }
            let Value::Object(fields) = value else {
                return;
            };
            if make {
                fields.entry(name.as_str()).or_insert(Value::Null);
            }
            if let Some(inner) = fields.get_mut(name) {
                visit(inner, rest, make, change);
            }
        }
        Step::Item(index) => {
            if let Some(inner) = value.get_mut(*index) {
                visit(inner, rest, make, change);
            }
        }
        Step::Every => {
            for inner in value.as_array_mut().into_iter().flatten() {
                visit(inner, rest, make, change);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> Path {
        Path::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn a_path_reads_what_it_names() {
        let object = json!({"spec": {"users": [{"name": "a"}, {"name": "b"}, {}], "x.y/z": 1}});
        assert_eq!(path("spec.users[*].name").texts(&object), ["a", "b"]);
        assert_eq!(path("spec.users[1].name").texts(&object), ["b"]);
        assert_eq!(path("spec['x.y/z']").find(&object), [&json!(1)]);
        assert!(path("spec.absent.more").find(&object).is_empty());
    }

    #[test]
    fn a_path_sets_changes_and_removes() {
        let mut object = json!({"spec": {"users": [{"name": "a"}, {"name": "b"}]}});
        path("spec.new.deep").set(&mut object, &json!(1));
        path("spec.users[*].on").set(&mut object, &json!(true));
        path("spec.users[7].on").set(&mut object, &json!(true));
        path("spec.users[*].name").change(&mut object, &mut |name| {
            *name = json!(format!("{}!", name.as_str().unwrap()));
        });
        path("spec.users[0]").remove(&mut object);
        path("spec.absent.more").remove(&mut object);
        assert_eq!(
            object,
            json!({"spec": {"new": {"deep": 1}, "users": [{"name": "b!", "on": true}]}})
        );
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [
            "", ".spec", "spec.", "spec..a", "[0]", "spec[", "spec[x]", "spec['']",
        ] {
            assert!(Path::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
