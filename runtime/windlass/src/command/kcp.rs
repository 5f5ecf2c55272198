//! `windlass kcp`: what the owner of a service puts into a workspace of kcp. Entry point: [`execute`].

mod export;

use crate::cli::{Format, KcpCommand, PublishArgs};
use anyhow::{Context, Result, bail};
use export::{Claim, Export, Versions};
use serde_json::{Value as Json, json};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use windlass_files::{Node, Part, Problem, split};

/// The largest file of CustomResourceDefinitions, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Carries a command out.
///
/// # Errors
/// As the command.
pub(crate) fn execute(command: &KcpCommand, format: Format) -> Result<ExitCode> {
    match command {
        KcpCommand::Publish(args) => publish(args, format),
    }
}

/// Prints the APIResourceSchemas and the APIExport of CustomResourceDefinitions.
///
/// # Errors
/// When a file cannot be read, or a definition cannot be published as it is. The error says what to do.
fn publish(args: &PublishArgs, format: Format) -> Result<ExitCode> {
    let mut export = Export::new(&args.export, Versions::parse(&args.versions));
    for path in &args.files {
        for object in read(path)? {
            let added = export.add(&object);
            added.with_context(|| path.display().to_string())?;
        }
    }
    export.check()?;
    for claim in &args.claims {
        export.claim(Claim::parse(claim));
    }
    let manifests = export.manifests();
    match format {
        Format::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests});
            anstream::println!("{}", serde_json::to_string_pretty(&list)?);
        }
        Format::Text | Format::Wide | Format::Markdown => {
            anstream::print!("{}", serde_saphyr::to_string_multiple(&manifests)?);
        }
    }
    Ok(super::DONE)
}

/// The manifests of a file; `-` is standard input.
fn read(path: &Path) -> Result<Vec<Json>> {
    let name: Arc<str> = path.to_string_lossy().into();
    let mut text = String::new();
    let size = if path == Path::new("-") {
        std::io::stdin()
            .take(MAX_FILE + 1)
            .read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(path);
        file.and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text))
    };
    let size = size.with_context(|| format!("{name}: cannot be read"))?;
    if size as u64 > MAX_FILE {
        bail!("{name}: larger than {} MiB: split it", MAX_FILE >> 20);
    }
    let mut objects = Vec::new();
    for part in split(&text) {
        let object = parse(&name, &part).map_err(|problem| anyhow::anyhow!("{problem}"))?;
        match &object["items"] {
            Json::Array(items) => objects.extend(items.iter().cloned()),
            _ => objects.push(object),
        }
    }
    Ok(objects)
}

fn parse(file: &Arc<str>, part: &Part<'_>) -> Result<Json, Problem> {
    let node: Node = part.parse(file)?;
    let at = node.at;
    let object = node.decode();
    object.map_err(|error| Problem::at(file, error.at.unwrap_or(at), error.message("the manifest")))
}
