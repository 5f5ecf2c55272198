//! `windlass build` over folders of every kind.

use crate::project::{Project, reconciler};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tokio::process::Command;
use windlass_harness::eventually::{Seen, eventually};
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
        project.write("guest.py", "")?;
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
    let source = fs::read_to_string(project.path().join("guest/src/lib.rs"))?;

    let mark = program.line_count();
    project.write("guest/src/lib.rs", "fn broken( {}")?;
    program
        .line_with_from(mark, "the guest does not build", BUILD)
        .await?;

    let mark = program.line_count();
    project.write(
        "guest/src/lib.rs",
        source.replace("greets the people", "greets all people"),
    )?;
    let second: Json = serde_json::from_str(&program.line_with_from(mark, "digest", BUILD).await?)?;
    assert_ne!(first["digest"], second["digest"]);
    // Whatever tools say, programs find results alone on standard output.
    for line in program.written(Output::Stdout).lines() {
        serde_json::from_str::<Json>(line)?;
    }
    Ok(())
}

/// A project whose `go` does in a build what a test says.
struct Tooled(Project);

/// Starts a child, notes that child's id in `children`, and waits for it for ever.
const ENDLESS: &str = "sleep 1000 &\necho $! >>../children\nwait\n";

impl Tooled {
    fn new(build: &str) -> Result<Self> {
        let project = Project::new()?;
        project.write("guest/go.mod", "module demo\n")?;
        let go = format!("#!/bin/sh\ncase $1 in env) echo go1.26.8; exit ;; esac\n{build}");
        let go = project.write("bin/go", go)?;
        fs::set_permissions(go, PermissionsExt::from_mode(0o755))?;
        project.write("children", "")?;
        Ok(Self(project))
    }

    fn start(&self, args: &[&str]) -> Result<Program> {
        let path = std::env::var("PATH")?;
        let bin = self.0.path().join("bin");
        let mut command = Command::new(binary()?);
        command
            .args(args)
            .current_dir(self.0.path())
            .env("NO_COLOR", "1")
            .env_remove("WINDLASS_LOG")
            .env("PATH", format!("{}:{path}", bin.display()));
        Program::spawn(command)
    }

    /// The children of the builds that have begun, once there are so many.
    async fn children(&self, count: usize) -> Result<Vec<String>> {
        let began = eventually(SOON, "a build to begin", || async {
            let children = fs::read_to_string(self.0.path().join("children"))?;
            let children: Vec<String> = children.lines().map(str::to_owned).collect();
            Ok(Seen::of(children, |children| children.len() >= count))
        });
        began.await
    }
}

/// Waits until a process has ended, whether or not somebody has asked how.
async fn ended(process: &str) -> Result<()> {
    eventually(SOON, &format!("the end of {process}"), || async {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        Ok(Seen::of(stat, |stat| {
            stat.is_empty() || stat.contains(") Z ")
        }))
    })
    .await
    .map(drop)
}

#[tokio::test]
async fn a_build_that_is_stopped_ends_with_all_that_its_tool_started() -> Result<()> {
    for (args, signal, code) in [
        (["build", "guest"].as_slice(), "INT", 1),
        (&["build", "guest", "--watch"], "TERM", 0),
        (&["dev"], "INT", 0),
        (&["test"], "TERM", 1),
    ] {
        let endless = Tooled::new(ENDLESS)?;
        let project = &endless.0;
        project.write_config(&[reconciler("endless", "./guest".as_ref())])?;
        let expected = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        project.write("tests/one/expect/alpha/a.yaml", expected)?;
        let program = endless.start(args)?;
        let children = endless.children(1).await?;
        program.signal(signal)?;
        let finished = program.wait(SOON).await?;
        finished
            .expect_code(code)
            .with_context(|| format!("{args:?}"))?;
        ended(&children[0]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_save_stops_the_build_of_what_was_there_before() -> Result<()> {
    let endless = Tooled::new(ENDLESS)?;
    let program = endless.start(&["build", "guest", "--watch"])?;
    endless.children(1).await?;
    endless.0.write("guest/main.go", "package main\n")?;
    let children = endless.children(2).await?;
    ended(&children[0]).await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    ended(&children[1]).await?;
    Ok(())
}

#[tokio::test]
async fn a_build_that_writes_into_its_source_comes_to_an_end() -> Result<()> {
    let writing = Tooled::new("echo \"// $$\" >written.go\nsleep 1\nexit 1\n")?;
    let mut program = writing.start(&["build", "guest", "--watch"])?;
    program.line_with("the guest does not build", SOON).await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}
