//! Schemas as types. Entry point: [`Reader::root`].
//!
//! Structural schemas say a type for each field. What they say beside it is the API server's to check: bounds and patterns are kept for comments,
//! rules are not read.

use super::{pascal, unused};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;

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
    published: Option<&'a Map<String, Json>>,
    /// The types of references; none while one is being read, which is then a part of itself.
    referred: HashMap<&'a str, Option<Type>>,
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
    pub(super) fn of_published(kind: &str, schemas: &'a Map<String, Json>) -> Self {
        Self {
            published: Some(schemas),
            ..Self::new(kind)
        }
    }

    /// Reads the schema of the kind's objects. The first struct is the object, without the fields that all objects have.
    pub(super) fn root(&mut self, schema: &'a Json) {
        self.object(&self.kind.clone(), schema, &OF_OBJECTS);
    }

    fn object(&mut self, name: &str, schema: &'a Json, without: &[&str]) -> String {
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
        let properties = schema["properties"].as_object();
        let known = properties
            .into_iter()
            .flatten()
            .filter(|(field, _)| !without.contains(&field.as_str()));
        let fields: Vec<Field> = known
            .map(|(field, schema)| Field {
                name: field.clone(),
                description: text(schema, "description"),
                of: self.read(&format!("{name}{}", pascal(field)), schema),
                is_always_there: required.contains(&field.as_str()) || self.has_default(schema),
                is_nullable: is_set(schema, "nullable"),
                bounds: self.bounds(schema),
            })
            .collect();
        self.structs[at].fields = fields;
        name
    }

    /// Whether the API server sets a default. Guests mostly write objects of built-in kinds, which need not have what a server adds. Their schemas
    /// also give an empty default to each field that Go writes without a pointer.
    fn has_default(&self, schema: &Json) -> bool {
        self.published.is_none() && !schema["default"].is_null()
    }

    fn bounds(&self, schema: &Json) -> Vec<String> {
        let has_default = self.has_default(schema);
        let words = BOUNDS.iter().chain(has_default.then_some(&"default"));
        let said = words.filter(|word| !schema[**word].is_null());
        let shown = said.map(|word| match &schema[*word] {
            Json::String(text) => format!("{word}: {text}"),
            value => format!("{word}: {value}"),
        });
        shown.collect()
    }

    fn read(&mut self, name: &str, schema: &'a Json) -> Type {
        if let Some(name) = reference(schema) {
            return self.refer(name);
        }
        let is_either = schema["format"] == "int-or-string";
        if is_set(schema, "x-kubernetes-int-or-string") || is_either {
            return Type::IntOrString;
        }
        // A quantity: a number is taken, and a text is what API servers answer.
        let mut choices = schema["oneOf"].as_array().into_iter().flatten();
        if self.published.is_some() && choices.any(|one| one["type"] == "string") {
            return Type::Text;
        }
        match schema["type"].as_str() {
            Some("string") => {
                let choices: Vec<String> = strings(&schema["enum"]).map(str::to_owned).collect();
                if choices.is_empty() {
                    Type::Text
                } else {
                    Type::Choice(choices)
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

    /// The type of a published schema. Its struct has the kind's name before its own, so that the types of several kinds can be in one package.
    fn refer(&mut self, reference: &'a str) -> Type {
        if let Some(known) = self.referred.get(reference) {
            return known.clone().unwrap_or(Type::Any);
        }
        let Some(schema) = self.published.and_then(|schemas| schemas.get(reference)) else {
            return Type::Any;
        };
        let own = pascal(reference.rsplit('.').next().unwrap_or(reference));
        let name = if own.starts_with(&self.kind) {
            own
        } else {
            format!("{}{own}", self.kind)
        };
        self.referred.insert(reference, None);
        let of = self.read(&name, schema);
        self.referred.insert(reference, Some(of.clone()));
        of
    }
}

/// The name of the schema that stands here by reference. One with a description of its own refers to it in `allOf`.
fn reference(schema: &Json) -> Option<&str> {
    let whole = match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([one]) => one,
        _ => schema,
    };
    let reference = whole["$ref"].as_str()?;
    reference.strip_prefix("#/components/schemas/")
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
