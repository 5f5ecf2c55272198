//! Values whose bounds are part of their type. Entry points: [`Within`] and [`Items`].
//!
//! A bound stands on its field and nowhere else. Reading a document checks it, and the error has the field's path and position. The
//! definitions and the chart's schema have it from there, and so has the reference of the configuration.

use crate::config::kinds::{Bytes, Interval, Processors};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// The end of what has no upper bound.
pub(crate) const OPEN: u64 = u64::MAX;

/// Steps of [`Bytes`].
pub(crate) const KI: u64 = 1 << 10;
pub(crate) const MI: u64 = 1 << 20;
pub(crate) const GI: u64 = 1 << 30;
pub(crate) const TI: u64 = 1 << 40;

/// Steps of [`Interval`].
pub(crate) const MS: u64 = 1;
pub(crate) const SECOND: u64 = 1000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;

/// The keyword of a schema under which bounds stand as people read them. No server takes it: who writes definitions removes it.
pub(crate) const RANGE: &str = "x-windlass-range";
/// The keyword of rules in CEL.
pub(crate) const VALIDATIONS: &str = "x-kubernetes-validations";

/// What can be bounded: it has whole steps.
pub(crate) trait Measure: Copy + fmt::Display {
    /// So many steps.
    fn of(steps: u64) -> Self;

    /// Its steps, or as many as there can be.
    fn steps(self) -> u64;

    /// Adds bounds to the schema of the type: keywords, or a rule in CEL with this message.
    fn bound(schema: &mut Schema, least: u64, most: Option<u64>, message: &str);
}

/// A value of at least `LEAST` steps and at most `MOST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Within<T, const LEAST: u64, const MOST: u64 = OPEN>(T);

impl<T: Measure, const LEAST: u64, const MOST: u64> Within<T, LEAST, MOST> {
    /// The value, if it is within the bounds.
    pub(crate) fn new(value: T) -> Option<Self> {
        (LEAST..=MOST)
            .contains(&value.steps())
            .then_some(Self(value))
    }

    /// The value.
    pub(crate) fn get(self) -> T {
        self.0
    }

    /// The bounds as people read them.
    fn range() -> String {
        let least = T::of(LEAST);
        match MOST {
            OPEN => format!("{least} or more"),
            most => format!("{least} to {}", T::of(most)),
        }
    }
}

impl<'de, T: Measure + Deserialize<'de>, const LEAST: u64, const MOST: u64> Deserialize<'de>
    for Within<T, LEAST, MOST>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = T::deserialize(deserializer)?;
        Self::new(value).ok_or_else(|| {
            let range = Self::range();
            de::Error::custom(format_args!("expected {range}, found {value}"))
        })
    }
}

impl<T: Serialize, const LEAST: u64, const MOST: u64> Serialize for Within<T, LEAST, MOST> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<T: Measure + JsonSchema, const LEAST: u64, const MOST: u64> JsonSchema
    for Within<T, LEAST, MOST>
{
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        let range = Self::range();
        let most = (MOST != OPEN).then_some(MOST);
        T::bound(&mut schema, LEAST, most, &format!("expected {range}"));
        schema.insert(RANGE.to_owned(), range.into());
        schema
    }
}

/// A list of at least `LEAST` items and at most `MOST`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Items<T, const LEAST: usize, const MOST: usize>(Vec<T>);

impl<T, const LEAST: usize, const MOST: usize> Items<T, LEAST, MOST> {
    /// The bounds as people read them.
    fn range() -> String {
        match LEAST {
            0 => format!("up to {MOST} items"),
            least => format!("{least} to {MOST} items"),
        }
    }

    /// The list, if its length is within the bounds.
    pub(crate) fn new(items: Vec<T>) -> Option<Self> {
        (LEAST..=MOST).contains(&items.len()).then_some(Self(items))
    }
}

impl<T, const MOST: usize> Default for Items<T, 0, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const LEAST: usize, const MOST: usize> Deref for Items<T, LEAST, MOST> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// The items can change, and their number cannot.
impl<T, const LEAST: usize, const MOST: usize> DerefMut for Items<T, LEAST, MOST> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<'de, T: Deserialize<'de>, const LEAST: usize, const MOST: usize> Deserialize<'de>
    for Items<T, LEAST, MOST>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::deserialize(deserializer)?;
        let found = items.len();
        Self::new(items).ok_or_else(|| {
            let range = Self::range();
            de::Error::custom(format_args!("expected {range}, found {found}"))
        })
    }
}

