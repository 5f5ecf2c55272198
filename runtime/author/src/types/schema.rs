//! Schemas as types. Entry point: [`Reader::root`].
//!
//! Structural schemas say a type for each field. What they say beside it is the API server's to check: bounds and patterns are kept for comments,
//! rules are not read. Fields are in the order in which the schema has them.

use super::naming::{pascal, singular};
use serde_json::Value as Json;
use std::collections::HashMap;
use windlass_files::{Node, Value};

/// What a field can be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Type {
    Text,
    /// One of some texts.
    Choice(Vec<String>),
    Integer,
    Number,
    Boolean,
    IntOrString,
    /// Any value: the schema says nothing, or leaves it open.
    Any,
    List(Box<Self>),
    Map(Box<Self>),
    /// The one at this index among the structs.
    Struct(usize),
}

/// An object with named fields.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Struct {
    /// Its name without the kind's, which is before it: the fields that lead to it, or the name of its schema. The object's own is empty.
    pub(super) suffix: String,
    /// How many fields lead to it. `None`: the schema has a name of its own.
    pub(super) depth: Option<usize>,
    pub(super) description: String,
    pub(super) fields: Vec<Field>,
    /// Whether it may have other fields.
    pub(super) is_open: bool,
}

/// A field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Field {
    /// Its name in JSON.
    pub(super) name: String,
    pub(super) description: String,
    pub(super) of: Type,
    /// Whether every object has it: it is required, or the API server sets a default.
    pub(super) is_always_there: bool,
    /// Whether it may be null.
    pub(super) is_nullable: bool,
    /// The words of the schema that narrow its values, as `minimum: 1`.
    pub(super) bounds: Vec<String>,
}

/// Collects the structs of a schema.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) structs: Vec<Struct>,
    /// The name of the kind.
    kind: String,
    /// The schemas that references name, as API servers publish them; a CustomResourceDefinition has no references.
    published: Option<HashMap<&'a str, &'a Node>>,
    /// The types of references; none while one is being read, which is then a part of itself.
    referred: HashMap<&'a str, Option<Type>>,
}

/// The way to a schema: the names of what leads to it, and how many they are.
#[derive(Debug, Clone)]
struct Way {
    suffix: String,
    depth: Option<usize>,
}

/// Words of schemas that narrow a value; `enum` of texts is a [`Type::Choice`].
const BOUNDS: [&str; 11] = [
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
];

/// Fields that every object has, whose types are the SDK's.
const OF_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl<'a> Reader<'a> {
    /// For the schema of a definition.
    pub(super) fn new(kind: &str) -> Self {
        Self {
            structs: Vec::new(),
            kind: kind.to_owned(),
            published: None,
            referred: HashMap::new(),
        }
    }

    /// For a schema that refers to others.
    pub(super) fn of_published(kind: &str, schemas: &'a Node) -> Self {
        let named = entries(Some(schemas)).collect();
        Self {
            published: Some(named),
            ..Self::new(kind)
        }
    }

    /// Reads the schema of the kind's objects. The first struct is the object, without the fields that all objects have.
    pub(super) fn root(&mut self, schema: &'a Node) {
        let way = Way {
            suffix: String::new(),
            depth: Some(0),
        };
        self.object(&way, schema, &OF_OBJECTS);
    }

    fn object(&mut self, way: &Way, schema: &'a Node, without: &[&str]) -> usize {
        // Its place is before those of its fields.
        let at = self.structs.len();
        let additional = schema.get("additionalProperties").map(|it| &it.value);
        self.structs.push(Struct {
            suffix: way.suffix.clone(),
            depth: way.depth,
            description: text(schema, "description"),
            fields: Vec::new(),
            is_open: is_set(schema, "x-kubernetes-preserve-unknown-fields")
                || !matches!(
                    additional,
                    None | Some(Value::Null) | Some(Value::Bool(false))
                ),
        });
        let required: Vec<&str> = strings(schema.get("required")).collect();
        let known: Vec<(&str, &Node)> = entries(schema.get("properties"))
            .filter(|(field, _)| !without.contains(field))
            .collect();
        let names: Vec<String> = known.iter().map(|(field, _)| pascal(field)).collect();
        let fields: Vec<Field> = known
            .iter()
            .map(|(field, schema)| Field {
                name: (*field).to_owned(),
                description: text(schema, "description"),
                of: self.read(&way.to(field, schema, &names), schema),
                is_always_there: required.contains(field) || self.has_default(schema),
                is_nullable: is_set(schema, "nullable"),
                bounds: self.bounds(schema),
            })
            .collect();
        self.structs[at].fields = fields;
        at
    }

    /// Whether the API server sets a default. Guests mostly write objects of built-in kinds, which need not have what a server adds. Their schemas
    /// also give an empty default to each field that Go writes without a pointer.
    fn has_default(&self, schema: &Node) -> bool {
        self.published.is_none() && said(schema, "default").is_some()
    }

    fn bounds(&self, schema: &Node) -> Vec<String> {
        let has_default = self.has_default(schema);
        let words = BOUNDS.iter().chain(has_default.then_some(&"default"));
        let shown = words.filter_map(|word| {
            let value = said(schema, word)?;
            Some(match value.as_text() {
                Some(text) => format!("{word}: {text}"),
                None => format!("{word}: {}", value.decode::<Json>().unwrap_or_default()),
            })
        });
        shown.collect()
    }

    fn read(&mut self, way: &Way, schema: &'a Node) -> Type {
        if let Some(name) = reference(schema) {
            return self.refer(name);
        }
        let is_either = has_text(schema, "format", "int-or-string");
        if is_set(schema, "x-kubernetes-int-or-string") || is_either {
            return Type::IntOrString;
        }
        // A quantity: a number is taken, and a text is what API servers answer.
        let mut choices = items(schema.get("oneOf"));
        if self.published.is_some() && choices.any(|one| has_text(one, "type", "string")) {
            return Type::Text;
        }
        match schema.get("type").and_then(Node::as_text) {
            Some("string") => {
                let choices: Vec<String> = strings(schema.get("enum")).map(str::to_owned).collect();
                if choices.is_empty() {
                    Type::Text
                } else {
                    Type::Choice(choices)
                }
            }
            Some("integer") => Type::Integer,
            Some("number") => Type::Number,
            Some("boolean") => Type::Boolean,
            Some("array") => Type::List(Box::new(self.inside(way, schema.get("items")))),
            Some("object") if is_map(schema.get("properties")) => {
                Type::Struct(self.object(way, schema, &[]))
            }
            Some("object") => {
                let values = schema.get("additionalProperties");
                let values = values.filter(|values| is_map(Some(values)));
                Type::Map(Box::new(self.inside(way, values)))
            }
            _ => Type::Any,
        }
    }

    fn inside(&mut self, way: &Way, schema: Option<&'a Node>) -> Type {
        schema.map_or(Type::Any, |schema| self.read(way, schema))
    }

    /// The type of a published schema, which has a name.
    fn refer(&mut self, reference: &'a str) -> Type {
        if let Some(known) = self.referred.get(reference) {
            return known.clone().unwrap_or(Type::Any);
        }
        let published = self.published.as_ref();
        let Some(schema) = published.and_then(|schemas| schemas.get(reference).copied()) else {
            return Type::Any;
        };
        let own = pascal(reference.rsplit('.').next().unwrap_or(reference));
        let way = Way {
            suffix: own.strip_prefix(&self.kind).unwrap_or(&own).to_owned(),
            depth: None,
        };
        self.referred.insert(reference, None);
        let of = self.read(&way, schema);
        self.referred.insert(reference, Some(of.clone()));
        of
    }
}

