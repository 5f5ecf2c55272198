//! `windlass check`: a component's imports, exports and rules. Entry point: [`execute`].

use crate::cli::{CheckArgs, Format};
use crate::dev::guest_build::built;
use crate::dev::seed::Layout;
use crate::guests::component;
use crate::output::{Tone, printable, size, spent};
use anyhow::{Context, Result};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use windlass_sandbox::{CustomResource, Inspection, Options};

/// Calls the component's `describe` and prints the description with the rules that it needs.
///
/// # Errors
/// When the file is not a guest; the error says why and what to do.
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
    let sandbox = component::small_sandbox(engine)?;
    let customs = customs(&path);
    let inspection = component::inspect(&sandbox, &path, &args.config, &customs).await?;
    if args.rules {
        // The output is pasted or piped, so nothing else is printed.
        anstream::print!("{}", indented("", &inspection.rules_yaml));
        return Ok(super::DONE);
    }
    match format {
        Format::Json => {
            anstream::println!(
                "{}",
                serde_json::to_string_pretty(&as_json(&path, &inspection))?
            )
        }
        Format::Text | Format::Wide => anstream::print!("{}", as_text(&path, &inspection)),
    }
    Ok(super::DONE)
}

/// The custom resources whose definitions are in the `seed` of the component's project: beside the component, or in the folder
/// that it was built in. `dev` reports definitions that cannot be read; here the plural of such a kind is guessed.
fn customs(component: &Path) -> Vec<CustomResource> {
    let folder = component.parent().unwrap_or(Path::new(""));
    let project = if folder.ends_with(".windlass") {
        folder.join("..")
    } else {
        folder.to_owned()
    };
    let Layout {
        everywhere,
        clusters,
        local,
    } = Layout::read(&project.join("seed")).unwrap_or_default();
    let objects = everywhere
        .into_iter()
        .chain(clusters.into_values().flatten())
        .chain(local.into_iter().flatten());
    let definitions = objects.filter(|object| object["kind"] == "CustomResourceDefinition");
    let text = |field: &serde_json::Value| field.as_str().unwrap_or_default().to_owned();
    let customs = definitions.map(|object| {
        let (spec, names) = (&object["spec"], &object["spec"]["names"]);
        CustomResource {
            group: text(&spec["group"]),
            kind: text(&names["kind"]),
            resource: text(&names["plural"]),
        }
    });
    customs.collect()
}

fn as_json(path: &Path, inspection: &Inspection) -> serde_json::Value {
    json!({
        "path": path,
        "title": inspection.title,
        "world": inspection.world,
        "bytes": inspection.size,
        "compileSeconds": inspection.compiling.map(|took| took.as_secs_f64()),
        "memoryBytes": inspection.memory,
        "digest": format!("sha256:{}", inspection.digest),
        "imports": inspection.imports,
        "exports": inspection.exports,
        "functions": inspection.functions,
        "primary": inspection.primary,
        "watches": inspection.watches,
        "indexes": inspection.indexes,
        "rules": inspection.rules_yaml,
    })
}

fn as_text(path: &Path, inspection: &Inspection) -> String {
    let mut text = format!("{}\n", Tone::Bold.paint(printable(&path.to_string_lossy())));
    let mut section = |name: &str, lines: &[String]| {
        for (index, line) in lines.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            let line = printable(line);
            text.push_str(&format!(
                "  {}  {line}\n",
                Tone::Dim.paint(format_args!("{name:<8}"))
            ));
        }
    };
    section("title", std::slice::from_ref(&inspection.title));
    section("world", std::slice::from_ref(&inspection.world));
    section("size", &[size(inspection.size as u64)]);
    let compiling = match inspection.compiling {
        Some(took) => spent(took.as_secs_f64()),
        None => "done before and kept; --cache none compiles it again".to_owned(),
    };
    section("compiles", &[compiling]);
    let memory = format!(
        "{} of every call's instance",
        size(inspection.memory as u64)
    );
    section("memory", &[memory]);
    section("digest", &[format!("sha256:{}", inspection.digest)]);
    section("imports", &inspection.imports);
    section("exports", &inspection.exports);
    section("calls", &[inspection.functions.join(", ")]);
    section(
        "primary",
        &inspection.primary.iter().cloned().collect::<Vec<_>>(),
    );
    section("watches", &inspection.watches);
    section("indexes", &inspection.indexes);
    text.push_str("\nrules for what it watches and owns, to paste into its Reconciler (add those for what else it reads and writes):\n");
    text.push_str(&indented("  ", &inspection.rules_yaml));
    text
}

/// The rules as a field of a Reconciler's `spec`.
fn indented(before: &str, rules: &str) -> String {
    let lines = rules.lines().map(|line| format!("{before}  {line}\n"));
    format!("{before}rules:\n{}", lines.collect::<String>())
}
