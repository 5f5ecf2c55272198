//! The rules of a CRD (`x-kubernetes-validations`): [`Rules`], parsed when it is served and checked at each write.
//!
//! A rule that needs a function which is not known here is not checked; [`Rules::unchecked`] says how many there are. What a rule may
//! cost is bounded for the whole object, as in a real server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cel::{BUDGET, Failure, Program, Val};
use crate::schema::validate::type_text;
use crate::schema::{Kind, ListType, Schema};
use crate::status::FieldError;

/// All expressions of a schema, by their text.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    programs: BTreeMap<String, Program>,
}

/// Shows each node, with its place in the words of a CRD's own validation.
pub(crate) fn walk<'a>(schema: Schema<'a>, path: &str, see: &mut dyn FnMut(&str, Schema<'a>)) {
    see(path, schema);
    for (name, child) in schema.properties() {
        walk(child, &format!("{path}.properties[{name}]"), see);
    }
    if let Some(values) = schema.values() {
        walk(values, &format!("{path}.additionalProperties"), see);
    }
    if schema.kind() == Kind::Array {
        walk(schema.items(), &format!("{path}.items"), see);
    }
}

fn expressions(schema: Schema<'_>) -> impl Iterator<Item = (usize, &Value, &'static str, &str)> {
    let rules = schema.validations().and_then(Value::as_array);
    let rules = rules.into_iter().flatten().enumerate();
    rules.flat_map(|(at, rule)| {
        ["rule", "messageExpression"]
            .into_iter()
            .filter_map(move |field| Some((at, rule, field, rule[field].as_str()?)))
    })
}

/// Errors about expressions of a schema that are none, or name what is not there.
pub(crate) fn validate(schema: Schema<'_>, path: &str, errors: &mut Vec<FieldError>) {
    walk(schema, path, &mut |path, schema| {
        for (at, rule, field, text) in expressions(schema) {
            let before = Some(schema).filter(|_| rule["optionalOldSelf"] != true);
            let variables = [("self", Some(schema)), ("oldSelf", before)];
            let checked = Program::parse(text).and_then(|program| program.check(&variables));
            if let Err(error) = checked {
                let path = format!("{path}.x-kubernetes-validations[{at}].{field}");
                let detail = format!("compilation failed: ERROR: {error}");
                errors.push(FieldError::invalid(path, &text.into(), &detail));
            }
        }
    });
}

impl Rules {
    /// Parses the rules of a schema; what is no expression was refused before.
    pub(crate) fn read(schema: Schema<'_>) -> Self {
        let mut programs = BTreeMap::new();
        walk(schema, "", &mut |_, schema| {
            for (_, _, _, text) in expressions(schema) {
                if let Ok(program) = Program::parse(text) {
                    programs.insert(text.to_owned(), program);
                }
            }
        });
        Self { programs }
    }

    /// How many expressions are not run, and the functions that they need.
    pub(crate) fn unchecked(&self) -> Option<(usize, BTreeSet<&str>)> {
        let lacking = self
            .programs
            .values()
            .filter(|program| program.lacks().next().is_some());
        let count = lacking.clone().count();
        (count > 0).then(|| (count, lacking.flat_map(Program::lacks).collect()))
    }

    /// Adds an error for each rule that does not hold for `new`, which takes the place of `old`.
    pub(crate) fn check(
        &self,
        new: &Value,
        old: Option<&Value>,
        schema: Schema<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        if self.programs.is_empty() {
            return;
        }
        if errors.iter().any(FieldError::blocks_rules) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError::invalid("<nil>", &Value::Null, detail));
            return;
        }
        let mut check = Check {
            rules: self,
            budget: BUDGET,
            errors,
        };
        let place = Place {
            path: String::new(),
            unchanged: false,
        };
        check.node(new, old, schema, &place);
    }
}

/// Where a value is, and whether a value around it is what it was.
struct Place {
    path: String,
    unchanged: bool,
}

struct Check<'a> {
    rules: &'a Rules,
    budget: u64,
    errors: &'a mut Vec<FieldError>,
}

