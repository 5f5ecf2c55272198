//! The definitions are whole, and refuse what the program refuses.

use super::*;
use crate::config::kinds::Identity;
use crate::config::load::read_object;
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct Case {
    kind: String,
    spec: Json,
}

fn cases(text: &str) -> Vec<Case> {
    serde_json::from_str(text).unwrap()
}

fn read(case: &Case) -> Result<(), String> {
    let kind = Kind::parse(&case.kind).unwrap();
    let name = match kind {
        Kind::Reconciler => "team-a/x",
        _ => "x",
    };
    let name = name.to_owned();
    let read = read_object(&Identity { kind, name }, Some(&case.spec));
    read.map(drop).map_err(|problem| problem.to_string())
}

#[test]
fn the_program_refuses_what_servers_are_to_refuse() {
    let all = cases(include_str!("refused.json"));
    assert!(all.len() > 50, "{}", all.len());
    for case in all {
        assert!(read(&case).is_err(), "{} {}", case.kind, case.spec);
    }
}

#[test]
fn the_program_takes_what_servers_are_to_take() {
    for case in cases(include_str!("taken.json")) {
        assert_eq!(read(&case), Ok(()), "{} {}", case.kind, case.spec);
    }
}

fn schema(definition: &Json) -> &Json {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// The fields of a value as the program writes it, and those of its schema.
#[test]
fn every_field_of_a_type_is_in_its_definition() {
    let definitions = definitions().unwrap();
    let written = [
        serde_json::to_value(ProviderSpec::default()).unwrap(),
        serde_json::to_value(TenantSpec::default()).unwrap(),
        serde_json::to_value(ReconcilerSpec::default()).unwrap(),
    ];
    for (definition, value) in definitions.iter().zip(written) {
        let spec = &schema(definition)["properties"]["spec"];
        let known = rules::fields(spec).unwrap();
        for (field, _) in value.as_object().unwrap() {
            assert!(known.contains_key(field), "{field}");
        }
        assert!(known.len() >= value.as_object().unwrap().len());
    }
}

/// The keywords of a schema and of all schemas in it.
fn walk(schema: &Json, path: &str, visit: &mut impl FnMut(&str, &Json)) {
    visit(path, schema);
    for (name, field) in rules::fields(schema).into_iter().flatten() {
        walk(field, &format!("{path}.{name}"), visit);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            walk(&schema[inner], &format!("{path}[]"), visit);
        }
    }
}

#[test]
fn schemas_are_structural_bounded_and_described() {
    let mut fields = 0;
    for definition in definitions().unwrap() {
        walk(schema(&definition), "", &mut |path, schema| {
            fields += 1;
            let keys: BTreeSet<&str> = schema
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            for key in ["$ref", "anyOf", "oneOf", "allOf", "not", "$defs", "const"] {
                assert!(!keys.contains(key), "{path} has {key}");
            }
            let typed = schema["type"].is_string() || keys.contains("x-kubernetes-int-or-string");
            assert!(typed, "{path} has no type: {schema}");
            if schema["type"] == "array" {
                assert!(schema["maxItems"].is_u64(), "{path} has no bound");
            }
            let in_spec = path.starts_with(".spec") || path.starts_with(".status");
            if in_spec && !path.ends_with("[]") {
                let described = schema["description"]
                    .as_str()
                    .is_some_and(|text| text.len() > 3);
                assert!(described, "{path} has no description");
            }
        });
    }
    assert!(fields > 200, "{fields}");
}

#[test]
fn every_bound_and_rule_is_about_a_type_of_some_kind() {
    let text: String = definitions().unwrap().iter().map(Json::to_string).collect();
    for message in rules::messages() {
        assert!(text.contains(message), "no kind has the rule: {message}");
    }
    let generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let mut types: BTreeSet<String> = BTreeSet::new();
    for root in [
        generator.clone().into_root_schema_for::<ProviderSpec>(),
        generator.clone().into_root_schema_for::<TenantSpec>(),
        generator.clone().into_root_schema_for::<ReconcilerSpec>(),
        generator.into_root_schema_for::<ManagerSpec>(),
    ] {
        let root = root.to_value();
        types.extend(root["$defs"].as_object().unwrap().keys().cloned());
        types.insert(root["title"].as_str().unwrap_or_default().to_owned());
    }
    for name in rules::types() {
        assert!(types.contains(name), "no kind has the type {name}");
    }
}

/// The rows of the reference about the fields of a schema: what it is, its default, and its range.
fn rows(path: &str, schema: &Json, all: &mut BTreeSet<String>) {
    let required = schema["required"].as_array();
    for (name, field) in rules::fields(schema).into_iter().flatten() {
        let text = field["description"].as_str().unwrap_or_default();
        let (text, range) = text.split_once(" Range: ").unwrap_or((text, ""));
        let is_required = required.is_some_and(|names| names.iter().any(|of| of == name));
        let otherwise = if is_required { "required" } else { "" };
        let (what, default) = text.split_once(" Default: ").unwrap_or((text, otherwise));
        let [default, range] = [default, range].map(|text| text.trim_end_matches('.'));
        let own = format!("{path}.{name}");
        all.insert(format!("| `{own}` | {what} | {default} | {range} |"));
        match &field["items"] {
            _ if name == "perReconciler" => {} // The fields of a Reconciler's limits.
            Json::Null => rows(&own, field, all),
            items => rows(&format!("{own}[]"), items, all),
        }
    }
}

