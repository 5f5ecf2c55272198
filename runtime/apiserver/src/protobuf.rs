//! Objects in protocol buffers, as Go's typed clients send them: [`decode`]. Answers are JSON, which those clients read too.

use serde_json::{Map, Value, json};

use crate::base64;
use crate::schema::{Kind, Schema};
use crate::status::ApiError;

/// What Kubernetes puts before the envelope.
const MAGIC: &[u8] = b"k8s\0";
/// Messages inside messages; the deepest built-in kind needs about a dozen.
const DEPTH: usize = 64;

/// Numbers whose zero says something: pointers in Go, never written where they are absent.
const MEANT_ZERO: [&str; 8] = [
    "replicas",
    "gracePeriodSeconds",
    "terminationGracePeriodSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "partition",
    "controller",
    "blockOwnerDeletion",
];

/// One field of a message.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Decodes an enveloped object; `schema_of` finds the schema by apiVersion and kind.
///
/// # Errors
/// 400 for bytes that are no such message, 415 for a kind without a known message.
pub(crate) fn decode<'s>(
    bytes: &[u8],
    schema_of: impl FnOnce(&str, &str) -> Option<Schema<'s>>,
) -> Result<Value, ApiError> {
    let broken =
        || ApiError::bad_request("the body is not a Kubernetes object in protocol buffers");
    let envelope = bytes
        .strip_prefix(MAGIC)
        .and_then(fields)
        .ok_or_else(broken)?;
    let part = |number: u32| {
        envelope
            .iter()
            .find_map(|(found, wire)| if *found == number { wire.bytes() } else { None })
    };
    let names = part(1).and_then(fields).ok_or_else(broken)?;
    let name = |number: u32| {
        names
            .iter()
            .find(|(found, _)| *found == number)
            .and_then(|(_, wire)| wire.text())
            .unwrap_or_default()
    };
    let (api_version, kind) = (name(1), name(2));
    let Some(schema) = schema_of(&api_version, &kind) else {
        return Err(ApiError::unsupported_media(format!(
            "{kind} of {api_version} has no form in protocol buffers: send JSON"
        )));
    };
    let mut object = message(part(2).unwrap_or_default(), schema, 0).ok_or_else(broken)?;
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    Ok(object)
}

impl<'a> Wire<'a> {
    fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) => None,
        }
    }

    fn text(&self) -> Option<String> {
        self.bytes()
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .map(str::to_owned)
    }

    #[expect(
        clippy::cast_possible_wrap,
        reason = "a varint is the two's complement of a signed number"
    )]
    fn signed(&self) -> i64 {
        match self {
            Self::Number(number) => *number as i64,
            Self::Bytes(_) => 0,
        }
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The fields of a message in the order in which they came.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u32, Wire<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => Wire::Number(u64::from_le_bytes(take(&mut bytes, 8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                Wire::Bytes(take(&mut bytes, length)?)
            }
            5 => Wire::Number(u64::from(u32::from_le_bytes(
                take(&mut bytes, 4)?.try_into().ok()?,
            ))),
            _ => return None,
        };
        found.push((u32::try_from(tag >> 3).ok()?, wire));
    }
    Some(found)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(head)
}

fn message(bytes: &[u8], schema: Schema<'_>, depth: usize) -> Option<Value> {
    if depth > DEPTH {
        return None;
    }
    let mut object = Map::new();
    fill(&mut object, bytes, schema, 0, depth)?;
    Some(Value::Object(object))
}

/// Reads the fields of a message into `object`. Fields of a message that JSON inlines have the number `1000 * outer + inner`.
fn fill(
    object: &mut Map<String, Value>,
    bytes: &[u8],
    schema: Schema<'_>,
    base: u32,
    depth: usize,
) -> Option<()> {
    for (number, wire) in fields(bytes)? {
        let number = base + number;
        let Some((name, inner)) = schema
            .properties()
            .find(|(_, inner)| inner.number() == Some(number))
        else {
            let inlined = base == 0
                && schema
                    .properties()
                    .any(|(_, inner)| inner.number().is_some_and(|inner| inner / 1_000 == number));
            if inlined {
                fill(object, wire.bytes()?, schema, number * 1_000, depth + 1)?;
            }
            continue;
        };
        if inner.kind() == Kind::Array {
            let item = value(&wire, inner.items(), depth + 1)?;
            let list = object.entry(name).or_insert_with(|| json!([]));
            list.as_array_mut()?.push(item);
        } else if inner.is_map() {
            let entry = fields(wire.bytes()?)?;
            let at = |number: u32| {
                entry
                    .iter()
                    .find(|(found, _)| *found == number)
                    .map(|(_, wire)| wire)
            };
            let key = at(1).and_then(Wire::text).unwrap_or_default();
            let inner = inner.field(&key)?;
            let value =
                at(2).map_or_else(|| Some(json!("")), |wire| value(wire, inner, depth + 1))?;
            object.entry(name).or_insert_with(|| json!({}))[key] = value;
        } else {
            let value = value(&wire, inner, depth + 1)?;
            let nothing = value.is_null()
                || value == ""
                || ((value == 0 || value == false) && !MEANT_ZERO.contains(&name));
            if !nothing {
                object.insert(name.to_owned(), value);
            }
        }
    }
    Some(())
}

