//! `windlass check`: a component's imports, exports and rules; with `--crds` a guest's definitions. Entry point: [`execute`].

mod definitions;

mod missing;

use crate::cli::{CheckArgs, Format};
use crate::config::kinds::{GuestSource, rules};
use crate::config::schema::{self, Place, Shows};
use crate::guests::{Lack, component, lacks};
use crate::output::{Tone, printable, size, spent};
use crate::reconcilers;
use anyhow::{Context, Result, bail};
use missing::missing;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use windlass_author::seed::Layout;
use windlass_files::{Position, split};
use windlass_fleet::Rule;
use windlass_registry::{Reference, SCHEME};
use windlass_sandbox::{CustomResource, Inspection, Options};

/// Calls the component's `describe` and prints the description with the rules that it needs.
///
/// # Errors
/// When the file is not a guest, or a config does not match its schema; the error says why and what to do.
/// With `--crds`, when the definitions cannot be read or made.
pub(crate) async fn execute(args: CheckArgs, format: Format, engine: Options) -> Result<ExitCode> {
    if args.crds {
        return definitions::execute(&args.file, format).await;
    }
    let image = image(&args.file);
    let path = match &image {
        Some(image) => {
            super::registry::fetch(&args.registry.registry(&engine)?, image)
                .await?
                .path
        }
        None => super::registry::component_of(&args.file)?,
    };
    let (configs, reconcilers) = configs(&args.files, &args.config, &path, image.as_ref())?;
    let sandbox = component::small_sandbox(engine)?;
    let revision = component::load_into(&sandbox, &path).await?;
    let schema = revision.config_schema();
    check_configs(schema, &configs)?;
    let customs = customs(&path);
    // What a guest watches may depend on its config.
    let mut inspections = Vec::new();
    for (config, _) in &configs {
        let config = config.to_string();
        inspections.push(revision.inspect(&sandbox, &config, &customs).await?);
    }
    let inspection = inspections.first().context("there is no config")?;
    if args.rules {
        // The output is pasted or piped, so nothing else is printed.
        anstream::print!("{}", indented("", &inspection.rules_yaml));
        return Ok(super::DONE);
    }
    let pairs = inspections.iter().zip(&reconcilers);
    let denied = denied(&args.files);
    let lacking: Vec<Lack> = pairs
        .filter_map(|(own, reconciler)| missing(&own.rules, &denied, reconciler))
        .collect();
    let shown = match &image {
        Some(_) => &args.file,
        None => &path,
    };
    match format {
        Format::Json => {
            anstream::println!(
                "{}",
                serde_json::to_string_pretty(&as_json(shown, inspection, schema, &lacking))?
            )
        }
        Format::Text | Format::Wide | Format::Markdown => {
            anstream::print!("{}", as_text(shown, inspection, schema));
            anstream::print!("{}", lacks(&lacking));
            if !lacking.is_empty() {
                anstream::println!(
                    "what tests were denied is of the last windlass test; windlass rules finds all that they need, and writes it"
                );
            }
        }
    }
    Ok(super::DONE)
}

/// The image that an argument names: with `oci://` before it, or if there is no such file and it reads as an image.
fn image(argument: &Path) -> Option<Reference> {
    let text = argument.to_str()?;
    let image = Reference::parse(text).ok()?;
    (text.starts_with(SCHEME) || !argument.exists()).then_some(image)
}

/// A config, and where it stands.
type Config = (Json, Place);

/// The name of a Reconciler, and its rules.
type Granted = (String, Vec<Rule>);

