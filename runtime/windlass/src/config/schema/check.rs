//! Compares a config with a schema. Entry point: [`Schema::check`].

use super::{MOST_DEPTH, Schema, resolve};
use serde_json::{Map, Value as Json};
use windlass_files::{Step, nearest};

/// Steps of one check: a value compared with a schema is one.
const MOST_STEPS: usize = 200_000;
/// Violations that are collected. The first ones are reported.
const MOST_VIOLATIONS: usize = 100;
/// Bytes of text that count as a step when they are compared with a pattern.
const BYTES_A_STEP: usize = 256;
/// Characters of a value in a message.
const MOST_SHOWN: usize = 60;

/// What is wrong with one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The path of the value.
    pub(crate) path: Vec<Step>,
    /// The key in it that is wrong, if it is a key.
    pub(crate) at_key: Option<String>,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Unknown {
        field: String,
        remedy: String,
    },
    Missing(String),
    /// Any other problem: what was expected and what was found, or what to do.
    Other(String),
    /// The check was given up.
    TooMuch,
}

impl Violation {
    /// What is wrong, in one clause that names the value: `spec.config of Reconciler hello`.
    pub(crate) fn message(&self, of: &str) -> String {
        match &self.what {
            What::Unknown { field, remedy } => format!("unknown field {field:?} in {of}: {remedy}"),
            What::Missing(field) => format!("field {field:?} is missing in {of}: add it"),
            What::Other(message) => format!("{of}: {message}"),
            What::TooMuch => {
                format!(
                    "{of}: comparing it with the guest's schema takes too long: make one of them simpler"
                )
            }
        }
    }
}

impl Schema {
    /// What is wrong with a config: nothing if it matches.
    pub(crate) fn check(&self, config: &Json) -> Vec<Violation> {
        let mut check = Check {
            schema: self,
            steps: MOST_STEPS,
            path: Vec::new(),
        };
        let mut found = Vec::new();
        if check
            .value(config, &self.root, MOST_DEPTH, &mut found)
            .is_err()
        {
            found.push(Violation {
                path: Vec::new(),
                at_key: None,
                what: What::TooMuch,
            });
        }
        found
    }
}

/// The check was given up.
struct GaveUp;

struct Check<'a> {
    schema: &'a Schema,
    /// Steps that are left.
    steps: usize,
    /// Where the check is.
    path: Vec<Step>,
}

type Found = Vec<Violation>;

