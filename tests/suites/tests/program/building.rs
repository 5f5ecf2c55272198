//! `windlass build` over folders of every kind.

use crate::project::Project;
use anyhow::Result;
use serde_json::Value as Json;
use std::time::Duration;
use tokio::process::Command;
use windlass_harness::program::{Output, Program, binary};

/// Builds wait for each other.
const BUILD: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_folder_of_no_language_or_of_several_is_told_with_the_markers() -> Result<()> {
    let project = Project::new()?;
    let said = Program::run(project.path(), ["build"], SOON)
        .await?
        .expect_code(1)?
        .stderr;
    for marker in [
        "Cargo.toml (Rust)",
        "package.json",
        "pyproject.toml",
        "go.mod",
        "guest.c (C)",
    ] {
        assert!(said.contains(marker), "{marker} is not in\n{said}");
    }
    project.write("go.mod", "module demo\n")?;
    project.write("guest.c", "")?;
    let said = Program::run(project.path(), ["build"], SOON)
        .await?
        .expect_code(1)?
        .stderr;
    assert!(
        said.contains("go.mod (Go), guest.c (C)") && said.contains("windlass.toml"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_missing_tool_is_told_with_the_command_that_gets_it() -> Result<()> {
    for (marker, content, tool, remedy) in [
        (
            "Cargo.toml",
            "[package]\nname = \"demo\"\n",
            "rustc",
            "https://rustup.rs",
        ),
        (
            "package.json",
            "{\"main\": \"guest.js\"}",
            "npm",
            "https://nodejs.org",
        ),
        (
            "pyproject.toml",
            "[project]\nname = \"demo\"\n",
            "python3",
            "apt-get install python3-venv",
        ),
        ("go.mod", "module demo\n", "go", "https://go.dev/dl/"),
        ("guest.c", "", "python3", "apt-get install python3-venv"),
    ] {
        let project = Project::new()?;
        project.write(marker, content)?;
        let mut command = Command::new(binary()?);
        command
            .arg("build")
            .current_dir(project.path())
            .env("NO_COLOR", "1")
            .env("PATH", project.path())
            .env("WINDLASS_TOOLS", project.path().join("tools"))
            .env_remove("WASI_SDK_PATH");
        let said = Program::spawn(command)?
            .wait(SOON)
            .await?
            .expect_code(1)?
            .stderr;
        assert!(
            said.contains(&format!("{tool} is needed to build")) && said.contains(remedy),
            "{marker}: {said}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_save_builds_again_and_a_mistake_waits_for_the_next() -> Result<()> {
    let project = Project::new()?;
    project.copy_hello("watched")?;
    let mut program = Program::start(
        project.path(),
        ["build", "guest", "--watch", "--output", "json"],
    )?;
    let first: Json = serde_json::from_str(&program.line_with("digest", BUILD).await?)?;
    let source = std::fs::read_to_string(project.path().join("guest/src/lib.rs"))?;

    let mark = program.line_count();
    project.write("guest/src/lib.rs", "fn broken( {}")?;
    program
        .line_with_from(mark, "the guest does not build", BUILD)
        .await?;

    let mark = program.line_count();
    project.write(
        "guest/src/lib.rs",
        source.replace("greets whom", "greets all whom"),
    )?;
    let second: Json = serde_json::from_str(&program.line_with_from(mark, "digest", BUILD).await?)?;
    assert_ne!(first["digest"], second["digest"]);
    // Whatever tools say, programs find results alone on standard output.
    for line in program.written(Output::Stdout).lines() {
        serde_json::from_str::<Json>(line)?;
    }
    Ok(())
}
