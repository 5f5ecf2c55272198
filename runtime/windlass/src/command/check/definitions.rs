//! `windlass check --crds`: where a guest's types, its CustomResourceDefinitions and its files of `windlass types` differ. Entry point:
//! [`execute`].

use crate::cli::Format;
use crate::command::{DONE, FAILED};
use crate::output::{Tone, count, printable};
use crate::run::signals::stop_on_signals;
use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use windlass_author::definitions::{Difference, Manifest, Stale, differences, name, stale};
use windlass_author::guest_build::{DefinitionsError, definitions};

/// Something that is not as it should be.
#[derive(Debug, Serialize)]
struct Finding {
    /// The file that is behind; none: the definition is in no file.
    file: Option<PathBuf>,
    /// What differs, if it is a field.
    #[serde(flatten)]
    difference: Option<Difference>,
    /// In words.
    message: String,
    /// The command that corrects it.
    command: String,
}

/// Prints what differs. Ends with 1 if anything does.
///
/// # Errors
/// When the folder is no guest, its tool fails, or a manifest cannot be read.
pub(super) async fn execute(folder: &Path, format: Format) -> Result<ExitCode> {
    let manifests = Manifest::all(folder)?;
    let described = described(folder).await?;
    let mut findings = Vec::new();
    for definition in &described {
        compare(folder, definition, &manifests, &mut findings);
    }
    let (types, stale) = stale(folder, &manifests);
    findings.extend(stale.into_iter().map(behind));
    print(&findings, described.len(), types, format)?;
    Ok(if findings.is_empty() { DONE } else { FAILED })
}

/// A file of types that is behind its definition.
fn behind(stale: Stale) -> Finding {
    let definition = stale.definition.display();
    let folder = stale.file.parent().unwrap_or(Path::new(""));
    let into = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let (language, into) = (stale.language.name(), into.display());
    let mut command = format!("windlass types {definition} --language {language} --into {into}");
    if let Some(version) = &stale.version {
        command += &format!(" --api-version {version}");
    }
    Finding {
        message: format!("it is not what windlass types writes of {definition}"),
        command,
        file: Some(stale.file),
        difference: None,
    }
}

/// The definitions that the types describe; none, where they describe none.
async fn described(folder: &Path) -> Result<Vec<Json>> {
    let stop = stop_on_signals()?;
    match stop.run_until_cancelled(definitions(folder)).await {
        Some(Err(
            DefinitionsError::NotDescribed { .. } | DefinitionsError::DefinitionsFirst { .. },
        )) => Ok(Vec::new()),
        Some(found) => Ok(found?),
        None => bail!("{}: interrupted", folder.display()),
    }
}

fn compare(folder: &Path, definition: &Json, manifests: &[Manifest], findings: &mut Vec<Finding>) {
    let command = format!("windlass crds {} --write", folder.display());
    let mut is_missing = true;
    for manifest in manifests
        .iter()
        .filter(|one| name(&one.document) == name(definition))
    {
        is_missing = false;
        for difference in differences(definition, &manifest.document) {
            findings.push(Finding {
                file: Some(manifest.file.clone()),
                message: difference.to_string(),
                difference: Some(difference),
                command: command.clone(),
            });
        }
    }
    if is_missing {
        findings.push(Finding {
            file: None,
            difference: None,
            message: format!(
                "{} is in no manifest of {}",
                name(definition),
                folder.display()
            ),
            command,
        });
    }
}

fn print(findings: &[Finding], described: usize, types: usize, format: Format) -> Result<()> {
    if format == Format::Json {
        let all = json!({"definitions": described, "types": types, "differences": findings});
        anstream::println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    for Finding {
        file,
        message,
        command,
        ..
    } in findings
    {
        let file = file.as_ref().map(|file| format!("{}: ", file.display()));
        let line = format!("{}{message}: run {command}", file.unwrap_or_default());
        anstream::println!("{}", printable(&line));
    }
    if findings.is_empty() {
        let definitions = count(described as u64, "definition");
        let types = count(types as u64, "file");
        anstream::println!(
            "{}: {definitions} as the types describe, {types} of types as the definitions say",
            Tone::Good.paint("equal")
        );
    }
    Ok(())
}
