//! `windlass types`: writes types of kinds into a guest. Entry point: [`execute`].

use super::api_server::ApiServer;
use crate::cli::{Format, TypesArgs};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use windlass_author::guest_build;
use windlass_author::seed::documents;
use windlass_author::types::package::{self, PackageError, is_ours, package};
use windlass_author::types::{Kind, Language, Types, place};
use windlass_files::Node;

/// The root of a package in Rust.
const LIBRARY: &str = "lib.rs";

/// Writes a file for each definition and each kind.
///
/// # Errors
/// When a definition cannot be read, a server has no schema of a kind, or a file is there that another hand has written.
pub(crate) async fn execute(args: TypesArgs, format: Format) -> Result<ExitCode> {
    let language = match args.language {
        Some(chosen) => chosen,
        None => of_guest(&args.into)?,
    };
    let mut kinds = of_definitions(&args)?;
    kinds.extend(of_cluster(&args).await?);
    let (folder, project) = match language {
        // Where the projects of `windlass new` have their modules.
        Language::Typescript if args.into.join("src").is_dir() => (args.into.join("src"), None),
        Language::Rust => in_rust(&args.into)?,
        _ => (args.into.clone(), None),
    };
    let all = place(&kinds, language, |name| {
        fs::read_to_string(folder.join(name)).ok()
    })?;
    if let Some(project) = project {
        write_package(&project, &folder, &all)?;
    }
    let mut written = Vec::new();
    for types in all {
        for (name, text) in &types.files {
            write(&folder.join(name), text)?;
        }
        let file = folder.join(types.file());
        written.push((types.kind.kind, file));
    }
    match format {
        Format::Json => {
            let all: Vec<_> = written
                .iter()
                .map(|(kind, path)| json!({"kind": &**kind, "file": path}))
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

/// The folder of modules in Rust, and the project whose package of types it is a part of. A folder that is no project has plain modules.
fn in_rust(into: &Path) -> Result<(PathBuf, Option<PathBuf>)> {
    let manifest = into.join("Cargo.toml");
    if !manifest.is_file() {
        return Ok((into.to_owned(), None));
    }
    if is_ours(&read(&manifest)?) {
        return Ok((into.join("src"), Some(into.join(".."))));
    }
    let package = into.join(package::NAME);
    let sources = package.join("src");
    for file in [package.join("Cargo.toml"), sources.join(LIBRARY)] {
        if file.exists() && !is_ours(&read(&file)?) {
            return Err(PackageError::OfOthers(file.display().to_string()).into());
        }
    }
    Ok((sources, Some(into.to_owned())))
}

/// Writes what makes the modules of `folder`, with those to come, a package that the project depends on.
fn write_package(project: &Path, folder: &Path, all: &[Types]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let mut modules: Vec<String> = all
        .iter()
        .flat_map(|types| types.files.iter().map(|(name, _)| name.clone()))
        .collect();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_new = *name != *LIBRARY && !modules.iter().any(|known| *known == *name);
        if is_new && name.ends_with(".rs") && is_ours(&read(&path)?) {
            modules.push(name.into_owned());
        }
    }
    let manifest = project.join("Cargo.toml");
    let made = package(&read(&manifest)?, &modules)?;
    write(&folder.join("../Cargo.toml"), &made.manifest)?;
    write(&folder.join(LIBRARY), &made.library)?;
    if let Some(text) = made.project {
        write(&manifest, &text)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

fn of_definitions(args: &TypesArgs) -> Result<Vec<Kind>> {
    if args.files.is_empty() {
        return Ok(Vec::new());
    }
    let mut all = documents(&args.files).map_err(|problem| anyhow!("{problem}"))?;
    let kind = |one: &Node| one.get("kind").and_then(Node::as_text).map(str::to_owned);
    all.retain(|one| kind(one).as_deref() == Some("CustomResourceDefinition"));
    if all.is_empty() {
        bail!(
            "there is no CustomResourceDefinition in these files: print one with kubectl get crd NAME -o yaml"
        );
    }
    let version = args.api_version.as_deref();
    let kinds = all.iter().map(|one| Kind::of_definition(one, version));
    Ok(kinds.collect::<Result<_, _>>()?)
}

async fn of_cluster(args: &TypesArgs) -> Result<Vec<Kind>> {
    if args.kinds.is_empty() {
        return Ok(Vec::new());
    }
    let server = ApiServer::connect(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let mut all = Vec::new();
    for kind in &args.kinds {
        let schemas = server.client.schemas(&kind.group, &kind.version).await;
        let schemas = schemas.map_err(|error| anyhow!(error.message));
        let schemas = schemas.with_context(|| format!("read the schemas for {kind}"))?;
        let schemas: Json = serde_json::from_slice(&schemas)
            .with_context(|| format!("the schemas for {kind} are no JSON"))?;
        all.push(Kind::published(&Node::of(&schemas), kind)?);
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