impl Check<'_> {
    fn spend(&mut self, steps: usize) -> Result<(), GaveUp> {
        self.steps = self.steps.checked_sub(steps).ok_or(GaveUp)?;
        Ok(())
    }

    fn add(&self, found: &mut Found, at_key: Option<&str>, what: What) {
        if found.len() < MOST_VIOLATIONS {
            found.push(Violation {
                path: self.path.clone(),
                at_key: at_key.map(str::to_owned),
                what,
            });
        }
    }

    fn other(&self, found: &mut Found, message: String) {
        self.add(found, None, What::Other(message));
    }

    /// Compares a value with a schema.
    fn value(
        &mut self,
        value: &Json,
        schema: &Json,
        depth: usize,
        found: &mut Found,
    ) -> Result<(), GaveUp> {
        self.spend(1)?;
        let depth = depth.checked_sub(1).ok_or(GaveUp)?;
        let rules = match schema {
            Json::Bool(true) => return Ok(()),
            Json::Object(rules) => rules,
            _ => {
                self.other(found, "nothing is allowed here: leave it out".to_owned());
                return Ok(());
            }
        };
        if let Some(target) = rules.get("$ref").and_then(Json::as_str) {
            let root = &self.schema.root;
            let target = resolve(root, target).unwrap_or(&Json::Bool(false));
            self.value(value, target, depth, found)?;
        }
        if let Some(types) = rules.get("type")
            && !fits(value, types)
        {
            let expected = expected(types);
            self.other(
                found,
                format!("expected {expected}, found {}", shown(value)),
            );
            return Ok(());
        }
        self.fixed(value, rules, found)?;
        match value {
            Json::Object(fields) => self.fields(fields, rules, depth, found)?,
            Json::Array(items) => self.items(items, rules, depth, found)?,
            Json::String(text) => self.text(text, rules, found)?,
            Json::Number(_) => self.number(value, rules, found),
            Json::Null | Json::Bool(_) => {}
        }
        self.combined(value, rules, depth, found)
    }

    /// `enum` and `const`.
    fn fixed(
        &mut self,
        value: &Json,
        rules: &Map<String, Json>,
        found: &mut Found,
    ) -> Result<(), GaveUp> {
        let one = rules.get("const").map(std::slice::from_ref);
        let several = rules.get("enum").and_then(Json::as_array);
        for allowed in one.into_iter().chain(several.map(Vec::as_slice)) {
            self.spend(allowed.len())?;
            if allowed.contains(value) {
                continue;
            }
            let known = allowed.iter().filter_map(Json::as_str);
            let near = value.as_str().and_then(|word| nearest(word, known));
            let remedy = match near {
                Some(near) => format!("did you mean {near:?}?"),
                None => {
                    let all: Vec<String> = allowed.iter().take(20).map(shown).collect();
                    format!(
                        "use {}{}",
                        if all.len() > 1 { "one of " } else { "" },
                        all.join(", ")
                    )
                }
            };
            self.other(found, format!("{} is not allowed: {remedy}", shown(value)));
        }
        Ok(())
    }

    fn fields(
        &mut self,
        fields: &Map<String, Json>,
        rules: &Map<String, Json>,
        depth: usize,
        found: &mut Found,
    ) -> Result<(), GaveUp> {
        self.size(
            fields.len(),
            "fields",
            ("minProperties", "maxProperties"),
            rules,
            found,
        );
        for name in rules
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
        {
            self.spend(1)?;
            if let Some(name) = name.as_str().filter(|name| !fields.contains_key(*name)) {
                self.add(found, None, What::Missing(name.to_owned()));
            }
        }
        let named = rules.get("properties").and_then(Json::as_object);
        let by_pattern = rules.get("patternProperties").and_then(Json::as_object);
        for (name, value) in fields {
            if let Some(names) = rules.get("propertyNames") {
                let mut wrong = Vec::new();
                self.value(&Json::String(name.clone()), names, depth, &mut wrong)?;
                for violation in wrong {
                    let message = violation.message("the name of a field");
                    self.add(found, Some(name), What::Other(message));
                }
            }
            self.path.push(Step::Field(name.clone()));
            let mut is_known = false;
            if let Some(schema) = named.and_then(|named| named.get(name)) {
                is_known = true;
                self.value(value, schema, depth, found)?;
            }
            for (pattern, schema) in by_pattern.into_iter().flatten() {
                if self.matches(name, pattern)? {
                    is_known = true;
                    self.value(value, schema, depth, found)?;
                }
            }
            let rest = rules.get("additionalProperties").filter(|_| !is_known);
            if let Some(schema) = rest.filter(|schema| **schema != Json::Bool(false)) {
                self.value(value, schema, depth, found)?;
            }
            self.path.pop();
            if rest == Some(&Json::Bool(false)) {
                let names = named.into_iter().flat_map(Map::keys).map(String::as_str);
                self.add(found, Some(name), unknown(name, names.collect()));
            }
        }
        Ok(())
    }

    fn items(
        &mut self,
        items: &[Json],
        rules: &Map<String, Json>,
        depth: usize,
        found: &mut Found,
    ) -> Result<(), GaveUp> {
        self.size(items.len(), "items", ("minItems", "maxItems"), rules, found);
        for (index, item) in items.iter().enumerate() {
            self.path.push(Step::Item(index));
            if let Some(schema) = rules.get("items") {
                self.value(item, schema, depth, found)?;
            }
            if rules.get("uniqueItems") == Some(&Json::Bool(true)) {
                self.spend(index)?;
                if let Some(first) = items[..index].iter().position(|other| other == item) {
                    self.other(
                        found,
                        format!("the same as item {first}: remove one of them"),
                    );
                }
            }
            self.path.pop();
        }
        Ok(())
    }

    fn text(
        &mut self,
        text: &str,
        rules: &Map<String, Json>,
        found: &mut Found,
    ) -> Result<(), GaveUp> {
        let length = text.chars().count();
        self.size(
            length,
            "characters",
            ("minLength", "maxLength"),
            rules,
            found,
        );
        if let Some(pattern) = rules.get("pattern").and_then(Json::as_str)
            && !self.matches(text, pattern)?
        {
            let text = shown(&Json::String(text.to_owned()));
            self.other(
                found,
                format!("{text} does not match the pattern {pattern}"),
            );
        }
        Ok(())
    }

    fn matches(&mut self, text: &str, pattern: &str) -> Result<bool, GaveUp> {
        self.spend(1 + text.len() / BYTES_A_STEP)?;
        let compiled = self.schema.patterns.get(pattern);
        Ok(compiled.is_some_and(|compiled| compiled.is_match(text)))
    }

    fn number(&self, value: &Json, rules: &Map<String, Json>, found: &mut Found) {
        let number = value.as_f64().unwrap_or_default();
        type Fails = fn(f64, f64) -> bool;
        let bounds: [(&str, &str, &str, Fails); 4] = [
            ("minimum", "", " or more", |it, bound| it < bound),
            ("maximum", "", " or less", |it, bound| it > bound),
            ("exclusiveMinimum", "more than ", "", |it, bound| {
                it <= bound
            }),
            ("exclusiveMaximum", "less than ", "", |it, bound| {
                it >= bound
            }),
        ];
        for (name, before, after, fails) in bounds {
            let Some(rule) = rules.get(name) else {
                continue;
            };
            if rule.as_f64().is_some_and(|bound| fails(number, bound)) {
                self.other(
                    found,
                    format!("expected {before}{rule}{after}, found {value}"),
                );
            }
        }
    }

    fn size(
        &self,
        size: usize,
        what: &str,
        (least, most): (&str, &str),
        rules: &Map<String, Json>,
        found: &mut Found,
    ) {
        let bound = |name: &str| rules.get(name).and_then(Json::as_u64);
        let size = size as u64;
        if let Some(least) = bound(least).filter(|least| size < *least) {
            self.other(
                found,
                format!("expected {least} {what} or more, found {size}"),
            );
        }
        if let Some(most) = bound(most).filter(|most| size > *most) {
            self.other(
                found,
                format!("expected {most} {what} or less, found {size}"),
            );
        }
    }

    /// `allOf`, `anyOf`, `oneOf`, `not` and `if`.
    fn combined(
        &mut self,
        value: &Json,
        rules: &Map<String, Json>,
        depth: usize,
        found: &mut Found,
    ) -> Result<(), GaveUp> {
        let list = |name: &str| {
            rules
                .get(name)
                .and_then(Json::as_array)
                .into_iter()
                .flatten()
        };
        for schema in list("allOf") {
            self.value(value, schema, depth, found)?;
        }
        for name in ["anyOf", "oneOf"] {
            let mut tried = Vec::new();
            for schema in list(name) {
                tried.push((schema, self.tried(value, schema, depth)?));
            }
            let matching = tried.iter().filter(|(_, found)| found.is_empty()).count();
            if matching == 0 && !tried.is_empty() {
                self.nearest(value, tried, found);
            } else if name == "oneOf" && matching > 1 {
                let message =
                    format!("matches {matching} of the forms that exclude each other: keep one");
                self.other(found, message);
            }
        }
        if let Some(schema) = rules.get("not")
            && self.tried(value, schema, depth)?.is_empty()
        {
            let why = schema.get("description").and_then(Json::as_str);
            let why = why.unwrap_or("the guest's schema excludes it");
            self.other(found, format!("{} is not allowed: {why}", shown(value)));
        }
        if let Some(condition) = rules.get("if") {
            let holds = self.tried(value, condition, depth)?.is_empty();
            if let Some(schema) = rules.get(if holds { "then" } else { "else" }) {
                self.value(value, schema, depth, found)?;
            }
        }
        Ok(())
    }

    fn tried(&mut self, value: &Json, schema: &Json, depth: usize) -> Result<Found, GaveUp> {
        let mut found = Vec::new();
        self.value(value, schema, depth, &mut found)?;
        Ok(found)
    }

    /// Reports the violations of the form that the value most likely means: of its type, and with the fewest violations.
    fn nearest(&self, value: &Json, mut tried: Vec<(&Json, Found)>, found: &mut Found) {
        let forms = tried.len();
        tried.retain(|(schema, _)| schema.get("type").is_none_or(|types| fits(value, types)));
        match tried.into_iter().min_by_key(|(_, found)| found.len()) {
            Some((_, nearest)) => {
                let room = MOST_VIOLATIONS.saturating_sub(found.len());
                found.extend(nearest.into_iter().take(room));
            }
            None => {
                let message = format!(
                    "{} is none of the {forms} forms that are allowed",
                    shown(value)
                );
                self.other(found, message);
            }
        }
    }
}

