//! Values while an expression runs: [`Val`]. What comes from an object stays where it is, with its schema beside it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::Failure;
use super::net::{Address, Cidr, Url};
use super::syntax::Literal;
use crate::base64;
use crate::duration;
use crate::quantity::Quantity;
use crate::schema::{Kind, ListType, Schema};

#[derive(Clone)]
pub(crate) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    Bytes(Rc<[u8]>),
    /// Of the object that is validated.
    Object(&'a Map<String, Value>, Schema<'a>),
    Array(&'a [Value], Schema<'a>),
    /// Made by the expression.
    List(Rc<[Val<'a>]>),
    Map(Rc<[(Val<'a>, Val<'a>)]>),
    Duration(SignedDuration),
    Time(Timestamp),
    Type(&'static str),
    Optional(Option<Rc<Val<'a>>>),
    Quantity(Quantity),
    Address(Address),
    Cidr(Cidr),
    Url(Rc<Url>),
    /// A named format: `format.dns1123Label()`.
    Format(&'static str),
}

impl<'a> Val<'a> {
    /// A value of an object, of the type that its schema gives it.
    pub(crate) fn of(value: &'a Value, schema: Schema<'a>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => {
                let double = number.as_f64().unwrap_or_default();
                match (schema.kind(), number.as_i64()) {
                    (Kind::Number, _) | (_, None) => Self::Double(double),
                    (_, Some(number)) => Self::Int(number),
                }
            }
            Value::String(text) => Self::of_text(text, schema),
            Value::Object(object) => Self::Object(object, schema),
            Value::Array(items) => Self::Array(items, schema),
        }
    }

    fn of_text(text: &'a str, schema: Schema<'a>) -> Self {
        let plain = || Self::Text(text.into());
        if schema.kind() != Kind::String {
            return plain();
        }
        let time = |text: &str| text.parse().ok().map(Self::Time);
        let typed = match schema.format() {
            Some("duration") => duration::parse_format(text).map(Self::Duration),
            Some("date-time") => time(text),
            Some("date") => time(&format!("{text}T00:00:00Z")),
            Some("byte") => base64::decode(text).map(|bytes| Self::Bytes(bytes.into())),
            _ => None,
        };
        typed.unwrap_or_else(plain)
    }

    pub(super) fn literal(literal: &Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Int(value) => Self::Int(*value),
            Literal::Uint(value) => Self::Uint(*value),
            Literal::Double(value) => Self::Double(*value),
            Literal::Text(text) => Self::text(text.clone()),
            Literal::Bytes(bytes) => Self::Bytes(bytes.as_slice().into()),
        }
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(Cow::Owned(text.into()))
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(items.into())
    }

    pub(crate) fn optional(value: Option<Self>) -> Self {
        Self::Optional(value.map(Rc::new))
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// # Errors
    /// The value is of another type.
    pub(super) fn truth(&self) -> Result<bool, Failure> {
        match self {
            Self::Bool(value) => Ok(*value),
            other => Err(Failure::new(format!("{} is no bool", other.type_name()))),
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Object(..) | Self::Map(_) => "map",
            Self::Array(..) | Self::List(_) => "list",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Time(_) => "google.protobuf.Timestamp",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Address(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// Items of a list; `None` of everything else.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        match self {
            Self::List(items) => Some(items.to_vec()),
            Self::Array(items, schema) => Some(
                items
                    .iter()
                    .map(|item| Self::of(item, schema.items()))
                    .collect(),
            ),
            _ => None,
        }
    }

    /// Keys and values of a map; `None` of everything else.
    pub(super) fn entries(&self) -> Option<Vec<(Self, Self)>> {
        match self {
            Self::Map(entries) => Some(entries.to_vec()),
            Self::Object(object, schema) => {
                let inner = |name: &str| schema.field(name).unwrap_or_else(Schema::any);
                Some(
                    object
                        .iter()
                        .map(|(name, value)| {
                            (
                                Self::Text(name.as_str().into()),
                                Self::of(value, inner(name)),
                            )
                        })
                        .collect(),
                )
            }
            _ => None,
        }
    }

    /// How many letters, bytes, items or entries it has.
    pub(super) fn size(&self) -> Option<usize> {
        match self {
            Self::Text(text) => Some(text.chars().count()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(items) => Some(items.len()),
            Self::Array(items, _) => Some(items.len()),
            Self::Map(entries) => Some(entries.len()),
            Self::Object(object, _) => Some(object.len()),
            _ => None,
        }
    }

    /// The value of a key; `None` where the map lacks it.
    pub(super) fn key(&self, key: &Self) -> Option<Self> {
        match self {
            Self::Object(object, schema) => {
                let name = key.as_text()?;
                let inner = schema.field(name).unwrap_or_else(Schema::any);
                object.get(name).map(|value| Self::of(value, inner))
            }
            Self::Map(entries) => entries
                .iter()
                .find(|(one, _)| one.equals(key))
                .map(|(_, value)| value.clone()),
            _ => None,
        }
    }

    /// A field as an expression names it: what is no name in the language is written with underscores.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let written = || Self::Text(Cow::Owned(name.to_owned()));
        match self {
            Self::Object(_, schema) if !schema.is_map() && schema.property(name).is_none() => {
                self.key(&Self::text(unescaped(name)))
            }
            _ => self.key(&written()),
        }
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        if let Some(order) = self.compare(other) {
            return order == Ordering::Equal;
        }
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Type(one), Self::Type(other)) => one == other,
            (Self::Cidr(one), Self::Cidr(other)) => one == other,
            (Self::Address(one), Self::Address(other)) => one == other,
            (Self::Url(one), Self::Url(other)) => one == other,
            (Self::Format(one), Self::Format(other)) => one == other,
            (Self::Optional(one), Self::Optional(other)) => match (one, other) {
                (Some(one), Some(other)) => one.equals(other),
                (one, other) => one.is_none() && other.is_none(),
            },
            _ => self
                .equal_lists(other)
                .or_else(|| self.equal_maps(other))
                .unwrap_or(false),
        }
    }

    /// The order of items does not count in a list that is a set or a map.
    fn equal_lists(&self, other: &Self) -> Option<bool> {
        let (left, right) = (self.items()?, other.items()?);
        if left.len() != right.len() {
            return Some(false);
        }
        let unordered = |list: &Self| matches!(list, Self::Array(_, schema) if schema.list_type() != ListType::Atomic);
        Some(if unordered(self) || unordered(other) {
            left.iter()
                .all(|one| right.iter().any(|other| one.equals(other)))
        } else {
            left.iter()
                .zip(&right)
                .all(|(one, other)| one.equals(other))
        })
    }

    fn equal_maps(&self, other: &Self) -> Option<bool> {
        let left = self.entries()?;
        if left.len() != other.entries()?.len() {
            return Some(false);
        }
        let same =
            |(key, value): &(Self, Self)| other.key(key).is_some_and(|other| value.equals(&other));
        Some(left.iter().all(same))
    }

    /// The order of two values that have one; numbers of different types have.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => Some(one.cmp(other)),
            (Self::Int(one), Self::Int(other)) => Some(one.cmp(other)),
            (Self::Text(one), Self::Text(other)) => Some(one.cmp(other)),
            (Self::Bytes(one), Self::Bytes(other)) => Some(one.cmp(other)),
            (Self::Duration(one), Self::Duration(other)) => Some(one.cmp(other)),
            (Self::Time(one), Self::Time(other)) => Some(one.cmp(other)),
            (Self::Quantity(one), Self::Quantity(other)) => Some(one.cmp(other)),
            _ => match (self.whole(), other.whole()) {
                (Some(one), Some(other)) => Some(one.cmp(&other)),
                _ => self.double()?.partial_cmp(&other.double()?),
            },
        }
    }

    fn whole(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some((*number).into()),
            Self::Uint(number) => Some((*number).into()),
            _ => None,
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "the language turns numbers into doubles"
    )]
    pub(super) fn double(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Uint(number) => Some(*number as f64),
            Self::Double(number) => Some(*number),
            _ => None,
        }
    }
}

/// `__dash__` and the like, and names that the language has for itself.
pub(super) fn unescaped(name: &str) -> String {
    const ESCAPES: [(&str, &str); 5] = [
        ("__underscores__", "__"),
        ("__dot__", "."),
        ("__dash__", "-"),
        ("__slash__", "/"),
        ("__namespace__", "namespace"),
    ];
    let word = name
        .strip_prefix("__")
        .and_then(|name| name.strip_suffix("__"))
        .filter(|word| {
            !word.contains("__") && !["dot", "dash", "slash", "underscores"].contains(word)
        });
    if let Some(word) = word {
        return word.to_owned();
    }
    ESCAPES
        .iter()
        .fold(name.to_owned(), |name, (escape, plain)| {
            name.replace(escape, plain)
        })
}
