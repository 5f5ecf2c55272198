//! `windlass types`: writes types of kinds into a guest. Entry point: [`execute`].

use super::api_server::ApiServer;
use crate::cli::{Format, TypesArgs};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use windlass_author::guest_build;
use windlass_author::seed::objects;
use windlass_author::types::{Language, Types, is_ours, write, write_published};

/// Writes a file for each definition and each kind.
///
/// # Errors
/// When a definition cannot be read, a server has no schema of a kind, or a file is there that another hand has written.
pub(crate) async fn execute(args: TypesArgs, format: Format) -> Result<ExitCode> {
    let language = match args.language {
        Some(chosen) => chosen,
        None => of_guest(&args.into)?,
    };
    let mut all = of_definitions(&args, language)?;
    all.extend(of_cluster(&args, language).await?);
    let mut files = BTreeMap::new();
    for types in &all {
        if let Some(other) = files.insert(&types.file, &types.kind) {
            bail!(
                "{other} and {} would both be in {}: write one into another folder with --into",
                types.kind,
                types.file
            );
        }
    }
    let mut written = Vec::new();
    for types in all {
        let folder = match language {
            // Where the projects of `windlass new` have their modules.
            Language::Rust | Language::Typescript if args.into.join("src").is_dir() => {
                args.into.join("src")
            }
            _ => args.into.clone(),
        };
        let path = folder.join(&types.file);
        if let Ok(there) = fs::read_to_string(&path)
            && !is_ours(&there)
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

fn of_definitions(args: &TypesArgs, language: Language) -> Result<Vec<Types>> {
    if args.files.is_empty() {
        return Ok(Vec::new());
    }
    let mut problems = Vec::new();
    let mut all = objects(&args.files, &mut problems);
    if let Some(problem) = problems.first() {
        bail!("{problem}");
    }
    all.retain(|one| one["kind"] == "CustomResourceDefinition");
    if all.is_empty() {
        bail!(
            "there is no CustomResourceDefinition in these files: print one with kubectl get crd NAME -o yaml"
        );
    }
    let version = args.api_version.as_deref();
    let types = all.iter().map(|one| write(one, version, language));
    Ok(types.collect::<Result<_, _>>()?)
}

async fn of_cluster(args: &TypesArgs, language: Language) -> Result<Vec<Types>> {
    if args.kinds.is_empty() {
        return Ok(Vec::new());
    }
    let server = ApiServer::connect(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let mut all = Vec::new();
    for kind in &args.kinds {
        let schemas = server.client.schemas(&kind.group, &kind.version).await;
        let schemas = schemas.map_err(|error| anyhow!(error.message));
        let schemas = schemas.with_context(|| format!("read the schemas for {kind}"))?;
        let schemas = serde_json::from_slice(&schemas)
            .with_context(|| format!("the schemas for {kind} are no JSON"))?;
        all.push(write_published(&schemas, kind, language)?);
    }
    Ok(all)
}

/// The language of the guest that a folder is a part of, as its build finds it.
fn of_guest(folder: &Path) -> Result<Language> {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut around = whole.ancestors().skip(1);
    let found = guest_build::Language::of(folder).or_else(|none| {
        let is_there = folder.is_dir();
        let found = around.find_map(|folder| guest_build::Language::of(folder).ok());
        found.filter(|_| is_there).ok_or(none)
    });
    Ok(match found? {
        guest_build::Language::Rust => Language::Rust,
        guest_build::Language::JavaScript => Language::Typescript,
        guest_build::Language::Python => Language::Python,
        guest_build::Language::Go => Language::Go,
        guest_build::Language::C => Language::C,
    })
}
