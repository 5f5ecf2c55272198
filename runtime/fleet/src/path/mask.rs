//! The part of an object that has some fields alone. Entry point: [`FieldMask::of`].

use super::{FieldPath, Segment};
use crate::api::Json;
use crate::json::{JsonError, Scanner};
use std::sync::Arc;

/// What each part has besides.
const ALWAYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Room for most objects, in bytes.
const TYPICAL: usize = 4 << 10;

/// Fields that are kept of an object: those at some paths, and `apiVersion`, `kind` and `metadata`. Cheap to clone.
///
/// Where a value has another type than a path expects, all of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldMask(Arc<Kept>);

/// What is kept of a value.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    /// All of it.
    whole: bool,
    /// Of an object.
    members: Vec<(Box<str>, Self)>,
    /// Of each element of an array.
    elements: Option<Box<Self>>,
}

impl FieldMask {
    /// Keeps what is at these paths.
    #[must_use]
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a FieldPath>) -> Self {
        let mut kept = Kept::default();
        for name in ALWAYS {
            kept.member(name).whole = true;
        }
        for path in paths {
            kept.add(&path.segments);
        }
        Self(Arc::new(kept))
    }

    /// The part of an object. A text that is no JSON stays as it is.
    #[must_use]
    pub fn of(&self, object: &Json) -> Json {
        self.part(object)
            .map_or_else(|_| object.clone(), Json::from)
    }

    fn part(&self, object: &Json) -> Result<String, JsonError> {
        let mut scanner = Scanner::new(object)?;
        let mut part = String::with_capacity(object.len().min(TYPICAL));
        scanner.space();
        self.0.copy(&mut scanner, &mut part)?;
        Ok(part)
    }
}

impl Kept {
    fn member(&mut self, name: &str) -> &mut Self {
        let at = self.members.iter().position(|(known, _)| **known == *name);
        let at = at.unwrap_or_else(|| {
            self.members.push((name.into(), Self::default()));
            self.members.len() - 1
        });
        &mut self.members[at].1
    }

    fn add(&mut self, path: &[Segment]) {
        match path.split_first() {
            None => self.whole = true,
            Some((Segment::Name(name), rest)) => self.member(name).add(rest),
            Some((Segment::Every, rest)) => self.elements.get_or_insert_default().add(rest),
        }
    }

    /// Consumes the value under the cursor, and copies what is kept of it.
    fn copy(&self, scanner: &mut Scanner<'_>, part: &mut String) -> Result<(), JsonError> {
        match (scanner.peek()?, &self.elements) {
            (b'{', _) if !self.whole && !self.members.is_empty() => {
                self.copy_members(scanner, part)
            }
            (b'[', Some(elements)) if !self.whole => {
                part.push('[');
                let mut first = true;
                scanner.array(|scanner| {
                    separate(part, &mut first);
                    elements.copy(scanner, part)
                })?;
                part.push(']');
                Ok(())
            }
            _ => {
                let value = scanner.value()?;
                part.push_str(&scanner.text()[value.range()]);
                Ok(())
            }
        }
    }

    fn copy_members(&self, scanner: &mut Scanner<'_>, part: &mut String) -> Result<(), JsonError> {
        part.push('{');
        let mut first = true;
        scanner.object(|scanner, key| {
            let Some((_, kept)) = self.members.iter().find(|(name, _)| key.is(name)) else {
                return scanner.skip();
            };
            separate(part, &mut first);
            part.push('"');
            part.push_str(key.text);
            part.push_str("\":");
            kept.copy(scanner, part)
        })?;
        part.push('}');
        Ok(())
    }
}

fn separate(part: &mut String, first: &mut bool) {
    if !std::mem::take(first) {
        part.push(',');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn part(paths: &str, object: &Value) -> Value {
        let mask = FieldMask::new(&FieldPath::list(paths).unwrap());
        serde_json::from_slice(&mask.of(&Json::from(object.to_string()))).unwrap()
    }

    #[test]
    fn a_part_has_the_metadata_and_what_is_at_the_paths() {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"b": "c"}},
            "spec": {"nodeName": "n", "containers": [{"name": "x", "image": "y"}, {"name": "z"}]}, "status": {"phase": "Running"}});
        let with = |more: Value| {
            let mut part = object.clone();
            let part = part.as_object_mut().unwrap();
            part.retain(|name, _| ALWAYS.contains(&name.as_str()));
            part.extend(more.as_object().unwrap().clone());
            Value::from(part.clone())
        };
        assert_eq!(part("nothing", &object), with(json!({})));
        assert_eq!(
            part("spec.nodeName, status", &object),
            with(json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}))
        );
        assert_eq!(
            part("spec.containers[*].image", &object),
            with(json!({"spec": {"containers": [{"image": "y"}, {}]}}))
        );
        assert_eq!(
            part("spec.nodeName,spec", &object),
            with(json!({"spec": object["spec"]}))
        );
        // Another type than expected.
        assert_eq!(
            part("spec.nodeName.x,spec.containers.y,status[*]", &object),
            with(json!({"spec": object["spec"], "status": object["status"]}))
        );
    }

    #[test]
    fn names_are_compared_as_they_are_read_and_kept_as_they_are_spelled() {
        let mask = FieldMask::new(&FieldPath::list(r"data['a,b'],data['c\'d']").unwrap());
        let spelled = r#" { "data" : { "a\u002cb" : 1 , "c'd" : [ 2 ] , "e" : 3 } } "#;
        assert_eq!(
            mask.of(&Json::from(spelled)),
            r#"{"data":{"a\u002cb":1,"c'd":[ 2 ]}}"#
        );
    }

    #[test]
    fn a_text_that_is_no_json_stays() {
        let mask = FieldMask::new(&[]);
        for text in ["", "{\"metadata\":", "\u{1}"] {
            assert_eq!(mask.of(&Json::from(text)), text);
        }
    }
}
