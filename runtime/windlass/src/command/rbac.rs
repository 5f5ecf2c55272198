//! `windlass rbac`: the roles that the manager's own credentials need. Entry point: [`execute`].

use crate::cli::{Format, RbacArgs};
use crate::config::kinds::{GuestSource, Kind, Origin, ReconcilerSpec, TenantSpec};
use crate::config::load::{Configuration, Document, load, merge};
use crate::config::rbac::{
    Description, Hub, Side, Subject, Work, callers, cluster_roles, definitions, in_local,
    manifests, name_by_content, needed, yaml,
};
use crate::config::{clusters, registries};
use crate::guests::TenantPolicy;
use crate::guests::component::{inspect, small_sandbox};
use crate::output::Tone;
use crate::reconcilers::{component, wanted};
use anyhow::{Result, bail};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::process::ExitCode;
use windlass_fleet::grant::{RuleSet, Verb};
use windlass_registry::Registries;
use windlass_sandbox::{Inspection, Options, Sandbox};

/// Prints the roles. Each guest is asked what it watches and calls. A guest that cannot be asked is assumed to use all of its rules,
/// and a warning names it.
///
/// # Errors
/// When a document is not valid: roles for a part of a configuration would look complete.
pub(crate) async fn execute(args: RbacArgs, format: Format, engine: Options) -> Result<ExitCode> {
    if args.from_cluster {
        let name = args.name.as_deref().unwrap_or("windlass-from-cluster");
        return print(&cluster_roles(name, args.bind.as_ref()), format);
    }
    if args.callers {
        let name = args.name.as_deref().unwrap_or("windlass-api");
        return print(&callers(name), format);
    }
    let configuration = valid(&args.files)?;
    if let Some(provider) = &args.provider {
        let needed = of_hub(&configuration, provider)?;
        return print(&named(&args, "windlass-hub", &needed), format);
    }
    // In the local cluster the manager has needs of its own.
    if !configuration.has(Kind::Reconciler) && !args.local {
        bail!("there is no Reconciler: roles are made of what reconcilers are granted");
    }
    let work = work(&configuration, engine).await?;
    let (side, usual) = if args.local {
        (Side::Local, "windlass-local")
    } else {
        (Side::Members, "windlass")
    };
    let home = home(&configuration, args.bind.as_ref());
    if home.is_none() && side == Side::Local {
        anstream::eprintln!(
            "{} the namespace that the manager runs in is not known, so it is not allowed to record Events of its own: name its service \
             account, --bind serviceaccount:NAMESPACE/NAME",
            Tone::Warn.paint("note:")
        );
    }
    let manager = configuration.manager_spec();
    let mut needed = needed(side, &work, &manager, home.as_deref());
    if side == Side::Local {
        needed.extend(in_local(&configuration));
        needed.extend(definitions(&needed));
        needed.reduce();
    }
    name_other_hubs(&configuration);
    print(&named(&args, usual, &needed), format)
}

/// The roles under the name that is asked for, or under one of their own.
fn named(args: &RbacArgs, usual: &str, needed: &RuleSet) -> Vec<Json> {
    let bind = args.bind.as_ref();
    let name = match &args.name {
        Some(name) => name.clone(),
        None => name_by_content(usual, needed, bind),
    };
    manifests(needed, &name, bind)
}

fn print(manifests: &[Json], format: Format) -> Result<ExitCode> {
    match format {
        Format::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests});
            anstream::println!("{}", serde_json::to_string_pretty(&list)?);
        }
        Format::Text | Format::Wide | Format::Markdown => anstream::print!("{}", yaml(manifests)),
    }
    Ok(super::DONE)
}

/// What the credentials of a Provider need in its hub.
fn of_hub(configuration: &Configuration, provider: &str) -> Result<RuleSet> {
    let mut providers = configuration.providers();
    let found = providers.find(|(document, _)| document.identity.name == provider);
    let Some((_, spec)) = found else {
        bail!("there is no Provider {provider:?}: name one of the documents");
    };
    match Hub::of(spec) {
        Some(hub) => Ok(hub.needed()),
        None => bail!("the Provider {provider:?} reads no hub: it needs no roles"),
    }
}

