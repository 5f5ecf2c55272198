//! `windlass dev`: runs guests against an in-memory fleet, and rebuilds them after every save. Entry point: [`execute`].

use crate::cli::{DevArgs, Format};
use crate::config::kinds::Kind;
use crate::config::load::{Configuration, merge, start};
use crate::dev;
use crate::dev::native::{BuilderOfOthers, Natives};
use crate::guests::component::small_sandbox;
use crate::output::{Tone, count};
use crate::run::signals::stop_on_signals;
use crate::run::{self, Pace, Rebuild, RunOptions};
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;
use windlass_author::guest_build::{self, BuildError, GuestBuilder, build};
use windlass_author::seed::{LOCAL, Seed};
use windlass_author::simulated::Simulated;
use windlass_sandbox::Options;

/// More documents of the folder, which no other command reads: of guests that play what is not there.
const ONLY_HERE: &str = "dev.yaml";

/// Builds the guests, starts and fills the clusters, and runs until a signal or until idle.
///
/// # Errors
/// When nothing can start.
pub(crate) async fn execute(args: DevArgs, format: Format, engine: Options) -> Result<ExitCode> {
    let file = args.folder.join("windlass.yaml");
    if !file.exists() {
        bail!(
            "{}: no such file: name the folder that has it, or begin a guest with windlass new my-guest --lang rust",
            file.display()
        );
    }
    let mut files = vec![file];
    files.extend(Some(args.folder.join(ONLY_HERE)).filter(|file| file.exists()));
    let documents = merge(&Configuration::default(), &start(&files)?);
    // The fleet is made once. Without this document it would have clusters that no Provider asks for.
    if let Some(bad) = documents.left_out(Kind::Provider) {
        bail!(
            "the in-memory fleet is made in place of the Providers, and one is not valid: correct it\n  {}",
            bad.problem
        );
    }
    let configuration = documents.configuration;
    let seed = Seed::of(&args.folder.join("seed"), dev::asked(&configuration))?;
    let stop = stop_on_signals()?;
    let built = SystemTime::now();
    // What a script tests is made as `windlass build` makes it. Without a cache a base would be compiled for each save.
    let builder = match (args.idle.exit_when_idle, &engine.cache) {
        (true, _) => dev::builder(),
        (false, None) => dev::builder().for_edits(None),
        (false, Some(_)) => {
            let sandbox = small_sandbox(engine.clone())?;
            dev::builder().for_edits(Some(dev::bases(sandbox)))
        }
    };
    let natives = Natives::listen(&args.native, &configuration)?;
    let unbuilt = natives.folders();
    let building = build_guests(&configuration, &builder, &unbuilt);
    match stop.run_until_cancelled(building).await {
        None => return Ok(super::DONE),
        // A script cannot correct the error, and must not test the component of an earlier build.
        Some(Err(error)) if args.idle.exit_when_idle => return Err(error.into()),
        Some(_) => {}
    }
    let (simulated, stand_ins) = dev::fleet(&seed, &configuration, args.port, &args.folder).await?;
    // Then standard output has only results for programs.
    if format != Format::Json {
        introduce(&simulated, &configuration);
    }
    if stop
        .run_until_cancelled(natives.start(&stop))
        .await
        .is_none()
    {
        return Ok(super::DONE);
    }
    let mut folders = run::source_folders(&configuration);
    folders.retain(|folder| !unbuilt.contains(folder));
    let preparing = tokio::spawn(prepare(folders, builder.clone()));
    let folder = args.folder.join("seed");
    let options = RunOptions {
        files,
        simulated: Some(stand_ins),
        from_cluster: false,
        rebuild: Some(Rebuild {
            built,
            builder: Arc::new(BuilderOfOthers {
                builder,
                natives: unbuilt,
            }),
        }),
        admin: args.admin,
        found_in: Some(args.folder.clone()),
        idle: args.idle,
        gives_up: None,
        then: None,
        pace: Pace::default(),
        needs: None,
        rehearsal: None,
        natives: natives.guests(),
        engine,
        stop,
    };
    let following = tokio::spawn(async move {
        let seed = simulated.follow_seed(&folder, seed);
        tokio::join!(simulated.follow_workspaces(), seed)
    });
    let report = run::run(options).await;
    following.abort();
    preparing.abort();
    super::finish(report?, format)
}

/// Builds every source folder but those of guests that run as processes, and prints every error. Returns the first one.
async fn build_guests(
    configuration: &Configuration,
    builder: &GuestBuilder,
    natives: &BTreeSet<PathBuf>,
) -> Result<(), BuildError> {
    let mut outcome = Ok(());
    let folders = run::source_folders(configuration);
    for folder in folders.difference(natives) {
        if let Err(error) = build(folder, builder).await {
            tracing::error!(guest = %folder.display(), %error, "build failed");
            outcome = outcome.and(Err(error));
        }
    }
    outcome
}

/// Makes the bases of guests, for the first save: a component that was kept was made without.
async fn prepare(folders: BTreeSet<PathBuf>, builder: GuestBuilder) {
    for folder in folders {
        if let Err(error) = guest_build::prepare(&folder, &builder).await {
            tracing::debug!(guest = %folder.display(), %error, "no base is made before the first save");
        }
    }
}

/// Prints what the fleet stands in for, its kubeconfig, and a command to try.
fn introduce(simulated: &Simulated, configuration: &Configuration) {
    let of = |is_kcp: bool| {
        let providers = configuration.providers();
        let wanted = providers.filter(|(_, spec)| spec.is_kcp() == is_kcp);
        let names: Vec<String> = wanted
            .map(|(document, _)| document.identity.to_string())
            .collect();
        names.join(", ")
    };
    let names: Vec<String> = simulated.names().into_iter().collect();
    let mut clusters = names.clone();
    clusters.extend(simulated.local.as_ref().map(|_| "the local one".to_owned()));
    if !clusters.is_empty() {
        let instead = match of(false) {
            none if none.is_empty() => none,
            providers => format!(" instead of {providers}"),
        };
        anstream::println!(
            "{}{instead}: {}",
            Tone::Bold.paint(count(clusters.len() as u64, "in-memory cluster")),
            clusters.join(", ")
        );
    }
    let workspaces = simulated.workspaces();
    if !workspaces.is_empty() {
        anstream::println!(
            "{} on two shards, which {} reads: {}",
            Tone::Bold.paint("in-memory kcp"),
            of(true),
            workspaces.join(", ")
        );
    }
    let each = if workspaces.is_empty() {
        "cluster"
    } else {
        "cluster and workspace"
    };
    if !configuration.has(Kind::Reconciler) {
        anstream::println!(
            "there is no Reconciler yet: the clusters run for themselves, and for kubectl"
        );
    }
    let kubeconfig = simulated.kubeconfig().display();
    anstream::println!("kubeconfig: {kubeconfig}, a context for each {each}");
    let local = simulated.local.as_ref().map(|_| LOCAL);
    let last = workspaces.last().map(String::as_str);
    if let Some(first) = names.first().map(String::as_str).or(local).or(last) {
        anstream::println!(
            "try: {}",
            Tone::Bold.paint(format!(
                "kubectl --kubeconfig {kubeconfig} --context {first} get configmaps -A"
            ))
        );
    }
}
