//! From an empty folder to a running reconciler, in each language: `windlass new`, its unit tests, `build`, `check`, `test`, `dev`, and
//! an edit while that runs.

use crate::objects::ConfigMaps;
use crate::project::Project;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::process::Command;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::{Finished, Program, binary, runtime_folder};
use windlass_harness::testenv;

/// Toolchains come from registries the first time.
pub(crate) const BUILD: Duration = Duration::from_secs(900);
const SOON: Duration = Duration::from_secs(60);

/// What makes Python's virtual environments, as Debian calls it: a part of Python that is not everywhere.
pub(crate) const VENV: &str = "python3-venv";

/// One language of `windlass new`.
pub(crate) struct Language {
    /// As `--lang` has it.
    pub(crate) lang: &'static str,
    /// What its projects need on the machine; all else is brought by their builds.
    pub(crate) tools: &'static [&'static str],
    /// What runs a project's unit tests, in a shell.
    unit_tests: &'static str,
    /// What a build says that it runs.
    pub(crate) says: &'static str,
    /// The reconciler.
    pub(crate) source: &'static str,
}

impl Language {
    /// A line for the end of a source, so that no build of this machine had the same before.
    pub(crate) fn stamp(&self) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.unwrap_or_default().as_nanos();
        match self.lang {
            "python" => format!("STAMP = {now}\n"),
            // A bundler leaves out what nobody uses.
            "javascript" | "typescript" => {
                format!("Object.assign(globalThis, {{stamp: \"{now}\"}});\n")
            }
            _ => format!("// {now}\n"),
        }
    }
}

pub(crate) const RUST: Language = Language {
    lang: "rust",
    tools: &["cargo"],
    unit_tests: "cargo test --quiet",
    says: "$ CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-component-ld cargo build --release",
    source: "src/lib.rs",
};

pub(crate) const TYPESCRIPT: Language = Language {
    lang: "typescript",
    tools: &["npm"],
    unit_tests: "npm install --no-audit --no-fund && npm test",
    says: "$ node_modules/.bin/componentize-qjs --wit sdk/wit --world reconcile",
    source: "src/reconciler.ts",
};

pub(crate) const JAVASCRIPT: Language = Language {
    lang: "javascript",
    source: "src/reconciler.js",
    ..TYPESCRIPT
};

pub(crate) const PYTHON: Language = Language {
    lang: "python",
    tools: &["python3", VENV],
    unit_tests: "PYTHONPATH=sdk python3 -W error -m unittest",
    says: "--world reconcile componentize --python-path",
    source: "guest.py",
};

pub(crate) const C: Language = Language {
    lang: "c",
    // Without a clang that can, zig is brought, by Python.
    tools: &["cc", "make", "python3", VENV],
    unit_tests: "make test",
    says: "-mexec-model=reactor -std=c17",
    source: "guest.c",
};

pub(crate) const GO: Language = Language {
    lang: "go",
    tools: &["go"],
    unit_tests: "go vet ./... && go test ./...",
    says: "$ GOARCH=wasm GOOS=wasip1 go build -buildmode=c-shared",
    source: "main.go",
};

#[tokio::test]
async fn a_guest_in_rust_runs_from_an_empty_folder() -> Result<()> {
    from_an_empty_folder(&RUST).await
}

#[tokio::test]
async fn a_guest_in_typescript_runs_from_an_empty_folder() -> Result<()> {
    from_an_empty_folder(&TYPESCRIPT).await
}

#[tokio::test]
async fn a_guest_in_javascript_runs_from_an_empty_folder() -> Result<()> {
    from_an_empty_folder(&JAVASCRIPT).await
}

#[tokio::test]
async fn a_guest_in_python_runs_from_an_empty_folder() -> Result<()> {
    from_an_empty_folder(&PYTHON).await
}

#[tokio::test]
async fn a_guest_in_c_runs_from_an_empty_folder() -> Result<()> {
    from_an_empty_folder(&C).await
}

#[tokio::test]
async fn a_guest_in_go_runs_from_an_empty_folder() -> Result<()> {
    from_an_empty_folder(&GO).await
}