impl Way {
    /// To a field, among all of these names. What is in a list or a map has the name of one of them, unless a field beside it has that.
    fn to(&self, field: &str, schema: &Node, names: &[String]) -> Self {
        let own = pascal(field);
        let one = pascal(&singular(field));
        let name = if is_collection(schema) && !names.contains(&one) {
            one
        } else {
            own
        };
        Self {
            suffix: format!("{}{name}", self.suffix),
            depth: self.depth.map(|depth| depth + 1),
        }
    }
}

/// Whether it is a list, or an object whose fields have no names of their own.
fn is_collection(schema: &Node) -> bool {
    has_text(schema, "type", "array")
        || (!is_map(schema.get("properties")) && is_map(schema.get("additionalProperties")))
}

/// The name of the schema that stands here by reference. One with a description of its own refers to it in `allOf`.
fn reference(schema: &Node) -> Option<&str> {
    let mut all = items(schema.get("allOf"));
    let whole = match (all.next(), all.next()) {
        (Some(one), None) => one,
        _ => schema,
    };
    let reference = whole.get("$ref")?.as_text()?;
    reference.strip_prefix("#/components/schemas/")
}

/// A value that is not null.
fn said<'a>(schema: &'a Node, field: &str) -> Option<&'a Node> {
    schema.get(field).filter(|it| it.value != Value::Null)
}

fn is_set(schema: &Node, field: &str) -> bool {
    let value = schema.get(field).map(|it| &it.value);
    value == Some(&Value::Bool(true))
}

fn has_text(schema: &Node, field: &str, text: &str) -> bool {
    schema.get(field).and_then(Node::as_text) == Some(text)
}

fn is_map(node: Option<&Node>) -> bool {
    node.is_some_and(|node| matches!(node.value, Value::Map(_)))
}

pub(super) fn text(schema: &Node, field: &str) -> String {
    let text = schema.get(field).and_then(Node::as_text);
    text.unwrap_or_default().to_owned()
}

pub(super) fn strings(list: Option<&Node>) -> impl Iterator<Item = &str> {
    items(list).filter_map(Node::as_text)
}

pub(super) fn items(list: Option<&Node>) -> impl Iterator<Item = &Node> {
    let items = match list.map(|list| &list.value) {
        Some(Value::List(items)) => items.as_slice(),
        _ => &[],
    };
    items.iter()
}

/// The fields of an object, in their order.
pub(super) fn entries(object: Option<&Node>) -> impl Iterator<Item = (&str, &Node)> {
    let entries = match object.map(|object| &object.value) {
        Some(Value::Map(entries)) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().map(|(key, node)| (key.text.as_str(), node))
}
