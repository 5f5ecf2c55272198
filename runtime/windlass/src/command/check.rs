//! `windlass check`: what a component needs and offers. Entry point: [`execute`].

use crate::cli::{CheckArgs, Format};
use crate::guest_build::built;
use crate::guests;
use crate::output::{Tone, size};
use anyhow::{Context, Result};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use windlass_sandbox::{Inspection, Options};

/// Asks the component to describe itself and prints that with the rules that it needs.
///
/// # Errors
/// Why it is no guest, and what to do.
pub(crate) async fn execute(args: CheckArgs, format: Format, engine: Options) -> Result<ExitCode> {
    let path = match args.file.is_dir() {
        true => built(&args.file).with_context(|| {
            format!(
                "{} was not built yet: run windlass build {}",
                args.file.display(),
                args.file.display()
            )
        })?,
        false => args.file,
    };
    let told = guests::inspect(engine, &path, &args.config).await?;
    match format {
        Format::Json => {
            anstream::println!("{}", serde_json::to_string_pretty(&as_json(&path, &told))?)
        }
        Format::Text | Format::Wide => anstream::print!("{}", as_text(&path, &told)),
    }
    Ok(super::DONE)
}

fn as_json(path: &Path, told: &Inspection) -> serde_json::Value {
    json!({
        "path": path,
        "title": told.title,
        "world": told.world,
        "bytes": told.size,
        "digest": told.digest.to_string(),
        "imports": told.imports,
        "exports": told.exports,
        "functions": told.functions,
        "primary": told.primary,
        "watches": told.watches,
        "indexes": told.indexes,
        "rules": told.rules_yaml,
    })
}

fn as_text(path: &Path, told: &Inspection) -> String {
    let mut text = format!("{}\n", Tone::Bold.paint(path.display()));
    let mut section = |name: &str, lines: &[String]| {
        for (index, line) in lines.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            text.push_str(&format!(
                "  {}  {line}\n",
                Tone::Dim.paint(format_args!("{name:<8}"))
            ));
        }
    };
    section("title", std::slice::from_ref(&told.title));
    section("world", std::slice::from_ref(&told.world));
    section("size", &[size(told.size as u64)]);
    section("digest", &[told.digest.to_string()]);
    section("imports", &told.imports);
    section("exports", &told.exports);
    section("calls", &[told.functions.join(", ")]);
    section("primary", &told.primary.iter().cloned().collect::<Vec<_>>());
    section("watches", &told.watches);
    section("indexes", &told.indexes);
    text.push_str("\nrules for what it watches and owns, to paste into its Reconciler (add those for what else it reads and writes):\n");
    text.push_str("  rules:\n");
    for line in told.rules_yaml.lines() {
        text.push_str(&format!("    {line}\n"));
    }
    text
}