impl Check<'_> {
    fn node(&mut self, new: &Value, old: Option<&Value>, schema: Schema<'_>, place: &Place) {
        if new.is_null() || self.budget == 0 {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        let unchanged = place.unchanged || old == Some(new);
        let rules = schema.validations().and_then(Value::as_array);
        for rule in rules.into_iter().flatten() {
            self.rule(rule, (new, old), schema, (&place.path, unchanged));
        }
        let at = |path: String| Place { path, unchanged };
        match new {
            Value::Object(object) => {
                for (name, child) in object {
                    let Some(inner) = schema.field(name) else {
                        continue;
                    };
                    let path = match place.path.as_str() {
                        "" => name.clone(),
                        path if schema.is_map() => format!("{path}[{name}]"),
                        path => format!("{path}.{name}"),
                    };
                    self.node(child, old.and_then(|old| old.get(name)), inner, &at(path));
                }
            }
            Value::Array(items) => {
                let before = old.and_then(Value::as_array).map(Vec::as_slice);
                for (index, item) in items.iter().enumerate() {
                    let old = before.and_then(|before| counterpart(schema, index, item, before));
                    let path = format!("{}[{index}]", place.path);
                    self.node(item, old, schema.items(), &at(path));
                }
            }
            _ => {}
        }
    }

    /// A rule about what was runs only where something was; one about what is only where that has changed.
    fn rule(
        &mut self,
        rule: &Value,
        (new, old): (&Value, Option<&Value>),
        schema: Schema<'_>,
        (path, unchanged): (&str, bool),
    ) {
        let text = rule["rule"].as_str().unwrap_or_default();
        let Some(program) = self.program(text) else {
            return;
        };
        let transition = program.mentions("oldSelf");
        let optional = rule["optionalOldSelf"] == true;
        if (transition && old.is_none() && !optional) || (unchanged && !transition) {
            return;
        }
        let before = old.map(|old| Val::of(old, schema));
        let mut variables = vec![("self", Val::of(new, schema))];
        if optional {
            variables.push(("oldSelf", Val::optional(before)));
        } else if let Some(before) = before {
            variables.push(("oldSelf", before));
        }
        let kind = type_text(schema.kind());
        // The root has no path.
        let named = if path.is_empty() { "<nil>" } else { path };
        let outcome = program.run(&variables, &mut self.budget);
        let trimmed = text.trim();
        let fault = match outcome {
            Ok(Val::Bool(true)) => return,
            Ok(_) => None,
            Err(Failure::Cost) => {
                self.budget = 0;
                Some("validation failed due to running out of cost budget, no further validation rules will be run".to_owned())
            }
            Err(Failure::Error(error)) if error.starts_with("no such overload") => Some(format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {trimmed}"
            )),
            Err(Failure::Error(error)) => Some(format!("{error} evaluating rule: {trimmed}")),
        };
        if let Some(fault) = fault {
            self.errors
                .push(FieldError::invalid(named, &kind.into(), &fault));
            return;
        }
        let message = self.message(rule, &variables);
        let below = rule["fieldPath"].as_str().unwrap_or_default();
        let path = match below {
            "" => named.to_owned(),
            below => format!("{path}{}", normal(below))
                .trim_start_matches('.')
                .to_owned(),
        };
        let shown = Some(new).filter(|new| !new.is_object() && !new.is_array());
        let reason = rule["reason"].as_str().unwrap_or_default();
        self.errors
            .push(FieldError::of_rule(reason, path, shown, &message));
    }

    /// The expression of a text, if all of its functions are known.
    fn program<'p>(&self, text: &str) -> Option<&'p Program>
    where
        Self: 'p,
    {
        let program = self.rules.programs.get(text);
        program.filter(|program| program.lacks().next().is_none())
    }

    fn message(&mut self, rule: &Value, variables: &[(&str, Val<'_>)]) -> String {
        let made = rule["messageExpression"]
            .as_str()
            .and_then(|text| self.program(text))
            .and_then(|program| program.run(variables, &mut self.budget).ok());
        let made = made.as_ref().and_then(Val::as_text).map(str::trim);
        if let Some(made) = made.filter(|made| !made.is_empty() && !made.contains('\n')) {
            return made.to_owned();
        }
        match rule["message"].as_str().map(str::trim) {
            Some(message) if !message.is_empty() => message.to_owned(),
            _ => format!(
                "failed rule: {}",
                rule["rule"].as_str().unwrap_or_default().trim()
            ),
        }
    }
}

/// What an item was, where the list tells its items apart by keys.
fn counterpart<'a>(
    schema: Schema<'_>,
    index: usize,
    item: &Value,
    before: &'a [Value],
) -> Option<&'a Value> {
    if schema.list_type() != ListType::Map {
        return None;
    }
    let key = schema.item_key(index, item);
    let mut before = before.iter().enumerate();
    before
        .find(|(index, other)| schema.item_key(*index, other) == key)
        .map(|(_, other)| other)
}

