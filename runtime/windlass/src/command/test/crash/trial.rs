//! One run of a case under faults, to its end. Entry point: [`Stage::trial`].

use super::door::{CrashDoor, Made};
use crate::cli::IdleArgs;
use crate::config::kinds::Interval;
use crate::config::load::Configuration;
use crate::dev;
use crate::run::idle::Report;
use crate::run::{self, Pace, RunOptions, Then};
use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use windlass_author::cases::{
    Case, Difference, Effect, Fault, HttpAnswers, Noise, Pause, Script, State,
};
use windlass_author::seed::Seed;
use windlass_author::simulated::{SeenEvent, Simulated};
use windlass_sandbox::{Doorkeeper, GuestClock, NativeGuests, Options};

/// How often a trial looks whether nothing is left to do.
const IDLE_INTERVAL: Duration = Duration::from_millis(20);

/// How many times in a row it must be so. The caches are compared with the servers each time.
const IDLE_TIMES: u32 = 2;

/// The same where Providers find workspaces of kcp: they learn of one by watches of their own, which nothing is compared with.
const IDLE_TIMES_OF_WORKSPACES: u32 = 6;

/// Instances of guests at a time: one key runs at a time.
const INSTANCES: u32 = 32;

/// How far the clock moves once all steps are done, so that requeues after some time count too.
const LATER: Duration = Duration::from_secs(10 * 60);

/// How often it moves again while the end is not the expected one.
const MORE_TIME: u32 = 2;

/// The time in which a resync reaches the queue.
const RESYNC: Duration = Duration::from_millis(30);

/// Failures of a key in a row after which a further try is of no use.
const MOST_FAILURES: u32 = 10;

/// What all trials of a case have in common.
pub(in crate::command::test) struct Stage {
    pub(in crate::command::test) case: Case,
    pub(in crate::command::test) file: PathBuf,
    pub(in crate::command::test) configuration: Configuration,
    pub(in crate::command::test) seed: Seed,
    pub(in crate::command::test) timeout: Interval,
    pub(in crate::command::test) engine: Options,
    pub(in crate::command::test) stop: CancellationToken,
}

/// How a case ends without faults.
pub(super) struct Usual {
    pub(super) state: State,
    pub(super) noise: Noise,
}

/// How a run under faults ended.
pub(super) struct Trial {
    /// None: the steps did not come to their end.
    pub(super) state: Option<State>,
    /// What a further resync wrote.
    pub(super) rewritten: Vec<Difference>,
    /// What differs from what the steps expect, where that counts.
    pub(super) differences: Vec<Difference>,
    /// Keys that fail, work that does not end.
    pub(super) problems: Vec<String>,
    /// Why a step could not be done.
    pub(super) impossible: Option<String>,
    pub(super) made: Vec<Made>,
    pub(super) events: Vec<SeenEvent>,
    /// How many faults have struck.
    pub(super) struck: usize,
    /// In how many places somebody changed an object.
    pub(super) changes: usize,
}

/// The steps of a case, and what follows them.
struct Course {
    fleet: Arc<Simulated>,
    door: Arc<CrashDoor>,
    script: Script,
    usual: Option<Arc<Usual>>,
    part: Part,
    end: Option<State>,
    events: Vec<SeenEvent>,
    rewritten: Vec<Difference>,
}

/// What comes next.
enum Part {
    Steps,
    /// The clock has moved so often.
    Later(u32),
    Resynced,
}

impl Course {
    fn next(&mut self) -> Option<Then> {
        // A Provider that reads the past does not know yet that something is left to do.
        if let Some(wait) = self.fleet.behind() {
            return Some(then(wait, Duration::ZERO, false));
        }
        match self.part {
            Part::Steps => {
                if let Some(Pause { wait, clock }) = self.script.next(&self.fleet) {
                    return Some(then(wait, clock, false));
                }
                if self.script.problem.is_some() || !self.script.differences.is_empty() {
                    return None;
                }
                self.part = Part::Later(0);
                Some(self.later())
            }
            Part::Later(times) => {
                let state = State::of(&self.fleet);
                if times < MORE_TIME && self.is_other(&state) {
                    self.part = Part::Later(times + 1);
                    return Some(self.later());
                }
                self.end = Some(state);
                self.door.end();
                self.events = self.fleet.events();
                self.part = Part::Resynced;
                Some(then(RESYNC, Duration::ZERO, true))
            }
            Part::Resynced => {
                let end = self.end.as_ref()?;
                self.rewritten = State::of(&self.fleet).written_since(end);
                None
            }
        }
    }

