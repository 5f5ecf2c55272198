//! A new project: its unit tests, its component, here and elsewhere, and all that runs it to an end.

use super::{Journey, Walk};
use crate::languages::{Language, run, windlass};
use crate::project::Project;
use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes a project, whose name no other test's has: builds in Rust share a folder.
pub(super) async fn new_in(around: &Path, language: &Language) -> Result<PathBuf> {
    let name = format!("journey-{}", language.lang);
    let new = ["new", &name, "--lang", language.lang];
    let made = windlass(around, new).await?.expect_code(0)?.stdout;
    ensure!(
        made.contains(&format!("cd {name}")) && made.contains("windlass dev"),
        "{made}"
    );
    let folder = around.join(name);
    // Nothing but what version control should have lies about.
    let ignored = fs::read_to_string(folder.join(".gitignore"))?;
    ensure!(ignored.contains(".windlass"), "{ignored}");
    let credentials = fs::read_to_string(folder.join("clusters/.gitignore"))?;
    ensure!(
        credentials.lines().any(|line| line == "*"),
        "what is put into clusters/ is committed: {credentials}"
    );
    Ok(folder)
}

/// The same source in another folder is the same component.
pub(super) async fn elsewhere(walk: &Walk, stamped: &str, digest: &Json) -> Result<()> {
    let outside = Project::new()?;
    outside.write("another/deeper place/.keep", "")?;
    let around = outside.path().join("another/deeper place");
    let folder = new_in(&around, &walk.language).await?;
    fs::write(folder.join(walk.language.source), stamped)?;
    let built = build_as_json(&folder).await?.1;
    ensure!(built["digest"] == *digest, "{built} and {digest}");
    Ok(())
}

/// What a build says beside its result, and the result.
async fn build_as_json(folder: &Path) -> Result<(String, Json)> {
    let built = windlass(folder, ["build", "--output", "json"]).await?;
    let built = built.expect_code(0)?;
    Ok((built.stderr, serde_json::from_str(&built.stdout)?))
}

impl Journey {
    pub(super) async fn unit_tests_pass(&self) -> Result<()> {
        let unit_tests = self.walk.language.unit_tests;
        run(&self.folder, "sh", ["-c", unit_tests])
            .await?
            .expect_code(0)?;
        Ok(())
    }

    /// Builds a source that no build of this machine had before, and returns the digest of the component.
    pub(super) async fn builds(&self, stamped: &str) -> Result<Json> {
        self.save(stamped)?;
        let (said, built) = build_as_json(&self.folder).await?;
        ensure!(said.contains(self.walk.language.says), "{said}");
        let path = built["path"].as_str().unwrap_or_default();
        ensure!(path.ends_with(".windlass/guest.wasm"), "{built}");
        ensure!(built["digest"].is_string(), "{built}");
        Ok(built["digest"].clone())
    }

    pub(super) async fn checks_and_runs(&self) -> Result<()> {
        let checked = self.run(["check", "."]).await?.expect_code(0)?.stdout;
        for expected in [
            "greets the people that ConfigMaps name",
            "hello.windlass.dev/greet",
            "resources: [configmaps]",
        ] {
            ensure!(
                checked.contains(expected),
                "{expected:?} is not in\n{checked}"
            );
        }
        let tested = self.run(["test"]).await?.expect_code(0)?.stdout;
        ensure!(
            tested.contains("greets") && tested.contains("passed"),
            "{tested}"
        );
        let idle = "dev --admin 127.0.0.1:0 --exit-when-idle --output json";
        let ran = self.run(idle.split(' ')).await?.expect_code(0)?.stdout;
        let report: Json = serde_json::from_str(&ran)?;
        let clusters = report["clusters"].as_array().context("clusters")?;
        ensure!(
            clusters.len() == 3
                && clusters
                    .iter()
                    .all(|cluster| cluster["changes"].as_u64() >= Some(1)),
            "{report}"
        );
        Ok(())
    }
}
