//! Tests of the comparison of configs with schemas.

use super::*;
use serde_json::json;
use windlass_files::split;

/// The problems of a config in YAML by a schema, as they are printed.
fn check(schema: &Json, config: &str) -> Vec<String> {
    let file: Arc<str> = "windlass.yaml".into();
    let node = split(config)[0].parse(&file).unwrap();
    let value = node.decode().unwrap();
    let place = Place {
        file,
        document: node.at,
        config: Some(Arc::new(node)),
        path: "spec.config",
        shows: Shows::Line,
        whose: "Reconciler sync".to_owned(),
    };
    problems(&schema.to_string(), &value, &place)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn refusal(schema: Json) -> String {
    Schema::parse(&schema.to_string()).unwrap_err().to_string()
}

#[test]
fn a_config_that_matches_has_no_problem() {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["kind"], "properties": {
        "kind": {"type": "string", "pattern": "^[A-Z]"}, "count": {"type": ["integer", "null"], "minimum": 1, "maximum": 3},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "rules": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/rule"}}},
        "$defs": {"rule": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["name"]}]}}});
    let config = "kind: Pod\ncount: 2\nlabels: {a.b/c: d}\nrules: [x, {name: y}]\n";
    assert_eq!(check(&schema, config), Vec::<String>::new());
}

#[test]
fn each_problem_says_file_line_and_field() {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["resources"], "properties": {
        "resources": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["kind", "group"],
            "properties": {"kind": {"type": "string"}, "group": {"type": "string"}, "scope": {"enum": ["Namespaced", "Cluster"]},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}}}}}}});
    let config = "# comment\nresources:\n- kind: 3\n  group: x\n  scop: y\n- kind: A\n  scope: cluster\n  labels:\n    a.b: 1\n";
    assert_eq!(
        check(&schema, config),
        [
            "windlass.yaml:3:9: spec.config.resources[0].kind of Reconciler sync: expected a text, found 3",
            "windlass.yaml:5:3: unknown field \"scop\" in spec.config.resources[0] of Reconciler sync: did you mean \"scope\"?",
            "windlass.yaml:6:3: field \"group\" is missing in spec.config.resources[1] of Reconciler sync: add it",
            "windlass.yaml:9:10: spec.config.resources[1].labels.a.b of Reconciler sync: expected a text, found 1",
            "windlass.yaml:7:10: spec.config.resources[1].scope of Reconciler sync: the text \"cluster\" is not allowed: did you mean \"Cluster\"?",
        ]
    );
}

#[test]
fn every_rule_of_a_value_is_held() {
    for (schema, good, bad, message) in [
        (json!({"const": 1}), "1", "2", "2 is not allowed: use 1"),
        (
            json!({"minimum": 2}),
            "2",
            "1",
            "expected 2 or more, found 1",
        ),
        (
            json!({"maximum": 2}),
            "2",
            "3",
            "expected 2 or less, found 3",
        ),
        (
            json!({"exclusiveMinimum": 2}),
            "2.5",
            "2",
            "expected more than 2, found 2",
        ),
        (
            json!({"exclusiveMaximum": 2}),
            "1.5",
            "2",
            "expected less than 2, found 2",
        ),
        (
            json!({"minLength": 2}),
            "ab",
            "a",
            "expected 2 characters or more, found 1",
        ),
        (
            json!({"maxLength": 2}),
            "äb",
            "abc",
            "expected 2 characters or less, found 3",
        ),
        (
            json!({"pattern": "^a+$"}),
            "aa",
            "ab",
            "the text \"ab\" does not match the pattern ^a+$",
        ),
        (
            json!({"minItems": 1}),
            "[x]",
            "[]",
            "expected 1 items or more, found 0",
        ),
        (
            json!({"maxItems": 1}),
            "[x]",
            "[x, x]",
            "expected 1 items or less, found 2",
        ),
        (
            json!({"uniqueItems": true}),
            "[x, y]",
            "[x, y, x]",
            "the same as item 0: remove one of them",
        ),
        (
            json!({"minProperties": 1}),
            "{a: 1}",
            "{}",
            "expected 1 fields or more, found 0",
        ),
        (
            json!({"maxProperties": 1}),
            "{a: 1}",
            "{a: 1, b: 1}",
            "expected 1 fields or less, found 2",
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            "{a: 1}",
            "{ab: 1}",
            "the name of a field: expected 1 characters or less, found 2",
        ),
        (
            json!({"patternProperties": {"^a": {"type": "string"}}}),
            "{b: 1}",
            "{ab: 1}",
            "expected a text, found 1",
        ),
        (
            json!({"not": {"const": 1}}),
            "2",
            "1",
            "1 is not allowed: the guest's schema excludes it",
        ),
        (
            json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}),
            "1",
            "3",
            "expected 2 or less, found 3",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"minimum": 3}]}),
            "x",
            "1",
            "expected 3 or more, found 1",
        ),
        (
            json!({"oneOf": [{"minimum": 1}, {"maximum": 3}]}),
            "0",
            "2",
            "matches 2 of the forms that exclude each other: keep one",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            "x",
            "1",
            "1 is none of the 2 forms that are allowed",
        ),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
            "{c: 1}",
            "{a: 1}",
            "field \"b\" is missing",
        ),
        (
            json!({"if": {"required": ["a"]}, "else": {"required": ["b"]}}),
            "{a: 1}",
            "{c: 1}",
            "field \"b\" is missing",
        ),
        (
            json!(false),
            "~",
            "1",
            "nothing is allowed here: leave it out",
        ),
    ] {
        if schema != json!(false) {
            assert_eq!(
                check(&schema, good),
                Vec::<String>::new(),
                "{schema} {good}"
            );
        }
        let found = check(&schema, bad);
        assert!(
            found.len() == 1 && found[0].contains(message),
            "{schema} {bad}: {found:?}"
        );
    }
}