/// Says how to print the roles for hubs that are neither the local cluster nor one of the Providers' clusters.
fn name_other_hubs(configuration: &Configuration) {
    for (document, spec) in configuration.providers() {
        if Hub::of(spec).is_some_and(|hub| hub.is_elsewhere()) {
            let name = &document.identity.name;
            anstream::eprintln!(
                "{} Provider {name} reads a hub with credentials of its own: --provider {name} prints what they need",
                Tone::Warn.paint("note:")
            );
        }
    }
}

/// The configuration of files, all of whose documents are valid.
///
/// # Errors
/// When a document is not valid. The error names every problem.
pub(super) fn valid(files: &[PathBuf]) -> Result<Configuration> {
    let merged = merge(&Configuration::default(), &load(files));
    if merged.problems.is_empty() {
        return Ok(merged.configuration);
    }
    let problems = merged.problems.iter();
    let lines: Vec<String> = problems.map(|problem| format!("\n  {problem}")).collect();
    bail!("the configuration is not valid{}", lines.concat());
}

/// The reconcilers, each with the description of its guest. A line on standard error names the guests that cannot be asked.
///
/// # Errors
/// When the engine cannot be made on this machine.
pub(super) async fn work(configuration: &Configuration, engine: Options) -> Result<Vec<Work<'_>>> {
    let mut work = Vec::new();
    let has_provider = configuration.has_provider();
    if !configuration.has(Kind::Reconciler) {
        return Ok(work);
    }
    let cache = engine.cache.as_ref().map(|cache| cache.folder.as_path());
    let registry = Registries::new(registries::options(configuration, cache)?);
    let sandbox = small_sandbox(engine)?;
    for (document, spec) in configuration.reconcilers() {
        let tenant = configuration.tenant(spec.tenant()).map(|(_, spec)| spec);
        let path = path(&registry, document, spec, tenant).await;
        let description = ask(&sandbox, document, spec, path).await;
        work.push(Work {
            spec,
            tenant,
            has_provider,
            description,
        });
    }
    Ok(work)
}

/// The namespace of the local cluster in which the manager records its own Events, if another process can know it.
fn home(configuration: &Configuration, bind: Option<&Subject>) -> Option<String> {
    let spec = configuration.manager_spec();
    if let Some((namespace, _)) = spec.shared_lease() {
        return Some(namespace.to_owned());
    }
    if spec.local.is_some_and(|local| local.kubeconfig.is_some()) {
        let local = clusters::local(configuration).ok().flatten()?;
        return Some(local.config.namespace().to_owned());
    }
    bind.and_then(Subject::namespace).map(str::to_owned)
}

/// The file of a guest. An image is pulled, if its tenant's policy allows it.
async fn path(
    registry: &Registries,
    document: &Document,
    spec: &ReconcilerSpec,
    tenant: Option<&TenantSpec>,
) -> Result<PathBuf, String> {
    let Ok(GuestSource::Image(image)) = spec.guest.source() else {
        return component(document, spec).map_err(|failure| failure.to_string());
    };
    let policy = tenant.map_or_else(TenantPolicy::default, |spec| {
        TenantPolicy::of(spec, Origin::File)
    });
    let lookup = registry.look_up(wanted(spec, &policy, image), None).await;
    lookup.outcome.map(|pulled| pulled.path)
}

/// The description of a guest, if it can be asked.
async fn ask(
    sandbox: &Sandbox,
    document: &Document,
    spec: &ReconcilerSpec,
    path: Result<PathBuf, String>,
) -> Option<Description> {
    let asked = match path {
        Ok(path) => inspect(sandbox, &path, &spec.config_text(), &[])
            .await
            .map_err(|error| format!("{error:#}")),
        Err(problem) => Err(problem),
    };
    match asked {
        Ok(inspection) => Some(description(inspection)),
        Err(problem) => {
            anstream::eprintln!(
                "{} {}: its guest cannot be asked, and is assumed to do all that its rules allow: {problem}",
                Tone::Warn.paint("note:"),
                document.identity
            );
            None
        }
    }
}

fn description(inspection: Inspection) -> Description {
    let needed: RuleSet = inspection.rules.iter().collect();
    let watched = needed.into_iter().filter(|one| one.verb == Verb::Watch);
    Description {
        watched: watched.collect(),
        scopes: inspection.scopes,
        maps: inspection.maps,
        functions: inspection.functions,
    }
}