async fn from_an_empty_folder(language: &Language) -> Result<()> {
    let what = format!("a guest in {} from an empty folder", language.lang);
    if !has_tools(language.tools, &what) {
        return Ok(());
    }
    let outside = Project::new()?;
    // A project stands by itself wherever it is made.
    outside.write("Cargo.toml", "[workspace]\nmembers = []\n")?;
    let made = windlass(outside.path(), ["new", "demo", "--lang", language.lang]).await?;
    let made = made.expect_code(0)?.stdout;
    assert!(
        made.contains("cd demo") && made.contains("windlass dev"),
        "{made}"
    );
    let folder = outside.path().join("demo");

    run(&folder, "sh", ["-c", language.unit_tests])
        .await?
        .expect_code(0)?;
    let source = folder.join(language.source);
    std::fs::write(
        &source,
        std::fs::read_to_string(&source)? + &language.stamp(),
    )?;
    let built = windlass(&folder, ["build"]).await?.expect_code(0)?;
    assert!(built.stderr.contains(language.says), "{}", built.stderr);
    assert!(
        built.stdout.contains(".windlass/guest.wasm"),
        "{}",
        built.stdout
    );
    let checked = windlass(&folder, ["check", "."])
        .await?
        .expect_code(0)?
        .stdout;
    for expected in [
        "greets the people that ConfigMaps name",
        "hello.windlass.dev/greet",
        "resources: [configmaps]",
    ] {
        assert!(
            checked.contains(expected),
            "{expected:?} is not in\n{checked}"
        );
    }
    let tested = windlass(&folder, ["test"]).await?.expect_code(0)?.stdout;
    assert!(
        tested.contains("greets") && tested.contains("passed"),
        "{tested}"
    );
    let idle = [
        "dev",
        "--admin",
        "127.0.0.1:0",
        "--exit-when-idle",
        "--output",
        "json",
    ];
    let ran = windlass(&folder, idle).await?.expect_code(0)?.stdout;
    let report: serde_json::Value = serde_json::from_str(&ran)?;
    let clusters = report["clusters"].as_array().context("clusters")?;
    assert!(
        clusters.len() == 3
            && clusters
                .iter()
                .all(|cluster| cluster["changes"].as_u64() >= Some(1)),
        "{report}"
    );
    an_edit_takes_over(&folder, language).await?;
    // Nothing but what version control should have lies about.
    let ignored = std::fs::read_to_string(folder.join(".gitignore"))?;
    assert!(ignored.contains(".windlass"), "{ignored}");
    let credentials = std::fs::read_to_string(folder.join("clusters/.gitignore"))?;
    assert!(
        credentials.lines().any(|line| line == "*"),
        "what is put into clusters/ is committed: {credentials}"
    );
    Ok(())
}

