//! Functions and methods: [`call`], by name.

use std::rc::Rc;

use super::Failure;
use super::eval::no_overload;
use super::value::Val;
use super::{list, net, text, time};
use crate::duration;
use crate::quantity::Quantity;

/// All that are known; an expression with another one is not run.
pub(super) const FUNCTIONS: [&str; 101] = [
    "size",
    "type",
    "dyn",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "bool",
    "duration",
    "timestamp",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "find",
    "findAll",
    "charAt",
    "indexOf",
    "lastIndexOf",
    "lowerAscii",
    "upperAscii",
    "replace",
    "split",
    "join",
    "substring",
    "trim",
    "format",
    "quote",
    "strings.quote",
    "validate",
    "format.named",
    "isSorted",
    "sum",
    "min",
    "max",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "isURL",
    "url",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "getQuery",
    "isIP",
    "ip",
    "ip.isCanonical",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "isCIDR",
    "cidr",
    "containsIP",
    "containsCIDR",
    "masked",
    "prefixLength",
    "quantity",
    "isQuantity",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "add",
    "sub",
    "isLessThan",
    "isGreaterThan",
    "compareTo",
    "optional.of",
    "optional.ofNonZeroValue",
    "optional.none",
    "hasValue",
    "value",
    "orValue",
    "or",
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "sign",
    "format.dns1123Label",
    "format.dns1123Subdomain",
    "format.dns1035Label",
    "format.qualifiedName",
    "format.dns1123LabelPrefix",
    "format.dns1123SubdomainPrefix",
    "format.dns1035LabelPrefix",
    "format.labelValue",
    "format.uri",
    "format.uuid",
    "format.datetime",
];

type Outcome<'a> = Result<Val<'a>, Failure>;

/// # Errors
/// There is no function of this name for these values, or it has no result for them.
pub(super) fn call<'a>(name: &str, target: Option<Val<'a>>, args: &[Val<'a>]) -> Outcome<'a> {
    let all: Vec<Val<'a>> = target.iter().cloned().chain(args.iter().cloned()).collect();
    let known = general(name, &all)
        .or_else(|| optional(name, &all))
        .or_else(|| quantity(name, &all))
        .or_else(|| text::call(name, &all))
        .or_else(|| list::call(name, &all))
        .or_else(|| net::call(name, &all))
        .or_else(|| time::call(name, &all));
    known.unwrap_or_else(|| Err(no_overload(name, &all)))
}

/// A value as an error shows it.
pub(super) fn shown(value: &Val<'_>) -> String {
    string(value).unwrap_or_else(|| value.type_name().to_owned())
}

fn string(value: &Val<'_>) -> Option<String> {
    Some(match value {
        Val::Text(text) => text.to_string(),
        Val::Bool(value) => value.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Double(number) => number.to_string(),
        Val::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
        Val::Time(time) => time.to_string(),
        Val::Duration(duration) => time::seconds(*duration),
        Val::Address(address) => address.to_string(),
        Val::Cidr(cidr) => cidr.to_string(),
        _ => return None,
    })
}

/// `None` where the function is none of these.
fn general<'a>(name: &str, all: &[Val<'a>]) -> Option<Outcome<'a>> {
    let failed = |what: &str| Err(Failure::new(format!("cannot convert to {what}")));
    Some(match (name, all) {
        ("size", [value]) => match value.size() {
            Some(size) => Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            None => return None,
        },
        ("dyn", [value]) => Ok(value.clone()),
        ("type", [value]) => Ok(Val::Type(value.type_name())),
        ("string", [value]) => {
            string(value).map_or_else(|| failed("string"), |text| Ok(Val::text(text)))
        }
        ("bool", [Val::Bool(value)]) => Ok(Val::Bool(*value)),
        ("bool", [Val::Text(text)]) => match &**text {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Val::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Val::Bool(false)),
            _ => failed("bool"),
        },
        ("bytes", [Val::Text(text)]) => Ok(Val::Bytes(text.as_bytes().into())),
        ("bytes", [value @ Val::Bytes(_)]) => Ok(value.clone()),
        ("int", [value]) => int(value).map_or_else(|| failed("int"), |number| Ok(Val::Int(number))),
        ("uint", [value]) => {
            uint(value).map_or_else(|| failed("uint"), |number| Ok(Val::Uint(number)))
        }
        ("double", [Val::Text(text)]) => text
            .parse()
            .map_or_else(|_| failed("double"), |number| Ok(Val::Double(number))),
        ("double", [value]) => value
            .double()
            .map_or_else(|| failed("double"), |number| Ok(Val::Double(number))),
        ("duration", [Val::Text(text)]) => duration::parse(text).map_or_else(
            || failed("duration"),
            |duration| Ok(Val::Duration(duration)),
        ),
        ("duration", [value @ Val::Duration(_)]) | ("timestamp", [value @ Val::Time(_)]) => {
            Ok(value.clone())
        }
        ("timestamp", [Val::Text(text)]) => text
            .parse()
            .map_or_else(|_| failed("timestamp"), |time| Ok(Val::Time(time))),
        _ => return None,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn int(value: &Val<'_>) -> Option<i64> {
    match value {
        Val::Int(number) => Some(*number),
        Val::Uint(number) => i64::try_from(*number).ok(),
        Val::Double(number) => (number.abs() < 9.2e18).then_some(number.trunc() as i64),
        Val::Text(text) => text.parse().ok(),
        Val::Time(time) => Some(time.as_second()),
        Val::Duration(duration) => Some(duration.as_secs()),
        _ => None,
    }
}

fn uint(value: &Val<'_>) -> Option<u64> {
    match value {
        Val::Uint(number) => Some(*number),
        Val::Text(text) => text.parse().ok(),
        other => int(other).and_then(|number| u64::try_from(number).ok()),
    }
}

fn optional<'a>(name: &str, all: &[Val<'a>]) -> Option<Outcome<'a>> {
    let zero = |value: &Val<'a>| {
        matches!(value, Val::Null | Val::Bool(false))
            || value.double() == Some(0.0)
            || value.size() == Some(0)
    };
    Some(Ok(match (name, all) {
        ("optional.none", []) => Val::Optional(None),
        ("optional.of", [value]) => Val::optional(Some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => {
            Val::optional(Some(value.clone()).filter(|value| !zero(value)))
        }
        ("hasValue", [Val::Optional(value)]) => Val::Bool(value.is_some()),
        ("value", [Val::Optional(Some(value))]) | ("orValue", [Val::Optional(Some(value)), _]) => {
            (**value).clone()
        }
        ("value", [Val::Optional(None)]) => {
            return Some(Err(Failure::new("optional.none() dereference")));
        }
        ("orValue", [Val::Optional(None), other]) => other.clone(),
        ("or", [Val::Optional(Some(value)), _]) => Val::Optional(Some(Rc::clone(value))),
        ("or", [Val::Optional(None), other]) => other.clone(),
        _ => return None,
    }))
}

