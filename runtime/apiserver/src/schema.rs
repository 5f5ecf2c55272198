//! Structural schemas in one arena: [`Schemas`], walked through [`Schema`], a cheap cursor.
//!
//! Built-in kinds and CRDs share this form. A cursor over no schema at all ([`Schema::any`]) accepts everything, with maps
//! granular and lists atomic.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

pub(crate) mod decode;
pub(crate) mod defaults;
mod formats;
pub(crate) mod item;
mod leaf;
pub(crate) mod validate;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId(u32);

/// The node that accepts everything; always the first of an arena.
const ANY: NodeId = NodeId(0);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map,
}

#[derive(Debug, Default)]
struct Node {
    /// The definition whose shape this one takes; only the site's own fields below are read here then.
    target: Option<NodeId>,
    kind: Kind,
    format: Option<Box<str>>,
    /// Name of the definition: the Go type in messages is its last segment.
    name: Option<Box<str>>,
    properties: BTreeMap<Box<str>, NodeId>,
    additional: Option<NodeId>,
    items: Option<NodeId>,
    required: Vec<Box<str>>,
    list: ListType,
    keys: Vec<Box<str>>,
    preserve: bool,
    embedded: bool,
    nullable: bool,
    /// Value validations as written (enum, pattern, bounds, allOf …), for [`validate`].
    rules: Option<Box<Value>>,
    /// Rules in the expression language, as written.
    validations: Option<Box<Value>>,
    // Fields of the site, not of the shape.
    atomic: bool,
    /// A Go struct held by value: never absent from a stored object.
    zero: bool,
    /// Number of the field in protocol buffers.
    number: Option<u32>,
    default: Option<Box<Value>>,
    patch_strategy: Option<Box<str>>,
    merge_key: Option<Box<str>>,
}

/// An arena of schema nodes.
#[derive(Debug)]
pub(crate) struct Schemas {
    nodes: Vec<Node>,
    names: HashMap<Box<str>, NodeId>,
}

/// A place in a schema.
#[derive(Clone, Copy)]
pub(crate) struct Schema<'a> {
    all: &'a Schemas,
    id: NodeId,
}

impl Default for Schemas {
    fn default() -> Self {
        Self {
            nodes: vec![Node {
                preserve: true,
                ..Node::default()
            }],
            names: HashMap::new(),
        }
    }
}

/// Keywords that only [`validate`] reads.
const RULES: [&str; 18] = [
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "multipleOf",
    "uniqueItems",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];

impl Schemas {
    /// Reads every definition of `definitions`, then resolves references among them.
    pub(crate) fn define(&mut self, definitions: &serde_json::Map<String, Value>) {
        for name in definitions.keys() {
            let id = self.push(Node {
                name: Some(name.as_str().into()),
                ..Node::default()
            });
            self.names.insert(name.as_str().into(), id);
        }
        for (name, definition) in definitions {
            let mut node = self.read(definition);
            node.name = Some(name.as_str().into());
            let id = self.names[name.as_str()];
            self.nodes[id.0 as usize] = node;
        }
    }

    /// Adds one schema without a name and returns its place.
    pub(crate) fn add(&mut self, schema: &Value) -> NodeId {
        let node = self.read(schema);
        self.push(node)
    }

    pub(crate) fn named(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    /// Makes `field` of the object at `id` follow the definition `name`.
    pub(crate) fn set_property(&mut self, id: NodeId, field: &str, to: NodeId) {
        self.nodes[id.0 as usize]
            .properties
            .insert(field.into(), to);
    }

    pub(crate) fn at(&self, id: NodeId) -> Schema<'_> {
        Schema { all: self, id }
    }

    fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    fn child(&mut self, schema: &Value) -> NodeId {
        let target = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|name| self.named(name));
        let plain = schema.as_object().is_some_and(|object| object.len() == 1);
        if let (Some(target), true) = (target, plain) {
            return target;
        }
        let mut node = self.read(schema);
        node.target = target;
        self.push(node)
    }

    fn read(&mut self, schema: &Value) -> Node {
        let text = |key: &str| {
            schema
                .get(key)
                .and_then(Value::as_str)
                .map(Box::<str>::from)
        };
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or_default();
        let strings = |key: &str| -> Vec<Box<str>> {
            schema
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(Box::from)
                .collect()
        };
        let mut node = Node {
            kind: kind_of(schema),
            format: text("format"),
            required: strings("required"),
            list: match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("map") => ListType::Map,
                Some("set") => ListType::Set,
                _ => ListType::Atomic,
            },
            keys: strings("x-kubernetes-list-map-keys"),
            preserve: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            nullable: flag("nullable"),
            atomic: schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            zero: flag("zero"),
            number: schema
                .get("n")
                .and_then(Value::as_u64)
                .and_then(|number| u32::try_from(number).ok()),
            default: schema
                .get("default")
                .filter(|value| !value.is_null())
                .cloned()
                .map(Box::new),
            validations: schema
                .get("x-kubernetes-validations")
                .cloned()
                .map(Box::new),
            patch_strategy: text("x-kubernetes-patch-strategy"),
            merge_key: text("x-kubernetes-patch-merge-key"),
            ..Node::default()
        };
        let rules: serde_json::Map<String, Value> = RULES
            .iter()
            .filter_map(|key| {
                schema
                    .get(*key)
                    .map(|value| ((*key).to_owned(), value.clone()))
            })
            .collect();
        node.rules = (!rules.is_empty()).then(|| Box::new(Value::Object(rules)));
        for (name, child) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let id = self.child(child);
            node.properties.insert(name.as_str().into(), id);
        }
        node.items = schema.get("items").map(|items| self.child(items));
        node.additional = match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(ANY),
            Some(child @ Value::Object(_)) => Some(self.child(child)),
            _ => None,
        };
        node
    }
}