fn unknown(field: &str, known: Vec<&str>) -> What {
    let remedy = match nearest(field, known.iter().copied()) {
        Some(candidate) => format!("did you mean {candidate:?}?"),
        None if known.is_empty() => "nothing is allowed here".to_owned(),
        None => format!("use one of {}", known.join(", ")),
    };
    What::Unknown {
        field: field.to_owned(),
        remedy,
    }
}

/// The types of a `type` keyword.
fn types(types: &Json) -> impl Iterator<Item = &str> {
    let several = types.as_array().into_iter().flatten();
    several.filter_map(Json::as_str).chain(types.as_str())
}

/// Whether a value has one of the types of a `type` keyword.
fn fits(value: &Json, wanted: &Json) -> bool {
    types(wanted).any(|wanted| match wanted {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        _ => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0),
    })
}

/// The types in the words of other problems.
fn expected(wanted: &Json) -> String {
    let words = types(wanted).map(|wanted| match wanted {
        "null" => "nothing",
        "boolean" => "true or false",
        "object" => "a mapping",
        "array" => "a list",
        "number" => "a number",
        "string" => "a text",
        _ => "a whole number",
    });
    words.collect::<Vec<_>>().join(" or ")
}

/// A value in the words of other problems.
fn shown(value: &Json) -> String {
    match value {
        Json::Null => "nothing".to_owned(),
        Json::Bool(_) | Json::Number(_) => value.to_string(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "a mapping".to_owned(),
        Json::String(text) => match text.char_indices().nth(MOST_SHOWN) {
            Some((end, _)) => format!("the text {:?}…", &text[..end]),
            None => format!("the text {text:?}"),
        },
    }
}
