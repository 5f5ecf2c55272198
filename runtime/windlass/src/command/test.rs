//! `windlass test`: runs a guest's component against an in-memory fleet, and compares the result. Entry point: [`execute`].

mod junit;

use crate::cli::{Format, IdleArgs, TestArgs};
use crate::config::load::{Configuration, load, merge};
use crate::dev::cases::{Case, Difference};
use crate::dev::guest_build::{build, state_folder};
use crate::dev::seed::Seed;
use crate::dev::simulated::Simulated;
use crate::output::{Tone, count};
use crate::run::signals::stop_on_signals;
use crate::run::{self, RunOptions};
use crate::watch::{Target, Watch};
use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_sandbox::Options;

/// The result of one case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    name: String,
    passed: bool,
    seconds: f64,
    differences: Vec<Difference>,
    /// Other problems: keys that fail, documents that are not in effect, work that does not end.
    problems: Vec<String>,
}

/// The results of all cases.
#[derive(Debug, Serialize)]
struct Report {
    passed: usize,
    failed: usize,
    cases: Vec<Outcome>,
}

/// Builds the guests of the cases, and runs one case after the other.
///
/// # Errors
/// When there is no case, one cannot be read, or a guest does not build.
pub(crate) async fn execute(args: TestArgs, format: Format, engine: Options) -> Result<ExitCode> {
    let stop = stop_on_signals()?;
    match args.watch {
        true => follow(&args, format, &engine, &stop).await,
        false => once(&args, format, &engine, &stop).await,
    }
}

/// Runs the cases now and after every save of the project, until a signal. Prints errors, and goes on.
async fn follow(
    args: &TestArgs,
    format: Format,
    engine: &Options,
    stop: &CancellationToken,
) -> Result<ExitCode> {
    let mut watch = Watch::start().context("watch the project")?;
    loop {
        // Before the run, so that a save during it is not missed.
        watch.set(followed(args));
        let done = once(args, format, engine, stop).await;
        if stop.is_cancelled() {
            return Ok(super::DONE);
        }
        if let Err(error) = done {
            anstream::eprintln!("{} {error:#}", Tone::Bad.paint("error:"));
        }
        if format != Format::Json {
            anstream::println!("{}", Tone::Dim.paint("waiting for a change"));
        }
        if stop.run_until_cancelled(watch.changed()).await.is_none() {
            return Ok(super::DONE);
        }
    }
}

/// The folders of the project and of the guests that it is built from.
fn followed(args: &TestArgs) -> BTreeSet<Target> {
    let configuration = configuration(&args.folder.join("windlass.yaml"));
    let guests = configuration.iter().flat_map(run::source_folders);
    let all = guests.chain([args.folder.clone()]);
    all.map(Target::Tree).collect()
}

/// Runs the cases once.
async fn once(
    args: &TestArgs,
    format: Format,
    engine: &Options,
    stop: &CancellationToken,
) -> Result<ExitCode> {
    let cases = Case::all(&args.folder, &args.cases)?;
    let mut built = BTreeSet::new();
    let mut report = Report {
        passed: 0,
        failed: 0,
        cases: Vec::new(),
    };
    for case in cases {
        let file = case.configuration(&args.folder);
        let configuration = configuration(&file)?;
        for folder in run::source_folders(&configuration) {
            let folder = folder.canonicalize().unwrap_or(folder);
            if built.insert(folder.clone()) {
                let building = stop.run_until_cancelled(build(&folder));
                building.await.context("interrupted")??;
            }
        }
        let idle = IdleArgs {
            exit_when_idle: true,
            idle_timeout: args.timeout,
        };
        let seed = case.seed(&configuration)?;
        let stop = stop.clone();
        let fleet = (seed, &configuration);
        let outcome = run(&case, file, fleet, &args.folder, idle, engine, stop).await?;
        if format != Format::Json {
            print(&outcome);
        }
        report.passed += usize::from(outcome.passed);
        report.failed += usize::from(!outcome.passed);
        report.cases.push(outcome);
    }
    if let Some(file) = &args.junit {
        let written = std::fs::write(file, junit::text(&report));
        written.with_context(|| format!("write {}", file.display()))?;
    }
    if format == Format::Json {
        anstream::println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_sum(&report);
    }
    Ok(if report.failed == 0 {
        super::DONE
    } else {
        super::FAILED
    })
}

/// The documents of a file; all must be valid.
fn configuration(file: &Path) -> Result<Configuration> {
    if !file.is_file() {
        bail!(
            "{}: no such file: write one, as `windlass new` does",
            file.display()
        );
    }
    let files = [file.to_owned()];
    let merged = merge(&Configuration::default(), &load(&files));
    if merged.problems.is_empty() {
        return Ok(merged.configuration);
    }
    Err(crate::dev::seed::unreadable(
        "the configuration",
        &merged.problems,
    ))
}

/// Runs the guests over the case's fleet, and takes the case's steps, one each time that nothing is left to do.
async fn run(
    case: &Case,
    file: PathBuf,
    (seed, configuration): (Seed, &Configuration),
    project: &Path,
    idle: IdleArgs,
    engine: &Options,
    stop: CancellationToken,
) -> Result<Outcome> {
    let start = Instant::now();
    // Not the folder with the kubeconfig of `dev`, which may be running.
    let state = state_folder(project).context("make the folder .windlass")?;
    let state = state.join("tests").join(&case.name);
    std::fs::create_dir_all(&state).with_context(|| format!("make {}", state.display()))?;
    let simulated = Arc::new(Simulated::start(&seed, configuration, 0, &state).await?);
    let script = Arc::new(Mutex::new(case.script()));
    let (steps, fleet) = (script.clone(), simulated.clone());
    let options = RunOptions {
        files: vec![file],
        from_cluster: false,
        simulated: Some(simulated),
        built: None,
        admin: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        idle,
        then: Some(Box::new(move || steps.lock().next(&fleet))),
        engine: engine.clone(),
        stop,
    };
    let Some(report) = run::run(options).await? else {
        bail!("interrupted");
    };
    let failing = report
        .failing
        .iter()
        .map(|key| format!("{} ({}): {}", key.key, key.state, key.last_error));
    let mut problems: Vec<String> = failing.chain(report.problems).chain(report.busy).collect();
    let mut script = script.lock();
    problems.extend(script.problem.take());
    let differences = std::mem::take(&mut script.differences);
    Ok(Outcome {
        name: case.name.clone(),
        passed: problems.is_empty() && differences.is_empty(),
        seconds: start.elapsed().as_secs_f64(),
        differences,
        problems,
    })
}

fn print(outcome: &Outcome) {
    let word = match outcome.passed {
        true => Tone::Good.paint("ok    "),
        false => Tone::Bad.paint("FAILED"),
    };
    anstream::println!("{word}  {}  ({:.1} s)", outcome.name, outcome.seconds);
    for line in junit::reasons(outcome).lines() {
        anstream::println!("        {line}");
    }
}

fn print_sum(report: &Report) {
    let tests = count((report.passed + report.failed) as u64, "test");
    if report.failed == 0 {
        anstream::println!("{} {tests}", Tone::Good.paint("passed"));
        return;
    }
    anstream::println!("{} {} of {tests}", Tone::Bad.paint("failed"), report.failed);
    anstream::println!("--log info shows the log lines of the guest");
}