#[test]
fn the_branch_of_the_values_type_is_reported() {
    let schema = json!({"oneOf": [{"type": "string"}, {"type": "object", "required": ["name"], "additionalProperties": false,
        "properties": {"name": {"type": "string"}}}]});
    assert_eq!(
        check(&schema, "{nam: x, name: y}"),
        [
            "windlass.yaml:1:2: unknown field \"nam\" in spec.config of Reconciler sync: did you mean \"name\"?"
        ]
    );
}

#[test]
fn at_most_ten_problems_are_reported() {
    let schema = json!({"items": {"type": "string"}});
    let config = format!("[{}]", vec!["1"; 250].join(", "));
    let found = check(&schema, &config);
    assert_eq!(found.len(), MOST_PROBLEMS);
    assert!(found[9].ends_with("(and 90 more)"), "{}", found[9]);
}

#[test]
fn a_schema_without_end_is_given_up() {
    let loops = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
    let mut doubling = json!({"$defs": {}});
    for level in 0..40 {
        let next = format!("#/$defs/s{}", level + 1);
        doubling["$defs"][format!("s{level}")] = json!({"anyOf": [{"$ref": next}, {"$ref": next}]});
    }
    doubling["$defs"]["s40"] = json!({"type": "string"});
    doubling["$ref"] = json!("#/$defs/s0");
    for schema in [loops, doubling] {
        let found = check(&schema, "1");
        assert!(
            found.len() == 1 && found[0].contains("takes too long: make one of them simpler"),
            "{found:?}"
        );
    }
}

#[test]
fn a_schema_that_is_not_understood_is_refused() {
    assert!(
        Schema::parse("{")
            .unwrap_err()
            .to_string()
            .starts_with("it is not JSON: ")
    );
    for (schema, message) in [
        (json!(1), "#: a schema is a mapping, or true or false"),
        (
            json!({"requird": []}),
            "#: the keyword \"requird\" is not supported: did you mean \"required\"?",
        ),
        (
            json!({"properties": {"a": {"unevaluatedItems": 1}}}),
            "#/properties/a: the keyword \"unevaluatedItems\" is not supported: ",
        ),
        (
            json!({"type": "text"}),
            "#/type: expected one or more of null, boolean, ",
        ),
        (json!({"items": [{}]}), "#/items: a schema is a mapping"),
        (
            json!({"pattern": "(a"}),
            "#/pattern: the pattern \"(a\" unclosed group",
        ),
        (
            json!({"pattern": "(a{1000}){1000}"}),
            "#/pattern: the pattern \"(a{1000}){1000}\" is too large when compiled",
        ),
        (
            json!({"$ref": "https://example.com/x"}),
            "#/$ref: expected #, or a schema of this file: #/$defs/name",
        ),
        (
            json!({"$ref": "#/$defs/x", "$defs": {}}),
            "#/$ref: expected #, or",
        ),
        (
            json!({"minLength": -1}),
            "#/minLength: expected a whole number, 0 or more",
        ),
        (
            json!({"required": [1]}),
            "#/required: expected a list of texts",
        ),
    ] {
        let found = refusal(schema);
        assert!(found.starts_with(message), "{found}");
    }
    let mut deep = json!({});
    for _ in 0..MOST_DEPTH {
        deep = json!({"items": deep});
    }
    assert!(refusal(deep).ends_with("it is nested too deeply: use $defs"));
}
