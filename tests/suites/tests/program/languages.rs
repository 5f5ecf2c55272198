//! The languages of `windlass new`, and how their tools and the program are run in a project. Entry points: [`windlass`] and [`command`].

use crate::project::Project;
use anyhow::Result;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::process::Command;
use windlass_harness::program::{Finished, Program, binary, runtime_folder};

/// Toolchains come from registries the first time.
pub(crate) const BUILD: Duration = Duration::from_secs(900);

/// One language of `windlass new`.
pub(crate) struct Language {
    /// As `--lang` has it.
    pub(crate) lang: &'static str,
    /// What runs a project's unit tests, in a shell.
    pub(crate) unit_tests: &'static str,
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
    unit_tests: "cargo test --quiet",
    says: "$ CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-component-ld cargo build --release",
    source: "src/lib.rs",
};

pub(crate) const TYPESCRIPT: Language = Language {
    lang: "typescript",
    unit_tests: "npm install --no-audit --no-fund && npm test",
    says: "$ node_modules/.bin/componentize-qjs --wit .windlass/build/wit --world in-javascript",
    source: "src/reconciler.ts",
};

pub(crate) const JAVASCRIPT: Language = Language {
    lang: "javascript",
    source: "src/reconciler.js",
    ..TYPESCRIPT
};

pub(crate) const PYTHON: Language = Language {
    lang: "python",
    unit_tests: "PYTHONPATH=sdk python3 -W error -m unittest",
    says: "--world reconcile componentize --python-path",
    source: "guest.py",
};

pub(crate) const C: Language = Language {
    lang: "c",
    unit_tests: "make test",
    says: "-mexec-model=reactor -std=c17",
    source: "guest.c",
};

pub(crate) const GO: Language = Language {
    lang: "go",
    unit_tests: "go vet ./... && go test ./...",
    says: "$ GOARCH=wasm GOOS=wasip1 go build -buildmode=c-shared",
    source: "main.go",
};

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn a_tool_that_the_package_index_does_not_give_is_told() -> Result<()> {
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

/// Runs the program as [`run`] runs tools.
pub(crate) async fn windlass<A: AsRef<OsStr>>(
    folder: &Path,
    args: impl IntoIterator<Item = A>,
) -> Result<Finished> {
    let program = binary()?;
    run(folder, program.as_os_str(), args).await
}

/// Runs a tool to its end.
pub(crate) async fn run<A: AsRef<OsStr>>(
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