impl<T: JsonSchema, const LEAST: usize, const MOST: usize> JsonSchema for Items<T, LEAST, MOST> {
    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Vec::<T>::json_schema(generator);
        if LEAST > 0 {
            schema.insert("minItems".to_owned(), LEAST.into());
        }
        schema.insert("maxItems".to_owned(), MOST.into());
        schema.insert(RANGE.to_owned(), Self::range().into());
        schema
    }
}

macro_rules! whole_numbers {
    ($($number:ty),*) => {$(
        impl Measure for $number {
            fn of(steps: u64) -> Self {
                Self::try_from(steps).unwrap_or(Self::MAX)
            }

            fn steps(self) -> u64 {
                u64::try_from(self).unwrap_or(u64::MAX)
            }

            fn bound(schema: &mut Schema, least: u64, most: Option<u64>, _: &str) {
                schema.insert("minimum".to_owned(), least.into());
                if let Some(most) = most {
                    schema.insert("maximum".to_owned(), most.into());
                }
            }
        }
    )*};
}

whole_numbers!(u8, u16, u32, usize);

impl Measure for Bytes {
    fn of(steps: u64) -> Self {
        Self(steps)
    }

    fn steps(self) -> u64 {
        self.0
    }

    fn bound(schema: &mut Schema, least: u64, most: Option<u64>, message: &str) {
        bound_quantity::<Self>(schema, least, most, message);
    }
}

impl Measure for Processors {
    fn of(steps: u64) -> Self {
        Self(u32::of(steps))
    }

    fn steps(self) -> u64 {
        self.0.into()
    }

    fn bound(schema: &mut Schema, least: u64, most: Option<u64>, message: &str) {
        bound_quantity::<Self>(schema, least, most, message);
    }
}

impl Measure for Interval {
    fn of(steps: u64) -> Self {
        Self(Duration::from_millis(steps))
    }

    fn steps(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    fn bound(schema: &mut Schema, least: u64, most: Option<u64>, message: &str) {
        let compare =
            |sign: &str, end: u64| format!("duration(self) {sign} duration('{}')", Self::of(end));
        add_rule(schema, &both(compare, least, most), message);
    }
}

fn bound_quantity<T: Measure>(schema: &mut Schema, least: u64, most: Option<u64>, message: &str) {
    let compare = |sign: &str, end: u64| {
        let end = T::of(end);
        format!("quantity(string(self)).compareTo(quantity('{end}')) {sign} 0")
    };
    add_rule(schema, &both(compare, least, most), message);
}

/// The rule that a value lies between two ends.
fn both(compare: impl Fn(&str, u64) -> String, least: u64, most: Option<u64>) -> String {
    let least = compare(">=", least);
    match most {
        Some(most) => format!("{least} && {}", compare("<=", most)),
        None => least,
    }
}

fn add_rule(schema: &mut Schema, rule: &str, message: &str) {
    let rule: Json = json!([{"rule": rule, "message": message}]);
    schema.insert(VALIDATIONS.to_owned(), rule);
}

#[cfg(test)]
mod tests {
    use super::*;

    type Size = Within<Bytes, { 4 * KI }, MI>;

    #[test]
    fn a_value_outside_of_its_bounds_is_not_read() {
        let read = |json: &str| serde_json::from_str::<Size>(json).map(|size| size.get().0);
        assert_eq!(read("\"4Ki\"").unwrap(), 4096);
        assert_eq!(read("1048576").unwrap(), 1 << 20);
        for (json, found) in [("4095", "4095"), ("\"2Mi\"", "2Mi")] {
            let error = read(json).unwrap_err().to_string();
            assert_eq!(error, format!("expected 4Ki to 1Mi, found {found}"));
        }
        let open = serde_json::from_str::<Within<usize, 1>>("0").unwrap_err();
        assert_eq!(open.to_string(), "expected 1 or more, found 0");
        let list = serde_json::from_str::<Items<u32, 1, 2>>("[]").unwrap_err();
        assert_eq!(list.to_string(), "expected 1 to 2 items, found 0");
    }

    #[test]
    fn a_schema_has_the_bounds() {
        let schema = |schema: Schema| schema.to_value();
        let mut generator = SchemaGenerator::default();
        let number = schema(Within::<u32, 8, 100>::json_schema(&mut generator));
        assert_eq!(
            (&number["minimum"], &number["maximum"]),
            (&json!(8), &json!(100))
        );
        assert_eq!(number[RANGE], "8 to 100");
        let time = schema(Within::<Interval, { 100 * MS }, HOUR>::json_schema(
            &mut generator,
        ));
        let rule = "duration(self) >= duration('100ms') && duration(self) <= duration('1h')";
        let message = "expected 100ms to 1h";
        assert_eq!(
            time[VALIDATIONS],
            json!([{"rule": rule, "message": message}])
        );
    }
}
