//! `windlass build` and `windlass check`.

use crate::project::Project;
use anyhow::Result;
use serde_json::Value as Json;
use std::time::Duration;
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

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
        "greets whom ConfigMaps ask to greet",
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
    assert_eq!(told["title"], "greets whom ConfigMaps ask to greet");
    assert_eq!(told["bytes"], std::fs::metadata(&file)?.len());
    Ok(())
}

#[tokio::test]
async fn what_is_no_guest_is_refused_with_the_reason() -> Result<()> {
    let project = Project::new()?;
    project.write("empty.wasm", b"\0asm\x0d\0\x01\0")?;
    project.write("text.wasm", "hello")?;
    for (file, expected) in [
        ("empty.wasm", "windlass:runtime/reconciler"),
        ("text.wasm", "text.wasm"),
        ("nope.wasm", "nope.wasm: no such file"),
    ] {
        let said = Program::run(project.path(), ["check", file], SOON)
            .await?
            .expect_code(1)?
            .stderr;
        assert!(said.contains(expected), "{expected:?} is not in\n{said}");
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
