//! `windlass test --crash` over every guest and example of ours. Entry points: [`Project::all`], which finds those with cases in the folders,
//! and [`WITHOUT`], which says why some have none.

use crate::examples_built::{documents, folder, guests};
use crate::project;
use crate::running::SOON;
use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use windlass_harness::program::Program;
use windlass_harness::repository;

/// Guests and examples without cases, by the names of their folders, each with the reason. Guests that are made to misbehave (`test-*`) have
/// none either.
const WITHOUT: [(&str, &str); 3] = [
    (
        "conformance",
        "makes each call of the contract once, and a second run finds other objects: the suite `languages` compares its calls",
    ),
    (
        "contract-0.1.0",
        "is kept as it was released: `tests/contract` has what it must do",
    ),
    ("reader", "writes nothing: it measures reads"),
];

/// What a folder with the source of a guest has, by language.
const MANIFESTS: [&str; 5] = [
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "go.mod",
    "windlass.toml",
];

/// For the faults of a project. Those at writes are tried first, so that a short time finds most mistakes.
const BUDGET: &str = "3s";

/// A folder with documents and cases.
struct Project {
    folder: PathBuf,
    /// The folders of the guests that its documents name.
    guests: BTreeSet<PathBuf>,
}

fn children(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut all = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    all.sort();
    Ok(all)
}

/// The folders up to two below `guests` and `examples`, without what tools make there.
fn folders() -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for top in ["examples", "guests"] {
        for one in children(&repository().join(top))? {
            if one.is_dir() && !one.ends_with("target") {
                all.extend(children(&one)?);
                all.push(one);
            }
        }
    }
    all.retain(|folder| folder.is_dir());
    Ok(all)
}

/// The files of documents in a folder.
fn files(project: &Path) -> Result<Vec<PathBuf>> {
    let mut files = children(project)?;
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml"));
    Ok(files)
}

impl Project {
    fn all() -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for folder in folders()? {
            if folder.join("tests").is_dir() && folder.join("windlass.yaml").is_file() {
                all.push(Self::of(folder)?);
            }
        }
        Ok(all)
    }

    fn of(of: PathBuf) -> Result<Self> {
        let mut all = BTreeSet::new();
        for file in files(&of)? {
            let text = fs::read_to_string(file)?;
            all.extend(guests(&text).into_iter().map(|path| folder(&of, path)));
        }
        Ok(Self {
            folder: of,
            guests: all,
        })
    }

    /// Whether the tests build its guests anyway.
    fn is_in_rust(&self) -> bool {
        let ours = repository().join("guests");
        self.guests
            .iter()
            .all(|guest| guest.parent() == Some(&*ours))
    }

    /// Its documents with built guests, and its cases, in another folder.
    async fn built(&self) -> Result<project::Project> {
        let copy = project::Project::new()?;
        for file in files(&self.folder)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            copy.write(&name, documents(&file).await?)?;
        }
        for part in ["seed", "tests"] {
            copy_into(&self.folder.join(part), part, &copy)?;
        }
        Ok(copy)
    }

    async fn passes(&self) -> Result<()> {
        let copy = self.built().await?;
        let args = format!("test --crash --seed 1 --budget {BUDGET} -o json");
        // A case has up to hundreds of calls, and is played a few times whatever the budget is.
        let finished = Program::run(copy.path(), args.split(' '), 10 * SOON).await?;
        let report: Json = serde_json::from_str(&finished.expect_code(0)?.stdout)?;
        let cases = report["cases"].as_array().context("cases")?;
        ensure!(!cases.is_empty(), "{report}");
        for case in cases {
            ensure!(case["crash"]["tried"].as_u64() > Some(0), "{report}");
        }
        Ok(())
    }
}

/// Copies a folder, if it is there, with what its links lead to.
fn copy_into(from: &Path, name: &str, copy: &project::Project) -> Result<()> {
    if from.is_file() {
        copy.write(name, fs::read(from)?)?;
    } else if from.is_dir() {
        for child in children(from)? {
            let own = child.file_name().unwrap_or_default().to_string_lossy();
            copy_into(&child, &format!("{name}/{own}"), copy)?;
        }
    }
    Ok(())
}

fn shown(folder: &Path) -> String {
    let below = folder.strip_prefix(repository());
    below.unwrap_or(folder).display().to_string()
}

fn named(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[test]
fn every_guest_and_example_has_cases_or_a_reason_for_none() -> Result<()> {
    let projects = Project::all()?;
    let is_tried = |folder: &Path| {
        let of_it = |project: &Project| {
            project.folder.starts_with(folder) || project.guests.contains(folder)
        };
        projects.iter().any(of_it)
    };
    let is_example = |folder: &Path| folder.parent() == Some(&*repository().join("examples"));
    let has_source = |folder: &Path| MANIFESTS.iter().any(|name| folder.join(name).is_file());
    let is_of_tests = |folder: &Path| named(folder).starts_with("test-");
    let mut reasons: BTreeSet<&str> = WITHOUT.iter().map(|(name, _)| *name).collect();
    for folder in folders()? {
        let counts = is_example(&folder) || has_source(&folder);
        // A workspace of packages, and a library of guests, are no guests.
        let is_library = shown(&folder) == "guests/js" || shown(&folder) == "guests/script";
        if !counts || is_library || is_of_tests(&folder) {
            continue;
        }
        let reason = WITHOUT.iter().find(|(name, _)| *name == named(&folder));
        match reason {
            Some((name, _)) => {
                reasons.remove(name);
                ensure!(!is_tried(&folder), "{} has cases", shown(&folder));
            }
            None => ensure!(is_tried(&folder), "{} has no case", shown(&folder)),
        }
    }
    ensure!(reasons.is_empty(), "there is none of {reasons:?}");
    Ok(())
}

/// Documents for cases differ from those of the example in the clusters, and in what is granted there, alone.
#[test]
fn documents_without_kcp_have_the_reconcilers_of_their_examples() -> Result<()> {
    for example in children(&repository().join("examples"))? {
        let reconcilers = |file: &str| -> Result<Vec<Json>> {
            let text = fs::read_to_string(example.join(file))?;
            let mut all: Vec<Json> = serde_saphyr::from_multiple(&text)?;
            all.retain(|one| one["kind"] == "Reconciler");
            for one in &mut all {
                one["spec"]["rules"] = Json::Null;
            }
            Ok(all)
        };
        if example.join("without-kcp.yaml").is_file() {
            let there = [reconcilers("windlass.yaml")?, reconcilers("dev.yaml")?].concat();
            assert_eq!(
                reconcilers("without-kcp.yaml")?,
                there,
                "{}",
                shown(&example)
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn guests_in_rust_pass_under_faults() -> Result<()> {
    all_pass(Project::is_in_rust).await
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn guests_in_other_languages_pass_under_faults() -> Result<()> {
    all_pass(|project| !project.is_in_rust()).await
}

/// Tries all of them, and says which do not pass.
async fn all_pass(which: impl Fn(&Project) -> bool) -> Result<()> {
    let (mut count, mut failed) = (0, Vec::new());
    for project in Project::all()?.iter().filter(|project| which(project)) {
        count += 1;
        if let Err(error) = project.passes().await {
            failed.push(format!("{}: {error:#}", shown(&project.folder)));
        }
    }
    ensure!(count > 5, "{count} projects");
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}
