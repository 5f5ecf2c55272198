//! A new project of a kind: its tests, its rules, which are those that it needs, and its types, which are those of its definition.

use super::Journey;
use crate::languages::run;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

impl Journey {
    pub(super) async fn of_a_kind(&self) -> Result<()> {
        let language = &self.walk.language;
        let name = format!("kind-{}", language.lang);
        let kind = format!("my.group/v1/{}", self.walk.kind);
        let new = ["new", &name, "--lang", language.lang, "--kind", &kind];
        let around = self.outside.path();
        self.run_in(around, new).await?.expect_code(0)?;
        let folder = around.join(name);
        run(&folder, "sh", ["-c", language.unit_tests])
            .await?
            .expect_code(0)?;

        // Its rules are what `rules` finds for its tests.
        let documents = folder.join("windlass.yaml");
        let before = fs::read_to_string(&documents)?;
        let (rest, _) = before.split_once("  rules:\n").context("rules")?;
        fs::write(&documents, format!("{rest}  rules: []\n"))?;
        let rules = ["rules", "--write"];
        self.run_in(&folder, rules).await?.expect_code(0)?;
        let found = fs::read_to_string(&documents)?;
        ensure!(found == before, "{found}\nand not\n{before}");
        let tested = self.run_in(&folder, ["test"]).await?.expect_code(0)?.stdout;
        ensure!(
            tested.contains("life") && tested.contains("passed"),
            "{tested}"
        );
        let checked = self.run_in(&folder, ["check", "."]).await?;
        let checked = checked.expect_code(0)?.stdout;
        let primary = format!("primary   {kind}");
        ensure!(checked.contains(&primary), "{checked}");

        let before = sources(&folder)?;
        let types = ["types", "seed/crd.yaml"];
        self.run_in(&folder, types).await?.expect_code(0)?;
        ensure!(sources(&folder)? == before, "other types than of `new`");
        Ok(())
    }
}

/// The files of a project, but for its SDK and what tools make.
fn sources(folder: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_source = matches!(&*name, "src" | "types") || path.is_file();
        if path.is_dir() && is_source {
            files.extend(sources(&path)?);
        } else if is_source {
            files.insert(path.clone(), fs::read_to_string(path)?);
        }
    }
    Ok(files)
}