fn kind_of(schema: &Value) -> Kind {
    let int_or_string = schema
        .get("x-kubernetes-int-or-string")
        .and_then(Value::as_bool)
        == Some(true)
        || schema.get("format").and_then(Value::as_str) == Some("int-or-string");
    if int_or_string {
        return Kind::IntOrString;
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => Kind::Object,
        Some("array") => Kind::Array,
        Some("string") => Kind::String,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Boolean,
        _ => Kind::Any,
    }
}

impl<'a> Schema<'a> {
    /// The cursor over no schema.
    pub(crate) fn any() -> Self {
        static NOTHING: std::sync::LazyLock<Schemas> = std::sync::LazyLock::new(Schemas::default);
        Schema {
            all: &NOTHING,
            id: ANY,
        }
    }

    fn site(self) -> &'a Node {
        &self.all.nodes[self.id.0 as usize]
    }

    fn shape(self) -> &'a Node {
        let mut node = self.site();
        while let Some(target) = node.target {
            node = &self.all.nodes[target.0 as usize];
        }
        node
    }

    fn to(self, id: NodeId) -> Self {
        Self { all: self.all, id }
    }

    pub(crate) fn kind(self) -> Kind {
        self.shape().kind
    }

    pub(crate) fn format(self) -> Option<&'a str> {
        self.shape().format.as_deref()
    }

    /// Last segment of the definition's name: the Go type.
    pub(crate) fn type_name(self) -> Option<&'a str> {
        self.shape()
            .name
            .as_deref()
            .and_then(|name| name.rsplit('.').next())
    }

    pub(crate) fn properties(self) -> impl Iterator<Item = (&'a str, Schema<'a>)> {
        self.shape()
            .properties
            .iter()
            .map(move |(name, id)| (&**name, self.to(*id)))
    }

    pub(crate) fn property(self, field: &str) -> Option<Schema<'a>> {
        self.shape().properties.get(field).map(|id| self.to(*id))
    }

    /// The schema of a field, declared, additional or preserved; `None` where the field is unknown.
    pub(crate) fn field(self, field: &str) -> Option<Schema<'a>> {
        let shape = self.shape();
        let known = shape.properties.get(field).copied().or(shape.additional);
        known
            .or_else(|| self.open().then_some(ANY))
            .map(|id| self.to(id))
    }

    /// Whether fields that are not declared are kept.
    pub(crate) fn open(self) -> bool {
        let shape = self.shape();
        shape.preserve
            || shape.kind == Kind::Any
            || (shape.kind == Kind::Object && shape.name.is_some() && shape.properties.is_empty())
    }

    /// Whether this is a map from names to values of one schema.
    pub(crate) fn is_map(self) -> bool {
        self.shape().additional.is_some()
    }

    /// The schema of the values of a map.
    pub(crate) fn values(self) -> Option<Schema<'a>> {
        self.shape().additional.map(|id| self.to(id))
    }

    pub(crate) fn items(self) -> Schema<'a> {
        self.to(self.shape().items.unwrap_or(ANY))
    }

    pub(crate) fn required(self) -> impl Iterator<Item = &'a str> {
        self.shape().required.iter().map(|name| &**name)
    }

    pub(crate) fn requires(self, field: &str) -> bool {
        self.required().any(|name| name == field)
    }

    pub(crate) fn list_type(self) -> ListType {
        self.shape().list
    }

    /// Keys of a list of type map.
    pub(crate) fn keys(self) -> &'a [Box<str>] {
        &self.shape().keys
    }

    pub(crate) fn atomic(self) -> bool {
        self.site().atomic || self.shape().atomic
    }

    pub(crate) fn default(self) -> Option<&'a Value> {
        self.site()
            .default
            .as_deref()
            .or(self.shape().default.as_deref())
    }

    /// Number of the field in protocol buffers.
    pub(crate) fn number(self) -> Option<u32> {
        self.site().number
    }

    /// Never absent from a stored object.
    pub(crate) fn zero(self) -> bool {
        self.site().zero
    }

    pub(crate) fn nullable(self) -> bool {
        self.shape().nullable
    }

    pub(crate) fn embedded(self) -> bool {
        self.shape().embedded
    }

    pub(crate) fn rules(self) -> Option<&'a Value> {
        self.shape().rules.as_deref()
    }

    /// Rules in the expression language, as written.
    pub(crate) fn validations(self) -> Option<&'a Value> {
        self.shape().validations.as_deref()
    }

    /// Whether the strategic patch strategy of this site has `word` (`merge`, `replace`, `retainKeys`).
    pub(crate) fn patch_strategy(self, word: &str) -> bool {
        self.site()
            .patch_strategy
            .as_deref()
            .is_some_and(|words| words.split(',').any(|found| found == word))
    }

    pub(crate) fn merge_key(self) -> Option<&'a str> {
        self.site().merge_key.as_deref()
    }
}