/// That what is saved while `windlass dev` runs is built and takes over, for what was done before too.
async fn an_edit_takes_over(folder: &Path, language: &Language) -> Result<()> {
    let args = ["dev", "--admin", "127.0.0.1:0"];
    let mut program = Program::spawn(command(folder, binary()?, args))?;
    program.line_with("admin endpoints", BUILD).await?;
    let kubeconfig = folder.join(".windlass/kubeconfig");
    let alpha = ConfigMaps::in_context(&kubeconfig, "alpha").await?;
    alpha.expect_greeted("crew").await?;
    let source = folder.join(language.source);
    let text = std::fs::read_to_string(&source)?;
    std::fs::write(&source, text.replace("hello, ", "good day, "))?;
    eventually(BUILD, "the edited guest to take over", || async {
        Ok(Seen::of(alpha.greeting("crew").await?, |seen| {
            seen.as_deref() == Some("good day, world, from alpha")
        }))
    })
    .await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn a_tool_that_the_package_index_does_not_give_is_told() -> Result<()> {
    if !has_tools(PYTHON.tools, "a package index that nobody reaches") {
        return Ok(());
    }
    let outside = Project::new()?;
    windlass(outside.path(), ["new", "demo", "--lang", "python"])
        .await?
        .expect_code(0)?;
    let build = format!(
        "WINDLASS_TOOLS=$PWD/tools PIP_NO_INDEX=1 PIP_FIND_LINKS= {} build demo",
        binary()?.display()
    );
    let refused = run(outside.path(), "sh", ["-c", &build]).await?;
    let said = refused.expect_code(1)?.stderr;
    assert!(
        said.contains("is needed to build") && said.contains("was not downloaded: see the error"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_guest_in_python_has_packages_of_its_environment_and_none_of_the_machine() -> Result<()> {
    if !has_tools(PYTHON.tools, "packages of a guest in Python") {
        return Ok(());
    }
    let outside = Project::new()?;
    windlass(outside.path(), ["new", "demo", "--lang", "python"])
        .await?
        .expect_code(0)?;
    let folder = outside.path().join("demo");
    // A Python that has a package stands for the machine's. The checker of types does not see this import.
    let given = "python3 -m venv --without-pip ../machine &&
        echo \"__import__('given')\" >> guest.py &&
        ln -s \"$(echo $PWD/../machine/lib/python3*/site-packages)/given.py\" ../given.py";
    run(&folder, "sh", ["-c", given]).await?.expect_code(0)?;
    let package = outside.path().join("given.py");
    std::fs::write(&package, PYTHON.stamp())?;
    let program = binary()?;
    let build = async |before: &str| {
        let line = format!("{before} {} build", program.display());
        run(&folder, "sh", ["-c", &line]).await
    };
    let machine = "unset VIRTUAL_ENV; PATH=$PWD/../machine/bin:$PATH";
    let active = "VIRTUAL_ENV=$PWD/../machine";
    let refused = build(machine).await?;
    assert!(
        refused.stderr.contains("No module named 'given'"),
        "{}",
        refused.stderr
    );
    // The checker of types finds it in the environment.
    let seen = "echo 'import given' >> guest.py";
    run(&folder, "sh", ["-c", seen]).await?.expect_code(0)?;
    let is_made = async || {
        let built = build(active).await?.expect_code(0)?;
        anyhow::Ok(built.stderr.contains(PYTHON.says))
    };
    assert!(is_made().await? && !is_made().await?);
    std::fs::write(&package, PYTHON.stamp())?;
    assert!(is_made().await?, "the environment has changed");
    let refused = build(machine).await?;
    let refused = refused.expect_code(1)?.stderr;
    let by_either = ["No module named 'given'", "Cannot find module `given`"];
    assert!(
        by_either.iter().any(|said| refused.contains(said)),
        "{refused}"
    );
    Ok(())
}

/// Whether the machine has these tools, which `what` needs. A run that asked for everything must not pass without.
pub(crate) fn has_tools(tools: &[&str], what: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = |tool: &&str| match *tool {
        VENV => has_venv(),
        tool => std::env::split_paths(&paths).any(|folder| folder.join(tool).is_file()),
    };
    let Some(missing) = tools.iter().find(|tool| !found(tool)) else {
        return true;
    };
    assert!(
        std::env::var(testenv::VARIABLE).is_err(),
        "{missing} is needed to try {what}"
    );
    // Not `eprintln!`: the test framework would swallow it, as the test passes.
    let line = format!("NOT RUN: {what} (needs {missing})\n");
    drop(std::io::stderr().write_all(line.as_bytes()));
    false
}

fn has_venv() -> bool {
    let mut python = std::process::Command::new("python3");
    let asked = python.args(["-c", "import ensurepip, venv"]).output();
    asked.is_ok_and(|output| output.status.success())
}

/// Runs the program as [`run`] runs tools.
pub(crate) async fn windlass<A: AsRef<OsStr>>(
    folder: &Path,
    args: impl IntoIterator<Item = A>,
) -> Result<Finished> {
    let program = binary()?;
    run(folder, program.as_os_str(), args).await
}

/// Runs a tool to its end.
async fn run<A: AsRef<OsStr>>(
    folder: &Path,
    tool: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
) -> Result<Finished> {
    Program::spawn(command(folder, tool, args))?
        .wait(BUILD)
        .await
}

/// A tool as a user's shell would run it, with what toolchains download and build kept below `target`, for the next run.
pub(crate) fn command<A: AsRef<OsStr>>(
    folder: &Path,
    tool: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new(tool);
    command
        .args(args)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env("XDG_RUNTIME_DIR", runtime_folder())
        .env_remove("KUBECONFIG")
        .env_remove("WINDLASS_LOG")
        .env("CARGO_TARGET_DIR", kept("rust"))
        .env("WINDLASS_TOOLS", kept("tools"))
        .env("npm_config_cache", kept("npm"))
        .env("npm_config_prefer_offline", "true")
        .env("ZIG_GLOBAL_CACHE_DIR", kept("zig"));
    command
}

/// Where toolchains keep what they download and build.
pub(crate) fn kept(name: &str) -> PathBuf {
    windlass_harness::repository()
        .join("target/toolchains")
        .join(name)
}
