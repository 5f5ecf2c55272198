//! Sets of field paths: [`FieldSet`], with the FieldsV1 text form.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::schema::item::{ItemKey, sorted};
use crate::schema::{ListType, Schema};

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    Field(Box<str>),
    Item(ItemKey),
}

impl Element {
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    fn text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Item(ItemKey::Fields(json)) => format!("k:{json}"),
            Self::Item(ItemKey::Value(json)) => format!("v:{json}"),
            Self::Item(ItemKey::Index(index)) => format!("i:{index}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_at_checked(2)?;
        let item = match kind {
            "f:" => return Some(Self::field(rest)),
            "k:" => ItemKey::Fields(canonical(rest)?),
            "v:" => ItemKey::Value(canonical(rest)?),
            "i:" => ItemKey::Index(rest.parse().ok()?),
            _ => return None,
        };
        Some(Self::Item(item))
    }

    /// The way a conflict message writes this step.
    fn shown(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Item(ItemKey::Fields(json)) => {
                let keys: BTreeMap<String, Value> = serde_json::from_str(json).unwrap_or_default();
                let pairs: Vec<String> = keys
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                format!("[{}]", pairs.join(","))
            }
            Self::Item(ItemKey::Value(json)) => format!("[={json}]"),
            Self::Item(ItemKey::Index(index)) => format!("[{index}]"),
        }
    }
}

/// JSON with sorted keys, whatever the map type of the parser.
fn canonical(json: &str) -> Option<Box<str>> {
    match serde_json::from_str(json).ok()? {
        Value::Object(object) => sorted(&object.into_iter().collect()),
        other => Some(other.to_string().into()),
    }
}

/// A set of field paths, as a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// Paths that end here.
    members: BTreeSet<Element>,
    /// Longer paths. Holds no empty set.
    children: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    pub(crate) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(crate) fn has(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    pub(crate) fn below(&self, element: &Element) -> Option<&Self> {
        self.children.get(element)
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.members.extend(other.members.iter().cloned());
        for (element, set) in &other.children {
            let merged = all
                .children
                .get(element)
                .map_or_else(|| set.clone(), |own| own.union(set));
            all.children.insert(element.clone(), merged);
        }
        all
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let common = |(element, set): (&Element, &Self)| {
            Some((
                element.clone(),
                set.intersection(other.children.get(element)?),
            ))
        };
        let children = self
            .children
            .iter()
            .filter_map(common)
            .filter(|(_, set)| !set.is_empty())
            .collect();
        Self { members, children }
    }

    /// The paths that `other` lacks; a path does not take the longer ones with it.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let rest = |(element, set): (&Element, &Self)| {
            let left = other
                .children
                .get(element)
                .map_or_else(|| set.clone(), |gone| set.difference(gone));
            (element.clone(), left)
        };
        let children = self
            .children
            .iter()
            .map(rest)
            .filter(|(_, set)| !set.is_empty())
            .collect();
        Self { members, children }
    }

    /// The paths that neither are in `other` nor begin with one of its paths.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let rest = |(element, set): (&Element, &Self)| {
            if other.members.contains(element) {
                return None;
            }
            let left = other
                .children
                .get(element)
                .map_or_else(|| set.clone(), |gone| set.without(gone));
            (!left.is_empty()).then(|| (element.clone(), left))
        };
        Self {
            members,
            children: self.children.iter().filter_map(rest).collect(),
        }
    }

    /// Adds the declared fields on the way to each path: they are owned with what is in them.
    pub(crate) fn with_declared(&self, schema: Schema<'_>) -> Self {
        let mut all = self.clone();
        for (element, set) in &self.children {
            let inner = match element {
                Element::Field(name) => {
                    if schema.property(name).is_some() {
                        all.members.insert(element.clone());
                    }
                    schema.field(name).unwrap_or_else(Schema::any)
                }
                Element::Item(ItemKey::Fields(_)) if schema.list_type() == ListType::Map => {
                    schema.items()
                }
                _ => Schema::any(),
            };
            all.children
                .insert(element.clone(), set.with_declared(inner));
        }
        all
    }

    /// Every path, as conflict messages write it.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = Vec::new();
        let elements: BTreeSet<&Element> =
            self.members.iter().chain(self.children.keys()).collect();
        for element in elements {
            if self.members.contains(element) {
                paths.push(element.shown());
            }
            let longer = self
                .children
                .get(element)
                .map(Self::paths)
                .unwrap_or_default();
            paths.extend(longer.into_iter().map(|rest| element.shown() + &rest));
        }
        paths
    }

    /// The FieldsV1 form.
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        for element in &self.members {
            object.insert(element.text(), Value::Object(Map::new()));
        }
        for (element, set) in &self.children {
            let mut inner = set.to_json();
            if self.members.contains(element) {
                inner["."] = Value::Object(Map::new());
            }
            object.insert(element.text(), inner);
        }
        Value::Object(object)
    }

    /// Reads FieldsV1; what cannot be read is left out.
    pub(crate) fn from_json(json: &Value) -> Self {
        let mut set = Self::default();
        for (text, inner) in json.as_object().into_iter().flatten() {
            let Some(element) = Element::parse(text) else {
                continue;
            };
            let object = inner.as_object();
            if object.is_none_or(|object| object.is_empty() || object.contains_key(".")) {
                set.members.insert(element.clone());
            }
            let below = Self::from_json(inner);
            if !below.is_empty() {
                set.children.insert(element, below);
            }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_text_form_survives_a_round_trip() {
        let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}, "f:set": {"v:\"x\"": {}}});
        assert_eq!(FieldSet::from_json(&fields).to_json(), fields);
    }

    #[test]
    fn difference_keeps_longer_paths_and_without_drops_them() {
        let set = FieldSet::from_json(&json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let gone = FieldSet::from_json(&json!({"f:a": {}}));
        assert_eq!(
            set.difference(&gone).to_json(),
            json!({"f:a": {"f:b": {}}, "f:c": {}})
        );
        assert_eq!(set.without(&gone).to_json(), json!({"f:c": {}}));
    }

    #[test]
    fn a_path_is_written_as_messages_do() {
        let set = FieldSet::from_json(
            &json!({"f:spec": {"f:ports": {"k:{\"port\":80}": {"f:name": {}}}, "f:f": {"v:\"x\"": {}}}}),
        );
        assert_eq!(
            set.paths(),
            [".spec.f[=\"x\"]", ".spec.ports[port=80].name"]
        );
    }
}
