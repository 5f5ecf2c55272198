//! Schemas as types. Entry point: [`Reader::root`].
//!
//! Structural schemas say a type for each field; what they say beside it (patterns, bounds, rules) is the API server's to check.

use super::{pascal, unused};
use serde_json::{Map, Value as Json};

/// What a field can be.
#[derive(Debug, Clone, PartialEq)]
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
    /// Of this name.
    Struct(String),
}

/// An object with named fields.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Struct {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) fields: Vec<Field>,
    /// Whether it may have other fields.
    pub(super) is_open: bool,
}

/// A field.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// Its name in JSON.
    pub(super) name: String,
    pub(super) description: String,
    pub(super) of: Type,
    /// Whether every object has it: it is required, or the API server sets a default.
    pub(super) is_always_there: bool,
    /// Whether it may be null.
    pub(super) is_nullable: bool,
}

/// Collects the structs of a schema.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) structs: Vec<Struct>,
}

/// Fields that every object has, whose types are the SDK's.
const OF_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Reader {
    /// Reads the schema of a kind's objects. The first struct is the object, without the fields that all objects have.
    pub(super) fn root(&mut self, name: &str, schema: &Json) {
        self.object(name, schema, &OF_OBJECTS);
    }

    fn object(&mut self, name: &str, schema: &Json, without: &[&str]) -> String {
        let name = unused(name.to_owned(), |name| {
            self.structs.iter().any(|one| one.name == name)
        });
        // Its place is before those of its fields, and its name is taken.
        let at = self.structs.len();
        self.structs.push(Struct {
            name: name.clone(),
            description: text(schema, "description"),
            fields: Vec::new(),
            is_open: is_set(schema, "x-kubernetes-preserve-unknown-fields")
                || !matches!(
                    schema["additionalProperties"],
                    Json::Null | Json::Bool(false)
                ),
        });
        let required: Vec<&str> = strings(&schema["required"]).collect();
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        let known = properties
            .iter()
            .filter(|(field, _)| !without.contains(&field.as_str()));
        let fields: Vec<Field> = known
            .map(|(field, schema)| Field {
                name: field.clone(),
                description: text(schema, "description"),
                of: self.read(&format!("{name}{}", pascal(field)), schema),
                is_always_there: required.contains(&field.as_str()) || !schema["default"].is_null(),
                is_nullable: is_set(schema, "nullable"),
            })
            .collect();
        self.structs[at].fields = fields;
        name
    }

    fn read(&mut self, name: &str, schema: &Json) -> Type {
        if is_set(schema, "x-kubernetes-int-or-string") {
            return Type::IntOrString;
        }
        match schema["type"].as_str() {
            Some("string") => {
                let choices: Vec<String> = strings(&schema["enum"]).map(str::to_owned).collect();
                match choices.is_empty() {
                    true => Type::Text,
                    false => Type::Choice(choices),
                }
            }
            Some("integer") => Type::Integer,
            Some("number") => Type::Number,
            Some("boolean") => Type::Boolean,
            Some("array") => Type::List(Box::new(self.read(name, &schema["items"]))),
            Some("object") if schema["properties"].is_object() => {
                Type::Struct(self.object(name, schema, &[]))
            }
            Some("object") => match &schema["additionalProperties"] {
                values @ Json::Object(_) => Type::Map(Box::new(self.read(name, values))),
                _ => Type::Map(Box::new(Type::Any)),
            },
            _ => Type::Any,
        }
    }
}

fn is_set(schema: &Json, field: &str) -> bool {
    schema[field] == true
}

fn text(schema: &Json, field: &str) -> String {
    schema[field].as_str().unwrap_or_default().to_owned()
}

fn strings(list: &Json) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
}