#[test]
fn the_reference_has_every_field() {
    let page = include_str!("../../../../../docs/configuration.md");
    let specs = [
        (Kind::Manager, manager_schema()),
        (Kind::Provider, structural::<ProviderSpec>()),
        (Kind::Tenant, structural::<TenantSpec>()),
        (Kind::Reconciler, structural::<ReconcilerSpec>()),
    ];
    let mut wrong = Vec::new();
    for (kind, schema) in specs {
        let mut wanted = BTreeSet::new();
        rows("spec", &schema.unwrap(), &mut wanted);
        let heading = format!("{kind}\n");
        let section = page.split("\n## ").find(|text| text.starts_with(&heading));
        let there = section.unwrap_or_default().lines();
        let there = there.filter(|line| line.starts_with("| `"));
        let there: BTreeSet<String> = there.map(str::to_owned).collect();
        let differ = there.symmetric_difference(&wanted);
        wrong.extend(differ.map(|row| format!("{kind}: {row}")));
    }
    let wrong = wrong.join("\n");
    assert!(
        wrong.is_empty(),
        "docs/configuration.md lacks these, or has them for no field:\n{wrong}"
    );
}

/// The values of the chart, and the part of them that is a Manager's spec.
fn chart_schema() -> Json {
    let text = include_str!("../../../../../charts/windlass/values.schema.json");
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_chart_has_the_managers_schema() {
    let generated = manager_schema().unwrap();
    let has = &chart_schema()["properties"]["manager"];
    assert_eq!(*has, generated, "run charts/generate");
}

#[test]
fn no_mapping_of_the_managers_schema_takes_unknown_fields() {
    let mut mappings = 0;
    walk(
        &manager_schema().unwrap(),
        "manager",
        &mut |path, schema| {
            if schema["type"] != "object" {
                return;
            }
            mappings += 1;
            let rest = &schema["additionalProperties"];
            let expected = if schema["properties"].is_object() {
                *rest == false
            } else {
                rest.is_object()
            };
            assert!(expected, "{path} takes unknown fields: {rest}");
        },
    );
    assert!(mappings > 10, "{mappings}");
}

/// Whether the chart takes values for the Manager, and whether the Manager takes them as its spec.
fn takes(spec: &Json) -> (bool, bool) {
    let schema = manager_schema().unwrap().to_string();
    let schema = crate::config::schema::Schema::parse(&schema).unwrap();
    let identity = Identity {
        kind: Kind::Manager,
        name: "manager".to_owned(),
    };
    let by_process = read_object(&identity, Some(spec)).is_ok();
    (schema.check(spec).is_empty(), by_process)
}

#[test]
fn the_chart_refuses_what_the_manager_refuses() {
    let refused = [
        json!({"concurency": {"global": 5}}),
        json!({"concurrency": {"globl": 5}}),
        json!({"concurrency": {"global": 0}}),
        json!({"concurrency": {"global": "many"}}),
        json!({"concurrency": {"kinds": {"Deployment.apps": 0}}}),
        json!({"admin": {"address": "localhost:8080"}}),
        json!({"admin": {"authentication": "Password"}}),
        json!({"admin": {"audiences": [""]}}),
        json!({"admin": {"allowHosts": ["https://x"]}}),
        json!({"drainTimeout": 30}),
        json!({"drainTimeout": "soon"}),
        json!({"transport": {"requestsInFlight": 0}}),
        json!({"transport": {"requestsPerSecond": 1_000_001}}),
        json!({"transport": {"maxAnswer": "64MB"}}),
        json!({"caches": {"page": 10_001}}),
        json!({"metrics": {"clusters": 100_001}}),
        json!({"leaderElection": {"enabled": "yes"}}),
        json!({"leaderElection": {"name": ""}}),
        json!({"sharding": {"name": "a.b"}}),
        json!({"sharding": {"weight": 0}}),
        json!({"sharding": {"shards": 1025}}),
        json!({"registries": {"plainHttp": ["http://registry:5000"]}}),
        json!({"guests": {"hello": {}}}),
        json!({"guests": {"hello": {"path": "a.wasm", "digest": "x"}}}),
        json!({"accessProviders": [{"name": "x"}]}),
        json!({"accessProviders": [{"name": "x", "execConfig": {"command": "x", "arg": []}}]}),
    ];
    for spec in refused {
        assert_eq!(takes(&spec), (false, false), "{spec}");
    }
    let taken = [
        json!({}),
        json!({"concurrency": {"global": 5, "kinds": {"Deployment.apps": 2}}}),
        json!({"admin": {"address": "[::]:8080", "metricsAuthentication": "Token", "audiences": ["a"]}}),
        json!({"drainTimeout": "1m30s", "transport": {"maxAnswer": 67_108_864, "maxEvent": "8Mi"}}),
        json!({"leaderElection": {"enabled": true, "leaseDuration": "30s", "renewDeadline": "20s"}}),
        json!({"sharding": {"enabled": true, "name": "fleet", "weight": 30, "shards": 1024, "leaseDuration": "30s"}}),
        json!({"registries": {"plainHttp": ["registry.test:5000"], "certificateAuthority": "/ca.pem"}}),
        json!({"guests": {"hello": {"path": "/guests/hello.wasm"}}}),
        json!({"accessProviders": [{
            "name": "x", "profileSourcedCLIArgsPolicy": "Append",
            "execConfig": {"command": "x", "args": ["y"], "env": [{"name": "A", "value": "b"}]},
        }]}),
    ];
    for spec in taken {
        assert_eq!(takes(&spec), (true, true), "{spec}");
    }
}
