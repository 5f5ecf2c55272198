//! Runs the cases of a project. Entry point: [`Runner`].

use super::answers::AnswersDoor;
use super::crash::{Crash, Stage};
use crate::cli::IdleArgs;
use crate::command::replay::Guests;
use crate::config::kinds::Interval;
use crate::config::load::{Configuration, load, merge};
use crate::dev;
use crate::guests::{Lack, ReconcilerNeeds};
use crate::run::{self, Pace, RunOptions, Then};
use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_author::cases::{Case, DOCUMENTS, Difference, Pause};
use windlass_author::guest_build::{GuestBuilder, build, state_folder};
use windlass_author::seed::unreadable;
use windlass_sandbox::{Doorkeeper, GuestClock, NativeGuests, Options};

/// After so many failures in a row, within some seconds, a further attempt is no use either: in memory nobody else changes anything.
const MOST_FAILURES: u32 = 10;

/// The result of one case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::command) struct Outcome {
    pub(in crate::command) name: String,
    pub(in crate::command) passed: bool,
    pub(super) seconds: f64,
    pub(super) differences: Vec<Difference>,
    /// Other problems: keys that fail, documents that are not in effect, work that does not end.
    pub(super) problems: Vec<String>,
    /// What was denied to its reconcilers.
    pub(in crate::command) denied: Vec<Lack>,
    /// What a test under faults tried, and what it found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) crash: Option<Crash>,
}

/// Runs cases of one project.
pub(in crate::command) struct Runner {
    project: PathBuf,
    /// How long a case may take until nothing is left to do.
    timeout: Interval,
    builder: GuestBuilder,
    engine: Options,
    stop: CancellationToken,
    needs: Option<ReconcilerNeeds>,
    /// The guests that are built already.
    built: BTreeSet<PathBuf>,
}

impl Runner {
    pub(in crate::command) fn new(
        project: &Path,
        timeout: Interval,
        builder: GuestBuilder,
        engine: Options,
        stop: CancellationToken,
    ) -> Self {
        Self {
            project: project.to_owned(),
            timeout,
            builder,
            engine,
            stop,
            needs: None,
            built: BTreeSet::new(),
        }
    }

    /// The same, which notes what rules do not grant, and allows it.
    pub(in crate::command) fn noting(self, needs: ReconcilerNeeds) -> Self {
        Self {
            needs: Some(needs),
            ..self
        }
    }

    /// Builds the guests of a case unless that is done, runs them over its fleet, and takes its steps, one each time that nothing is left to
    /// do.
    ///
    /// # Errors
    /// When the documents cannot be read, a guest does not build, nothing can start, or a signal comes.
    pub(in crate::command) async fn run(&mut self, case: &Case) -> Result<Outcome> {
        let file = case.configuration(&self.project);
        let configuration = configuration(&file)?;
        self.build(&configuration).await?;
        let seed = case.seed(dev::asked(&configuration))?;
        let start = Instant::now();
        // Not the folder with the kubeconfig of `dev`, which may be running.
        let state = state_folder(&self.project).context("make the folder .windlass")?;
        let state = state.join("tests").join(&case.name);
        std::fs::create_dir_all(&state).with_context(|| format!("make {}", state.display()))?;
        let (fleet, stand_ins) = dev::fleet(&seed, &configuration, 0, &state).await?;
        let script = Arc::new(Mutex::new(case.script()));
        let steps = script.clone();
        let options = RunOptions {
            files: vec![file],
            from_cluster: false,
            simulated: Some(stand_ins),
            rebuild: None,
            found_in: None,
            admin: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            idle: IdleArgs {
                exit_when_idle: true,
                idle_timeout: self.timeout,
            },
            gives_up: Some(MOST_FAILURES),
            then: Some(Box::new(move || {
                let Pause { wait, clock } = steps.lock().next(&fleet)?;
                Some(Then {
                    wait,
                    clock,
                    resync: false,
                })
            })),
            pace: Pace::default(),
            needs: self.needs.clone(),
            rehearsal: None,
            natives: NativeGuests::default(),
            engine: Options {
                // Each case begins with the machine's time.
                clock: GuestClock::default(),
                door: Doorkeeper::new(Arc::new(AnswersDoor::new(case))),
                ..self.engine.clone()
            },
            stop: self.stop.clone(),
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
            denied: report.denied,
            crash: None,
        })
    }

    /// What the runs of a case under faults have in common, once its guests are built.
    ///
    /// # Errors
    /// When the documents or the seed cannot be read, or a guest does not build.
    pub(super) async fn stage(&mut self, case: &Case) -> Result<Stage> {
        let file = case.configuration(&self.project);
        let configuration = configuration(&file)?;
        self.build(&configuration).await?;
        Ok(Stage {
            seed: case.seed(dev::asked(&configuration))?,
            case: case.clone(),
            file,
            configuration,
            timeout: self.timeout,
            engine: self.engine.clone(),
            // A search ends its own runs once it has found something.
            stop: self.stop.child_token(),
        })
    }

    /// The components of the guests of the project, which are built.
    ///
    /// # Errors
    /// When the documents cannot be read, or a guest does not build.
    pub(super) async fn guests(&mut self) -> Result<Guests> {
        let configuration = configuration(&self.project.join(DOCUMENTS))?;
        self.build(&configuration).await?;
        Guests::built(&configuration)
    }

    async fn build(&mut self, configuration: &Configuration) -> Result<()> {
        for folder in run::source_folders(configuration) {
            let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            if self.built.insert(real) {
                let building = build(&folder, &self.builder);
                let building = self.stop.run_until_cancelled(building);
                building.await.context("interrupted")??;
            }
        }
        Ok(())
    }
}

/// The documents of a file; all must be valid.
pub(in crate::command) fn configuration(file: &Path) -> Result<Configuration> {
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
    Err(unreadable("the configuration", &merged.problems))
}