/// The path of a rule, `.a['b-c']`, with dots.
fn normal(path: &str) -> String {
    path.replace("['", ".").replace("']", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schemas;
    use serde_json::json;

    fn findings(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut all = Schemas::default();
        let id = all.add(schema);
        let mut errors = Vec::new();
        Rules::read(all.at(id)).check(new, old, all.at(id), &mut errors);
        errors.iter().map(FieldError::text).collect()
    }

    #[test]
    fn rules_hold_at_every_level_and_against_what_was() {
        let schema = json!({"type": "object", "properties": {
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "properties": {"id": {"type": "string"}, "v": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "v grows"}]}},
            "m": {"type": "object", "additionalProperties": {"type": "string",
                "x-kubernetes-validations": [{"rule": "self != ''", "reason": "FieldValueForbidden"}]}}},
            "x-kubernetes-validations": [{"rule": "!has(oldSelf.m) || has(self.m)", "messageExpression": "'m ' + 'stays'", "fieldPath": ".m"}]});
        let old = json!({"l": [{"id": "a", "v": 2}], "m": {"k": "x"}});
        let new = json!({"l": [{"id": "b", "v": 0}, {"id": "a", "v": 1}]});
        assert_eq!(
            findings(&schema, &new, Some(&old)),
            ["m: Invalid value: m stays", "l[1]: Invalid value: v grows"]
        );
        assert_eq!(findings(&schema, &new, None), Vec::<String>::new());
        let new = json!({"m": {"k": ""}});
        assert_eq!(
            findings(&schema, &new, None),
            ["m[k]: Forbidden: failed rule: self != ''"]
        );
        // What was wrong before and is not touched may stay.
        assert_eq!(findings(&schema, &new, Some(&new)), Vec::<String>::new());
    }

    #[test]
    fn a_rule_with_an_unknown_function_is_counted_and_not_run() {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "rotate(self)"}, {"rule": "false"}]});
        let mut all = Schemas::default();
        let id = all.add(&schema);
        let rules = Rules::read(all.at(id));
        assert_eq!(rules.unchecked(), Some((1, BTreeSet::from(["rotate"]))));
        assert_eq!(findings(&schema, &json!({}), None).len(), 1);
    }

    #[test]
    fn a_name_that_is_not_there_is_found_in_a_definition() {
        let mut all = Schemas::default();
        let mut wrong = |rule: &str| {
            let rules = json!([{"rule": rule}]);
            let id = all.add(&json!({"type": "object", "x-kubernetes-validations": rules, "properties": {
                "a-b": {"type": "string"}, "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "l": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
                "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {"type": "integer"}}}},
                "e": {"type": "object", "x-kubernetes-embedded-resource": true}}}));
            let mut errors = Vec::new();
            validate(all.at(id), "schema", &mut errors);
            !errors.is_empty()
        };
        for rule in [
            "self.a__dash__b == '' && self.free.any.thing == 1 && self == oldSelf && self.e.metadata.name == ''",
            "self.l.all(x, x.n > 0) && self.l[0].n == 1 && self.l.filter(x, x.n > 1).exists(y, y.n == 2) && self.?l[0].?n.orValue(1) == 1",
            "self.m.all(k, self.m[k].v == 1 && k == '') && self.m.all(k, w, w.v == 1) && self.m.key.v == 1 && type(self) == map",
        ] {
            assert!(!wrong(rule), "{rule}");
        }
        for rule in [
            "sefl.l.size() > 0",
            "has(self.nothing)",
            "self.l.all(x, x.o > 0)",
            "self.l[0].o == 1",
            "self.m.all(k, self.m[k].w == 1)",
            "self.l.filter(x, true).all(y, y.o == 1)",
            "[1].all(x, y == 1)",
            "!has(self.e.other)",
        ] {
            assert!(wrong(rule), "{rule}");
        }
    }
}
