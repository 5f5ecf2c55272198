//! `windlass test`: runs a guest's component against an in-memory fleet, and compares the result. Entry point: [`execute`].

mod answers;
mod crash;
mod junit;
mod recordings;
pub(super) mod runner;

use crate::cli::{Format, TestArgs};
use crate::dev::builder;
use crate::guests::{Lack, lacks};
use crate::output::{Tone, count};
use crate::run;
use crate::run::signals::stop_on_signals;
use anyhow::{Context, Result, bail};
use crash::Crash;
use recordings::{Recordings, is_name};
use runner::{Outcome, Runner, configuration};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;
use windlass_author::cases::{Case, DOCUMENTS};
use windlass_author::guest_build::state_folder;
use windlass_files::{STATE, Target, Watch};
use windlass_fleet::Rule;
use windlass_sandbox::Options;

/// What the tests were denied, for `windlass check -f`; in the project's folder of state.
const DENIED: &str = "denied.json";

/// The results of all cases.
#[derive(Debug, Serialize)]
struct Report {
    passed: usize,
    failed: usize,
    cases: Vec<Outcome>,
    /// The seed of a test under faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

impl Report {
    /// Adds the result of a case, and prints it for people.
    fn take(&mut self, outcome: Outcome, format: Format) {
        if format != Format::Json {
            print(&outcome);
        }
        self.passed += usize::from(outcome.passed);
        self.failed += usize::from(!outcome.passed);
        self.cases.push(outcome);
    }
}

/// Builds the guests of the cases, and runs one case after the other.
///
/// # Errors
/// When there is no case, one cannot be read, or a guest does not build.
pub(crate) async fn execute(args: TestArgs, format: Format, engine: Options) -> Result<ExitCode> {
    let stop = stop_on_signals()?;
    if args.watch {
        follow(&args, format, &engine, &stop).await
    } else {
        once(&args, format, &engine, &stop).await
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
    let configuration = configuration(&args.folder.join(DOCUMENTS));
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
    let builder = if args.watch {
        builder().for_edits(None)
    } else {
        builder()
    };
    let stop = stop.clone();
    let mut runner = Runner::new(&args.folder, args.timeout, builder, engine.clone(), stop);
    let mut report = Report {
        passed: 0,
        failed: 0,
        cases: Vec::new(),
        seed: None,
    };
    let file = args.folder.join(DOCUMENTS);
    let mut denied = Vec::new();
    let recordings = Recordings::of(&args.folder, &args.cases)?;
    let cases = cases(args, &recordings)?;
    let mut search = args.crash.search(cases.len());
    for case in cases {
        let outcome = match &mut search {
            Some(search) => search.of(&mut runner, &case).await?,
            None if case.faults.is_empty() => runner.run(&case).await?,
            None => crash::replay(&mut runner, &case).await?,
        };
        // A case with documents of its own has rules of its own.
        if case.configuration(&args.folder) == file {
            denied.extend(outcome.denied.clone());
        }
        report.take(outcome, format);
    }
    // A recording has one world, in which nothing misbehaves.
    if search.is_none() {
        for outcome in recordings.run(&mut runner, engine.clone()).await? {
            report.take(outcome, format);
        }
    }
    report.seed = search.map(|search| search.seed);
    let denied = joined(denied);
    if !args.crash.crash {
        keep_denials(&args.folder, &denied)?;
    }
    if let Some(file) = &args.junit {
        let written = std::fs::write(file, junit::text(&report));
        written.with_context(|| format!("write {}", file.display()))?;
    }
    if format == Format::Json {
        anstream::println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_sum(&report, &denied);
    }
    Ok(if report.failed == 0 {
        super::DONE
    } else {
        super::FAILED
    })
}

/// The cases to run: those with the given names, or all. A project may have recordings alone.
fn cases(args: &TestArgs, recordings: &Recordings) -> Result<Vec<Case>> {
    let names = args.cases.iter().filter(|name| !is_name(name));
    let names: Vec<String> = names.cloned().collect();
    let only_recordings = if args.cases.is_empty() {
        !recordings.is_empty() && !Case::exist(&args.folder)
    } else {
        names.is_empty()
    };
    if only_recordings && args.crash.crash {
        bail!("recordings do not run under faults: leave out --crash, or name another test");
    }
    if only_recordings {
        return Ok(Vec::new());
    }
    Case::all(&args.folder, &names)
}

/// Each reconciler once, each rule once, sorted by their text.
fn joined(denied: Vec<Lack>) -> Vec<Lack> {
    let mut all: BTreeMap<String, BTreeMap<String, Rule>> = BTreeMap::new();
    for Lack { reconciler, rules } in denied {
        let rules = rules.into_iter().map(|rule| (rule.to_string(), rule));
        all.entry(reconciler).or_default().extend(rules);
    }
    let lacks = all.into_iter().map(|(reconciler, rules)| Lack {
        reconciler,
        rules: rules.into_values().collect(),
    });
    lacks.collect()
}

/// Keeps what was denied to the tests of a project until they run again.
fn keep_denials(project: &Path, denied: &[Lack]) -> Result<()> {
    let denied = denied.iter().map(|lack| (&lack.reconciler, &lack.rules));
    let text = serde_json::to_vec(&denied.collect::<BTreeMap<_, _>>())?;
    let keep = || {
        let state = state_folder(project)?;
        let mut fresh = NamedTempFile::new_in(&state)?;
        fresh.write_all(&text)?;
        // Not through a link that a repository may have here.
        fresh.persist(state.join(DENIED))?;
        std::io::Result::Ok(())
    };
    keep().with_context(|| {
        let folder = project.join(STATE);
        format!(
            "write {DENIED} into {}: check who may write there",
            folder.display()
        )
    })
}

/// What the last run of the tests of a project was denied, by reconciler. Nothing where they have not run, or another version wrote it.
pub(super) fn kept_denials(project: &Path) -> BTreeMap<String, Vec<Rule>> {
    let file: PathBuf = project.join(STATE).join(DENIED);
    let text = std::fs::read(file).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn print(outcome: &Outcome) {
    let word = if outcome.passed {
        Tone::Good.paint("ok    ")
    } else {
        Tone::Bad.paint("FAILED")
    };
    let tried = outcome.crash.as_ref().map(Crash::tried).unwrap_or_default();
    anstream::println!(
        "{word}  {}  ({:.1} s){tried}",
        outcome.name,
        outcome.seconds
    );
    for line in junit::reasons(outcome).lines() {
        anstream::println!("        {line}");
    }
}

fn print_sum(report: &Report, denied: &[Lack]) {
    let tests = count((report.passed + report.failed) as u64, "test");
    let tests = match report.seed {
        Some(seed) => format!("{tests} under faults, seed {seed}"),
        None => tests,
    };
    if report.failed == 0 {
        anstream::println!("{} {tests}", Tone::Good.paint("passed"));
        return;
    }
    anstream::println!("{} {} of {tests}", Tone::Bad.paint("failed"), report.failed);
    if !denied.is_empty() {
        anstream::println!(
            "{}\nwindlass rules finds all that the tests need, and writes it",
            lacks(denied).trim_end()
        );
    }
    anstream::println!("--log info shows the log lines of the guest");
}
