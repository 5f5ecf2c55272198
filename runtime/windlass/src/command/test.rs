//! `windlass test`: runs a guest's component against an in-memory fleet, and compares the result. Entry point: [`execute`].

mod junit;
pub(super) mod runner;

use crate::cli::{Format, TestArgs};
use crate::dev::cases::Case;
use crate::output::{Tone, count};
use crate::run;
use crate::run::signals::stop_on_signals;
use crate::watch::{Target, Watch};
use anyhow::{Context, Result};
use runner::{Outcome, Runner, configuration};
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;
use windlass_sandbox::Options;

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
    let mut runner = Runner::new(&args.folder, args.timeout, engine.clone(), stop.clone());
    let mut report = Report {
        passed: 0,
        failed: 0,
        cases: Vec::new(),
    };
    for case in Case::all(&args.folder, &args.cases)? {
        let outcome = runner.run(&case).await?;
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