fn quantity<'a>(name: &str, all: &[Val<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(match (name, all) {
        ("isQuantity", [Val::Text(text)]) => Val::Bool(Quantity::parse(text).is_some()),
        ("quantity", [Val::Text(text)]) => match Quantity::parse(text) {
            Some(quantity) => Val::Quantity(quantity),
            None => return Some(Err(Failure::new(format!("{text:?} is no quantity")))),
        },
        ("sign", [Val::Quantity(quantity)]) => Val::Int(quantity.sign()),
        ("isInteger", [Val::Quantity(quantity)]) => Val::Bool(quantity.integer().is_some()),
        ("asInteger", [Val::Quantity(quantity)]) => match quantity.integer() {
            Some(number) => Val::Int(number),
            None => return Some(Err(Failure::new("cannot convert value to integer"))),
        },
        ("asApproximateFloat", [Val::Quantity(quantity)]) => Val::Double(quantity.approximate()),
        ("add", [Val::Quantity(one), Val::Quantity(other)]) => Val::Quantity(one.plus(*other)),
        ("add", [Val::Quantity(one), Val::Int(other)]) => {
            Val::Quantity(one.plus(Quantity::of(*other)))
        }
        ("sub", [Val::Quantity(one), Val::Quantity(other)]) => Val::Quantity(one.minus(*other)),
        ("sub", [Val::Quantity(one), Val::Int(other)]) => {
            Val::Quantity(one.minus(Quantity::of(*other)))
        }
        ("isLessThan", [Val::Quantity(one), Val::Quantity(other)]) => Val::Bool(one < other),
        ("isGreaterThan", [Val::Quantity(one), Val::Quantity(other)]) => Val::Bool(one > other),
        ("compareTo", [Val::Quantity(one), Val::Quantity(other)]) => {
            Val::Int(match one.cmp(other) {
                std::cmp::Ordering::Less => -1,
                std::cmp::Ordering::Equal => 0,
                std::cmp::Ordering::Greater => 1,
            })
        }
        _ => return None,
    }))
}
