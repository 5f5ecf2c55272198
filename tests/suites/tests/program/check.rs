//! `windlass build` and `windlass check`.

use crate::project::{Project, reconciler};
use anyhow::Result;
use serde_json::Value as Json;
use std::time::Duration;
use windlass_harness::guests::{guest, renamed};
use windlass_harness::program::{Finished, Program};

/// Builds wait for each other.
const BUILD: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_component_is_told_with_the_rules_it_needs() -> Result<()> {
    let project = Project::new()?;
    let file = guest("hello");
    let finished = Program::run(project.path(), ["check".as_ref(), file.as_os_str()], SOON)
        .await?
        .expect_code(0)?;
    for expected in [
        "greets the people that ConfigMaps name",
        "windlass:runtime/client@0.1.0",
        "windlass:runtime/reconciler@0.1.0",
        "ConfigMap",
        "hello.windlass.dev/greet",
        "rules:",
        "resources: [configmaps]",
        "watch",
    ] {
        assert!(
            finished.stdout.contains(expected),
            "{expected:?} is not in\n{}",
            finished.stdout
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_component_is_told_to_programs_too() -> Result<()> {
    let project = Project::new()?;
    let file = guest("hello");
    let args = [
        "check".as_ref(),
        file.as_os_str(),
        "--output".as_ref(),
        "json".as_ref(),
    ];
    let finished = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(0)?;
    let told: Json = serde_json::from_str(&finished.stdout)?;
    assert_eq!(told["title"], "greets the people that ConfigMaps name");
    assert_eq!(told["bytes"], std::fs::metadata(&file)?.len());
    Ok(())
}

#[tokio::test]
async fn what_a_component_costs_is_told() -> Result<()> {
    let project = Project::new()?;
    let file = guest("hello");
    let check = async |cache: &str| -> Result<Json> {
        let args = [
            "check".as_ref(),
            file.as_os_str(),
            "--output".as_ref(),
            "json".as_ref(),
            "--cache".as_ref(),
            cache.as_ref(),
        ];
        let finished = Program::run(project.path(), args, SOON).await?;
        Ok(serde_json::from_str(&finished.expect_code(0)?.stdout)?)
    };
    for cache in ["none", "cache"] {
        let told = check(cache).await?;
        assert!(told["compileSeconds"].as_f64() > Some(0.0), "{told}");
        // Memory comes in pages; a guest in Rust has a megabyte of stack.
        let memory = told["memoryBytes"].as_u64().unwrap_or_default();
        assert!(memory >= 1 << 20 && memory % 65536 == 0, "{told}");
    }
    let kept = check("cache").await?;
    assert!(kept["compileSeconds"].is_null(), "{kept}");
    Ok(())
}

#[tokio::test]
async fn rules_alone_can_be_pasted() -> Result<()> {
    let project = Project::new()?;
    let file = guest("hello");
    let args = ["check".as_ref(), file.as_os_str(), "--rules".as_ref()];
    let said = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(0)?
        .stdout;
    let expected = "rules:\n  - {apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, patch], namespaces: [\"*\"]}\n";
    assert_eq!(said, expected);
    // Pasted, they are enough for it to run.
    let spec: String = said.lines().map(|line| format!("  {line}\n")).collect();
    project.write(
        "windlass.yaml",
        format!("apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: hello}}\nspec:\n  guest: {{path: {file:?}}}\n{spec}"),
    )?;
    let seed = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, labels: {hello.windlass.dev/greet: you}}\n";
    project.write("seed/a.yaml", seed)?;
    let args = ["dev", "--exit-when-idle", "--admin", "127.0.0.1:0"];
    Program::run(project.path(), args, SOON)
        .await?
        .expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn the_rules_that_a_reconciler_lacks_are_named() -> Result<()> {
    let project = Project::new()?;
    project.write("hello.wasm", std::fs::read(guest("hello"))?)?;
    let args = ["check", "hello.wasm", "-f", "windlass.yaml"];
    let complete = reconciler("complete", "hello.wasm".as_ref());
    let reads = reconciler("reads", "hello.wasm".as_ref());
    let reads = reads.replace("watch, create, patch]", "watch]");
    project.write_config(&[complete.clone(), reads])?;
    let told = Program::run(project.path(), args, SOON).await?;
    let told = told.expect_code(0)?.stdout;
    let (_, lacks) = told
        .split_once("\nReconciler reads lacks:\n")
        .unwrap_or_default();
    assert!(
        lacks.contains("resources: [configmaps], verbs: [") && lacks.contains("patch"),
        "{told}"
    );
    assert!(lacks.contains("windlass rules"), "{told}");
    assert!(!told.contains("Reconciler complete"), "{told}");

    project.write_config(&[complete])?;
    let json = [&args[..], &["-o", "json"]].concat();
    let told = Program::run(project.path(), json, SOON).await?;
    let told: Json = serde_json::from_str(&told.expect_code(0)?.stdout)?;
    assert_eq!(told["missing"], Json::Array(Vec::new()));
    Ok(())
}

#[tokio::test]
async fn a_custom_resource_is_a_guess_unless_the_seed_defines_it() -> Result<()> {
    let project = Project::new()?;
    let guest = std::fs::read(guest("test-describe"))?;
    project.write(".windlass/guest.wasm", guest)?;
    let check = async || -> Result<String> {
        let args = [
            "check",
            ".",
            "--rules",
            "--config",
            "{\"way\": \"watch-geese\"}",
        ];
        let finished = Program::run(project.path(), args, SOON).await?;
        Ok(finished.expect_code(0)?.stdout)
    };
    let guessed = check().await?;
    assert!(
        guessed.contains("resources: [gooses]") && guessed.contains("is a guess"),
        "{guessed}"
    );
    project.write(
        "seed/eu/geese.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: geese.example.dev}\nspec:\n  \
         group: example.dev\n  names: {kind: Goose, plural: geese}\n",
    )?;
    let known = check().await?;
    assert!(
        known.contains("resources: [geese]") && !known.contains("guess"),
        "{known}"
    );
    Ok(())
}

#[tokio::test]
async fn a_config_is_compared_with_the_schema_that_its_guest_carries() -> Result<()> {
    let project = Project::new()?;
    project.write("hello.wasm", with_greeting_schema()?)?;
    let check = async |config: &str, code: i32| -> Result<Finished> {
        let document = reconciler("hello", "hello.wasm".as_ref());
        project.write_config(&[document.replace("{greeting: hello}", config)])?;
        let args = ["check", "hello.wasm", "-f", "windlass.yaml"];
        Program::run(project.path(), args, SOON)
            .await?
            .expect_code(code)
    };
    check("{greeting: hi}", 0).await?;
    let said = check("{greeting: 3, greting: hi}", 1).await?.stderr;
    for problem in [
        "windlass.yaml:18:22: spec.config.greeting of Reconciler hello: expected a text, found 3\n",
        "windlass.yaml:18:25: unknown field \"greting\" in spec.config of Reconciler hello: did you mean \"greeting\"?\n",
    ] {
        assert!(said.contains(problem), "{problem:?} is not in\n{said}");
    }
    let args = ["check", "hello.wasm", "--config", "{\"greeting\": 3}"];
    let said = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(1)?
        .stderr;
    let problem = "--config:1:14: config.greeting of hello.wasm: expected a text, found 3";
    assert!(said.contains(problem), "{said}");
    Ok(())
}

/// The hello guest, which carries a schema of its config.
pub(crate) fn with_greeting_schema() -> Result<Vec<u8>> {
    let schema = r#"{"type": "object", "additionalProperties": false, "properties": {"greeting": {"type": "string"}}}"#;
    Ok(windlass_sandbox::with_config_schema(
        std::fs::read(guest("hello"))?,
        schema,
    )?)
}

#[tokio::test]
async fn what_is_no_guest_is_refused_with_the_reason_and_what_to_do() -> Result<()> {
    let project = Project::new()?;
    let hello = std::fs::read(guest("hello"))?;
    project.write(
        "foreign.wasm",
        renamed(&hello, "windlass:runtime/log@", "acmecorp:runtime/log@"),
    )?;
    for (file, reason, remedy) in [
        (
            "foreign.wasm",
            "imports acmecorp:runtime/log@0.1.0, which guests are not given",
            "remove what needs it",
        ),
        (
            "nope.wasm",
            "nope.wasm: no such file",
            "a folder that was built",
        ),
        (".", ". was not built yet", "run windlass build ."),
    ] {
        let said = Program::run(project.path(), ["check", file], SOON)
            .await?
            .expect_code(1)?
            .stderr;
        assert!(
            said.contains(reason) && said.contains(remedy),
            "{reason:?} and {remedy:?} are not in\n{said}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_guest_builds_without_any_cargo_configuration() -> Result<()> {
    let project = Project::new()?;
    project.copy_hello("plain")?;
    let built = Program::run(project.path(), ["build", "guest", "-o", "json"], BUILD)
        .await?
        .expect_code(0)?;
    let told: Json = serde_json::from_str(&built.stdout)?;
    let path = told["path"].as_str().unwrap_or_default();
    assert!(
        std::fs::metadata(project.path().join(path))?.len() > 1000,
        "{told}"
    );
    Program::run(project.path(), ["check", path], SOON)
        .await?
        .expect_code(0)?;
    // The folder stands for what was built in it.
    Program::run(project.path(), ["check", "guest"], SOON)
        .await?
        .expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn a_guest_that_does_not_build_is_told_by_the_compiler() -> Result<()> {
    let project = Project::new()?;
    project.copy_hello("broken")?;
    project.write("guest/src/lib.rs", "fn broken( {}")?;
    let said = Program::run(project.path(), ["build", "guest"], BUILD)
        .await?
        .expect_code(1)?
        .stderr;
    assert!(
        said.contains("src/lib.rs:1") && said.contains("the guest does not build"),
        "{said}"
    );
    Ok(())
}