/// The configs to check: of the Reconcilers in `files` that have this component or image, which are returned too, or the text of `--config`.
fn configs(
    files: &[PathBuf],
    text: &str,
    component: &Path,
    image: Option<&Reference>,
) -> Result<(Vec<Config>, Vec<Granted>)> {
    if files.is_empty() {
        let config = serde_json::from_str(text).context("--config is not JSON")?;
        let file: Arc<str> = "--config".into();
        let node = split(text).first().and_then(|part| part.parse(&file).ok());
        let place = Place {
            file,
            document: Position { line: 1, column: 1 },
            config: node.map(Arc::new),
            path: "config",
            shows: Shows::Line,
            whose: component.display().to_string(),
        };
        return Ok((vec![(config, place)], Vec::new()));
    }
    let configuration = super::rbac::valid(files)?;
    let same = |path: &Path| path.canonicalize().ok() == component.canonicalize().ok();
    let reconcilers = configuration.reconcilers();
    let used = reconcilers.filter(|(document, spec)| match (spec.guest.source(), image) {
        (Ok(GuestSource::Image(named)), Some(image)) => named == *image,
        (_, Some(_)) => false,
        (_, None) => reconcilers::component(document, spec).is_ok_and(|path| same(&path)),
    });
    let empty = || Json::Object(serde_json::Map::new());
    let (configs, reconcilers): (Vec<Config>, Vec<Granted>) = used
        .map(|(document, spec)| {
            let config = spec.config.clone().unwrap_or_else(empty);
            let granted = (document.identity.name.clone(), rules(&spec.rules));
            ((config, Place::of(document)), granted)
        })
        .unzip();
    if configs.is_empty() {
        bail!(
            "no Reconciler of these documents has the guest {}: name it in spec.guest",
            image.map_or_else(|| component.display().to_string(), ToString::to_string)
        );
    }
    Ok((configs, reconcilers))
}

/// What the last run of `windlass test` was denied in the projects of these files, by reconciler.
fn denied(files: &[PathBuf]) -> Vec<(String, Vec<Rule>)> {
    let projects = files.iter().map(|file| {
        if file.is_dir() {
            file
        } else {
            file.parent().unwrap_or(Path::new(""))
        }
    });
    projects.flat_map(super::test::kept_denials).collect()
}

/// Compares configs with the schema that the component carries.
///
/// # Errors
/// When one does not match. The error names every problem.
fn check_configs(schema: Option<&str>, configs: &[(Json, Place)]) -> Result<()> {
    let Some(schema) = schema else {
        return Ok(());
    };
    let problems = configs
        .iter()
        .flat_map(|(config, place)| schema::problems(schema, config, place));
    let lines: Vec<String> = problems.map(|problem| format!("\n  {problem}")).collect();
    if !lines.is_empty() {
        bail!("the config is not valid{}", lines.concat());
    }
    Ok(())
}

/// The custom resources whose definitions are in the `seed` of the component's project: beside the component, or in the folder
/// that it was built in. If a manifest cannot be read, a note says so, and the plurals of kinds are guessed.
fn customs(component: &Path) -> Vec<CustomResource> {
    let folder = component.parent().unwrap_or(Path::new(""));
    let project = if folder.ends_with(".windlass") {
        folder.join("..")
    } else {
        folder.to_owned()
    };
    let read = Layout::read(&project.join("seed")).unwrap_or_else(|problems| {
        for problem in problems {
            anstream::eprintln!(
                "{} the seed counts for nothing, and plurals of its kinds are guessed: {}",
                Tone::Warn.paint("note:"),
                printable(&problem.to_string())
            );
        }
        Layout::default()
    });
    let Layout {
        everywhere,
        clusters,
        local,
        workspaces,
    } = read;
    let objects = everywhere
        .into_iter()
        .chain(clusters.into_values().flatten())
        .chain(local.into_iter().flatten())
        .chain(workspaces.into_iter().flatten().flat_map(|(_, own)| own));
    // An APIResourceSchema, which is kcp's, names its kind as a CustomResourceDefinition does.
    let defines = |kind: &str| ["CustomResourceDefinition", "APIResourceSchema"].contains(&kind);
    let definitions = objects.filter(|object| object["kind"].as_str().is_some_and(defines));
    let text = |field: &Json| field.as_str().unwrap_or_default().to_owned();
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

fn as_json(path: &Path, inspection: &Inspection, schema: Option<&str>, missing: &[Lack]) -> Json {
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
        "configSchema": schema.and_then(|schema| serde_json::from_str::<Json>(schema).ok()),
        "rules": inspection.rules_yaml,
        "missing": missing,
    })
}

fn as_text(path: &Path, inspection: &Inspection, schema: Option<&str>) -> String {
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
    let config = schema.map(|_| "has a schema, which every config is compared with".to_owned());
    section("config", config.as_slice());
    text.push_str("\nrules for what it watches and owns, to paste into its Reconciler (add those for what else it reads and writes):\n");
    text.push_str(&indented("  ", &inspection.rules_yaml));
    text
}

/// The rules as a field of a Reconciler's `spec`.
fn indented(before: &str, rules: &str) -> String {
    let lines = rules.lines().map(|line| format!("{before}  {line}\n"));
    format!("{before}rules:\n{}", lines.collect::<String>())
}
