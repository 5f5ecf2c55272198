//! `windlass dev`: runs guests against an in-memory fleet, and rebuilds them after every save. Entry point: [`execute`].

use crate::cli::{DevArgs, Format};
use crate::config::load::{Configuration, load, merge};
use crate::dev::guest_build::{BuildError, build};
use crate::dev::seed::{LOCAL, Seed};
use crate::dev::simulated::Simulated;
use crate::output::{Tone, count};
use crate::run::signals::stop_on_signals;
use crate::run::{self, RunOptions};
use anyhow::{Result, bail};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;
use windlass_sandbox::Options;

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
    let configuration = merge(
        &Configuration::default(),
        &load(std::slice::from_ref(&file)),
    )
    .configuration;
    let seed = Seed::of(&args.folder.join("seed"), &configuration)?;
    let stop = stop_on_signals()?;
    let built = SystemTime::now();
    let building = build_guests(&configuration);
    match stop.run_until_cancelled(building).await {
        None => return Ok(super::DONE),
        // A script cannot correct the error, and must not test the component of an earlier build.
        Some(Err(error)) if args.idle.exit_when_idle => return Err(error.into()),
        Some(_) => {}
    }
    let simulated = Simulated::start(&seed, args.port, &args.folder).await?;
    // Then standard output has only results for programs.
    if format != Format::Json {
        introduce(&simulated, &configuration);
    }
    let options = RunOptions {
        files: vec![file],
        simulated: Some(Arc::new(simulated)),
        built: Some(built),
        admin: args.admin,
        idle: args.idle,
        engine,
        stop,
    };
    super::finish(run::run(options).await?, format)
}

/// Builds every source folder, and prints every error. Returns the first one.
async fn build_guests(configuration: &Configuration) -> Result<(), BuildError> {
    let mut outcome = Ok(());
    for folder in run::source_folders(configuration) {
        if let Err(error) = build(&folder).await {
            tracing::error!(guest = %folder.display(), %error, "build failed");
            outcome = outcome.and(Err(error));
        }
    }
    outcome
}

/// Prints the addresses of the fleet and commands to try.
fn introduce(simulated: &Simulated, configuration: &Configuration) {
    let names: Vec<String> = simulated.names().into_iter().collect();
    let instead: Vec<String> = configuration
        .providers()
        .map(|(document, _)| document.identity.to_string())
        .collect();
    let instead = if instead.is_empty() {
        String::new()
    } else {
        format!(" instead of {}", instead.join(", "))
    };
    let mut clusters = names.clone();
    clusters.extend(simulated.local.as_ref().map(|_| "the local one".to_owned()));
    anstream::println!(
        "{}{instead}: {}",
        Tone::Bold.paint(count(clusters.len() as u64, "in-memory cluster")),
        clusters.join(", ")
    );
    anstream::println!(
        "kubeconfig: {}, a context for each cluster",
        simulated.kubeconfig.display()
    );
    let local = simulated.local.as_ref().map(|_| LOCAL);
    if let Some(first) = names.first().map(String::as_str).or(local) {
        let kubeconfig = simulated.kubeconfig.display();
        anstream::println!(
            "try: {}",
            Tone::Bold.paint(format!(
                "kubectl --kubeconfig {kubeconfig} --context {first} get configmaps -A"
            ))
        );
    }
}
