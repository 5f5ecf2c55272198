//! A subject in a process of its own. Entry points: [`prepare`], [`Subject::start`] and [`run_if_asked`].

use super::work::Given;
use super::{echo, peer, program};
use crate::usage::Usage;
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use windlass_harness::program::Program;
use windlass_harness::testenv;

const SUBJECT: &str = "--subject";
/// What a subject other than the program prints once it has looked at everything.
const SETTLED: &str = "settled";
/// Longest wait for that: multicluster-runtime engages hundreds of workspaces one after the other.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// The library kube-rs, in this process's own code.
pub(crate) const KUBE_RS: &str = "kube-rs";
/// The library multicluster-runtime, in the program of `tests/testenv/mcr`.
pub(crate) const GO: &str = "go";
/// The library `windlass-fleet`, in this process's own code.
const NATIVE: &str = "native";
/// The shipped program, with a guest.
pub(crate) const PROGRAM: &str = "program";

/// What can be measured.
pub(crate) const KINDS: [&str; 4] = [KUBE_RS, GO, NATIVE, PROGRAM];
/// What the others are measured beside.
pub(crate) const RIVALS: [&str; 2] = [KUBE_RS, GO];

/// Finds the programs of these subjects, or builds what cargo builds.
///
/// # Errors
/// When one is missing; the error names the command that builds it.
pub(crate) fn prepare(kinds: &[&str]) -> Result<()> {
    if kinds.contains(&GO) {
        testenv::mcr()?;
    }
    if kinds.contains(&PROGRAM) {
        program::prepare()?;
    }
    Ok(())
}

/// A running subject; it ends with this value.
pub(crate) struct Subject {
    kind: &'static str,
    process: Program,
    started: Instant,
}

impl Subject {
    /// Starts one. What it keeps from one start to the next goes into the folder.
    pub(crate) fn start(kind: &'static str, given: &Given, folder: &Path) -> Result<Self> {
        let (started, process) = match kind {
            PROGRAM => program::start(given, folder)?,
            GO => {
                let mut command = Command::new(testenv::mcr()?);
                command.arg(serde_json::to_string(given)?);
                begin(command)?
            }
            own => {
                // This very program again.
                let mut command = Command::new(std::env::current_exe()?);
                command.args(arguments(own, given)?);
                begin(command)?
            }
        };
        Ok(Self {
            kind,
            process,
            started,
        })
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Waits until it has looked at everything, and ends it.
    pub(crate) async fn settled(mut self, given: &Given) -> Result<()> {
        self.settled_after(given).await?;
        self.process.signal("KILL")?;
        self.process.wait(PATIENCE).await.map(drop)
    }

    /// The time from its start until it has looked at everything.
    pub(crate) async fn settled_after(&mut self, given: &Given) -> Result<Duration> {
        if self.kind == PROGRAM {
            program::settled(&mut self.process, given).await?;
        } else {
            self.process.line_with(SETTLED, PATIENCE).await?;
        }
        Ok(self.started.elapsed())
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(self.process.pid().context("the subject ended")?)
    }
}

/// What this program is given to be a subject.
pub(crate) fn arguments(kind: &str, given: &Given) -> Result<[String; 3]> {
    let given = serde_json::to_string(given)?;
    Ok([SUBJECT.to_owned(), kind.to_owned(), given])
}

fn begin(command: Command) -> Result<(Instant, Program)> {
    let started = Instant::now();
    Ok((started, Program::spawn(command.into())?))
}

/// Says that everything has been looked at.
pub(crate) struct Finished;

impl Finished {
    pub(crate) fn say(self) {
        println!("{SETTLED}");
    }
}

/// Where this process was started as a subject: works until it is killed.
pub(crate) async fn run_if_asked() -> Result<bool> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [first, kind, given] = args.as_slice() else {
        return Ok(false);
    };
    if first != SUBJECT {
        return Ok(false);
    }
    let given: Given = serde_json::from_str(given)?;
    match kind.as_str() {
        NATIVE => echo::run(&given, Finished).await?,
        KUBE_RS => peer::run(&given, Finished).await?,
        other => bail!("no subject {other:?}"),
    }
    Ok(true)
}