fn value(wire: &Wire<'_>, schema: Schema<'_>, depth: usize) -> Option<Value> {
    match (schema.type_name(), schema.kind()) {
        (Some("Time" | "MicroTime"), _) => time(wire, schema.type_name() == Some("MicroTime")),
        (Some("Quantity"), _) => Some(
            first(wire, 1)?
                .and_then(|wire| wire.text())
                .unwrap_or_default()
                .into(),
        ),
        (_, Kind::IntOrString) => {
            let parts = fields(wire.bytes()?)?;
            let at = |number: u32| {
                parts
                    .iter()
                    .find(|(found, _)| *found == number)
                    .map(|(_, wire)| wire)
            };
            let is_text = at(1).is_some_and(|kind| kind.signed() == 1);
            let text = || at(3).and_then(Wire::text).unwrap_or_default().into();
            Some(if is_text {
                text()
            } else {
                at(2).map_or(0, Wire::signed).into()
            })
        }
        (Some("FieldsV1" | "RawExtension" | "JSON"), _) => {
            let raw = first(wire, 1)?
                .and_then(|wire| wire.bytes())
                .unwrap_or_default();
            Some(serde_json::from_slice(raw).unwrap_or_default())
        }
        (_, Kind::String) if schema.format() == Some("byte") => {
            Some(base64::encode(wire.bytes()?).into())
        }
        (_, Kind::String) => wire.text().map(Value::from),
        (_, Kind::Integer) => Some(wire.signed().into()),
        (_, Kind::Boolean) => Some((wire.signed() != 0).into()),
        (_, Kind::Number) => match wire {
            Wire::Number(bits) => Some(f64::from_bits(*bits).into()),
            Wire::Bytes(_) => None,
        },
        _ => message(wire.bytes()?, schema, depth),
    }
}

/// The first field `number` of a message.
fn first<'a>(wire: &Wire<'a>, number: u32) -> Option<Option<Wire<'a>>> {
    Some(
        fields(wire.bytes()?)?
            .into_iter()
            .find(|(found, _)| *found == number)
            .map(|(_, wire)| wire),
    )
}

/// A timestamp; the zero time is absent.
fn time(wire: &Wire<'_>, micro: bool) -> Option<Value> {
    let parts = fields(wire.bytes()?)?;
    let at = |number: u32| {
        parts
            .iter()
            .find(|(found, _)| *found == number)
            .map_or(0, |(_, wire)| wire.signed())
    };
    let (seconds, nanos) = (at(1), i32::try_from(at(2)).ok()?);
    if seconds == 0 && nanos == 0 {
        return Some(Value::Null);
    }
    let time = jiff::Timestamp::new(seconds, nanos).ok()?;
    Some(
        time.strftime(if micro {
            "%Y-%m-%dT%H:%M:%S.%6fZ"
        } else {
            "%Y-%m-%dT%H:%M:%SZ"
        })
        .to_string()
        .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [
            vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()],
            bytes.to_vec(),
        ]
        .concat()
    }

    #[test]
    fn a_config_map_is_read_from_its_message() {
        let metadata = field(1, &[field(1, b"name"), field(3, b"")].concat());
        let data = field(2, &[field(1, b"k"), field(2, b"v")].concat());
        let names = field(1, &[field(1, b"v1"), field(2, b"ConfigMap")].concat());
        let bytes = [MAGIC.to_vec(), names, field(2, &[metadata, data].concat())].concat();
        let map = builtin()
            .resources
            .iter()
            .find(|resource| resource.kind == "ConfigMap")
            .unwrap();
        let object = decode(&bytes, |_, _| Some(map.schema())).unwrap();
        assert_eq!(
            object,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "name"}, "data": {"k": "v"}})
        );
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        assert!(decode(b"k8s\0\xff\xff", |_, _| None).is_err());
        assert!(decode(b"{}", |_, _| None).is_err());
    }
}
