//! `windlass types`: writes types of kinds into a guest. Entry point: [`execute`].

use crate::cli::{Format, TypesArgs};
use crate::dev::guest_build;
use crate::dev::seed::objects;
use crate::types::{Language, MARK, write};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Writes a file for each definition.
///
/// # Errors
/// When a definition cannot be read, or a file is there that another hand has written.
pub(crate) fn execute(args: &TypesArgs, format: Format) -> Result<ExitCode> {
    let mut problems = Vec::new();
    let all = objects(&args.files, &mut problems);
    if let Some(problem) = problems.first() {
        bail!("{problem}");
    }
    let definitions = all
        .into_iter()
        .filter(|one| one["kind"] == "CustomResourceDefinition");
    let definitions: Vec<_> = definitions.collect();
    if definitions.is_empty() {
        bail!(
            "there is no CustomResourceDefinition in these files: print one with kubectl get crd NAME -o yaml"
        );
    }
    let chosen = match args.language {
        Some(chosen) => chosen,
        None => of_guest(&args.into)?,
    };
    let mut written = Vec::new();
    for definition in &definitions {
        let types = write(definition, args.api_version.as_deref(), chosen)?;
        let folder = match chosen {
            Language::Rust => args.into.join("src"),
            _ => args.into.clone(),
        };
        let path = folder.join(&types.file);
        if let Ok(there) = fs::read_to_string(&path)
            && !there.contains(MARK)
        {
            bail!(
                "{} is there, and was not written by windlass types: rename it",
                path.display()
            );
        }
        fs::write(&path, &types.text).with_context(|| format!("write {}", path.display()))?;
        written.push((types.kind, path));
    }
    match format {
        Format::Json => {
            let all: Vec<_> = written
                .iter()
                .map(|(kind, path)| json!({"kind": kind, "file": path}))
                .collect();
            anstream::println!("{}", serde_json::to_string_pretty(&all)?);
        }
        _ => {
            for (kind, path) in written {
                anstream::println!("{kind}: {}", path.display());
            }
        }
    }
    Ok(super::DONE)
}

/// The language of a guest, as its build finds it.
fn of_guest(folder: &Path) -> Result<Language> {
    Ok(match guest_build::Language::of(folder)? {
        guest_build::Language::Rust => Language::Rust,
        guest_build::Language::JavaScript => Language::Typescript,
        guest_build::Language::Python => Language::Python,
        guest_build::Language::Go => Language::Go,
        guest_build::Language::C => {
            bail!("there are no types for C: its SDK reads fields by their paths")
        }
    })
}
