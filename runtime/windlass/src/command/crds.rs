//! `windlass crds`: the definitions of this program's own kinds, or those that a guest's types describe. Entry point: [`execute`].

use crate::cli::{CrdsArgs, Format};
use crate::config::crd;
use crate::output::{Tone, printable};
use crate::run::signals::stop_on_signals;
use anyhow::{Result, bail};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::process::ExitCode;
use windlass_author::definitions::write;
use windlass_author::guest_build::definitions;

/// Prints the definitions, or writes them into the manifests of the guest.
///
/// # Errors
/// When the guest describes no definitions, its tool fails, or a manifest cannot be written.
pub(crate) async fn execute(args: &CrdsArgs, format: Format) -> Result<ExitCode> {
    if args.manager {
        let schema = crd::manager_schema()?;
        anstream::println!("{}", serde_json::to_string_pretty(&schema)?);
        return Ok(super::DONE);
    }
    let Some(folder) = &args.folder else {
        return print(&crd::definitions()?, format);
    };
    let stop = stop_on_signals()?;
    let Some(found) = stop.run_until_cancelled(definitions(folder)).await else {
        bail!("{}: interrupted", folder.display());
    };
    let found = found?;
    if args.write {
        put(folder, &found, format)
    } else {
        print(&found, format)
    }
}

fn print(definitions: &[Json], format: Format) -> Result<ExitCode> {
    match format {
        Format::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions});
            anstream::println!("{}", serde_json::to_string_pretty(&list)?);
        }
        Format::Text | Format::Wide | Format::Markdown => {
            anstream::print!("{}", serde_saphyr::to_string_multiple(definitions)?);
        }
    }
    Ok(super::DONE)
}

fn put(folder: &Path, definitions: &[Json], format: Format) -> Result<ExitCode> {
    let written = write(folder, definitions)?;
    if format == Format::Json {
        anstream::println!(
            "{}",
            serde_json::to_string_pretty(&json!({"written": written}))?
        );
        return Ok(super::DONE);
    }
    for file in &written {
        anstream::println!(
            "{} {}",
            Tone::Good.paint("written"),
            printable(&file.to_string_lossy())
        );
    }
    if written.is_empty() {
        anstream::println!("the manifests have what the types describe");
    }
    Ok(super::DONE)
}