    fn is_other(&self, state: &State) -> bool {
        self.usual.as_ref().is_some_and(|usual| {
            let differences = usual.state.differences(state, &usual.noise);
            !differences.is_empty()
        })
    }

    fn later(&self) -> Then {
        self.fleet.advance(LATER);
        then(Duration::ZERO, LATER, false)
    }
}

fn then(wait: Duration, clock: Duration, resync: bool) -> Then {
    Then {
        wait,
        clock,
        resync,
    }
}

impl Stage {
    /// Runs the case without faults, and compares it with what its steps expect.
    ///
    /// # Errors
    /// When nothing can start, or a signal comes.
    pub(super) async fn performance(&self) -> Result<Trial> {
        self.run(&[], self.case.script(), None).await
    }

    /// Runs the case under faults. `usual`: its end without them.
    ///
    /// # Errors
    /// When nothing can start, or a signal comes.
    pub(super) async fn trial(
        &self,
        faults: &[Fault],
        usual: Option<&Arc<Usual>>,
    ) -> Result<Trial> {
        let script = self.case.script().unchecked();
        self.run(faults, script, usual.cloned()).await
    }

    async fn run(
        &self,
        faults: &[Fault],
        script: Script,
        usual: Option<Arc<Usual>>,
    ) -> Result<Trial> {
        let folder = tempfile::tempdir().context("make a folder for a run")?;
        let (fleet, _) = dev::fleet(&self.seed, &self.configuration, 0, folder.path()).await?;
        fleet.watch_events(late(faults));
        let http = HttpAnswers::new(self.case.http.clone());
        let door = Arc::new(CrashDoor::new(fleet.clone(), faults, http));
        let course = Arc::new(Mutex::new(Course {
            fleet: fleet.clone(),
            door: door.clone(),
            script,
            usual,
            part: Part::Steps,
            end: None,
            events: Vec::new(),
            rewritten: Vec::new(),
        }));
        let report = self.processes(&fleet, &door, &course).await;
        let Report {
            failing,
            problems,
            busy,
            ..
        } = report?;
        let failing = failing
            .iter()
            .map(|key| format!("{} ({}): {}", key.key, key.state, key.last_error));
        let mut course = course.lock();
        Ok(Trial {
            state: course.end.take(),
            rewritten: std::mem::take(&mut course.rewritten),
            differences: std::mem::take(&mut course.script.differences),
            problems: failing.chain(problems).chain(busy).collect(),
            impossible: course.script.problem.take(),
            made: door.made(),
            struck: door.struck(),
            changes: door.changes(),
            events: std::mem::take(&mut course.events),
        })
    }

    /// Runs one process after the other, until one has come to the end.
    async fn processes(
        &self,
        fleet: &Arc<Simulated>,
        door: &Arc<CrashDoor>,
        course: &Arc<Mutex<Course>>,
    ) -> Result<Report> {
        // Guests go on with the time that the processes before had.
        let clock = GuestClock::default();
        loop {
            let process = self.stop.child_token();
            door.begin(process.clone());
            let steps = course.clone();
            let stand_ins = dev::stand_ins(fleet, &self.configuration)?;
            let report = run::run(RunOptions {
                files: vec![self.file.clone()],
                from_cluster: false,
                simulated: Some(Arc::new(stand_ins)),
                rebuild: None,
                found_in: None,
                admin: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
                idle: IdleArgs {
                    exit_when_idle: true,
                    idle_timeout: self.timeout,
                },
                gives_up: Some(MOST_FAILURES),
                then: Some(Box::new(move || steps.lock().next())),
                pace: Pace {
                    idle_interval: IDLE_INTERVAL,
                    idle_times: if self.seed.has_workspaces() {
                        IDLE_TIMES_OF_WORKSPACES
                    } else {
                        IDLE_TIMES
                    },
                    is_serial: true,
                },
                needs: None,
                rehearsal: None,
                natives: NativeGuests::default(),
                engine: Options {
                    clock: clock.clone(),
                    instances: INSTANCES,
                    door: Doorkeeper::new(door.clone()),
                    ..self.engine.clone()
                },
                stop: process,
            });
            match report.await? {
                Some(report) if !door.restarts() => return Ok(report),
                _ if self.stop.is_cancelled() => bail!("interrupted"),
                _ if door.restarts() => {}
                _ => bail!("a run ended early"),
            }
        }
    }
}

/// The events that are to come late.
fn late(faults: &[Fault]) -> Vec<SeenEvent> {
    let merges = faults.iter().filter(|it| it.fault == Effect::Merge);
    let events = merges.map(|fault| SeenEvent {
        cluster: fault.cluster.clone(),
        at: fault.at.clone(),
        number: fault.number,
    });
    events.collect()
}
