//! This repository keeps its own rules: one test per rule.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use windlass_tidy::{Finding, Repository, check};

fn holds(rule: fn(&Repository) -> Vec<Finding>) -> Result<()> {
    let mut findings = rule(&load()?);
    findings.sort();
    findings.dedup();
    let list: String = findings
        .iter()
        .map(|finding| format!("{finding}\n"))
        .collect();
    ensure!(findings.is_empty(), "{} findings:\n{list}", findings.len());
    Ok(())
}

fn load() -> Result<Repository> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    Repository::load(
        manifest
            .ancestors()
            .nth(2)
            .context("find the repository's root")?,
    )
}

#[test]
fn the_repository_is_read() -> Result<()> {
    let repository = load()?;
    assert!(
        repository
            .rust_file("tests/tidy/tests/repository.rs")
            .is_some()
    );
    assert!(repository.paths.iter().any(|path| path == "Cargo.toml"));
    Ok(())
}

#[test]
fn files_are_headed_named_and_short() -> Result<()> {
    for (path, lines) in check::files::long(&load()?) {
        println!("{path}: {lines} lines, think about splitting it");
    }
    holds(check::files::check)
}

#[test]
fn every_file_is_compiled() -> Result<()> {
    holds(check::linked::check)
}

#[test]
fn modules_point_one_way() -> Result<()> {
    holds(check::order::check)
}

#[test]
fn every_test_guest_has_a_test() -> Result<()> {
    holds(check::guests::check)
}

#[test]
fn walls_stand() -> Result<()> {
    holds(check::walls::check)
}

#[test]
fn habits_are_kept() -> Result<()> {
    holds(check::habits::check)
}

#[test]
fn the_contract_with_guests_is_documented() -> Result<()> {
    holds(check::wit::check)
}

#[test]
fn versions_live_in_the_workspace() -> Result<()> {
    holds(check::manifests::check)
}

#[test]
fn links_lead_somewhere() -> Result<()> {
    holds(check::links::check)
}

#[test]
fn lines_of_pages_are_short() -> Result<()> {
    holds(check::pages::check)
}

#[test]
fn texts_are_in_plain_words() -> Result<()> {
    holds(check::phrases::check)
}

#[test]
fn the_project_speaks_of_itself() -> Result<()> {
    holds(check::words::check)
}

#[test]
fn alerts_are_tested_and_explained() -> Result<()> {
    holds(check::alerts::check)
}
