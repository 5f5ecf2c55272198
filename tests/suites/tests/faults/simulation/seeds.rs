//! Runs seeds, each in a process of its own. Entry point: [`Seeds::run`].

use anyhow::{Context as _, Result, bail, ensure};
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

const SEED: &str = "WINDLASS_SIMULATED_SEED";
const WITHOUT: &str = "WINDLASS_SIMULATED_WITHOUT";
const LOG: &str = "WINDLASS_SIMULATED_LOG";
/// Set by `./test --simulate`.
const COUNT: &str = "WINDLASS_SIMULATE";
const FIRST: &str = "WINDLASS_SIMULATE_FROM";

/// What a process prints once its run has ended.
const ENDED: &str = "simulated-run:";
/// What it prints before.
const STEPS: &str = "simulated-steps:";

/// Runs that a failure is shortened by.
const SHORTENING: usize = 30;

/// What one process has to do.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) seed: u64,
    /// Steps of the plan that are left out.
    pub(super) without: BTreeSet<usize>,
    /// Where its log is written.
    pub(super) log: Option<PathBuf>,
}

/// How one run ended.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) hours: f64,
    pub(super) seconds: f64,
    digest: String,
}

impl Outcome {
    /// Tells the process that started this one of how many steps its plan is.
    pub(super) fn begin(steps: usize) {
        println!("{STEPS} {steps}");
    }

    /// Tells it how the run ended.
    pub(super) fn print(hours: f64, digest: &str) -> Result<()> {
        println!("{ENDED} {hours} {} {digest}", processor()?);
        Ok(())
    }

    fn read(printed: &str) -> Option<Self> {
        let mut words = after(printed, ENDED)?.split(' ');
        Some(Self {
            hours: words.next()?.parse().ok()?,
            seconds: words.next()?.parse().ok()?,
            digest: words.next()?.to_owned(),
        })
    }
}

/// The seeds of one test.
pub(super) struct Seeds {
    test: &'static str,
    count: Option<usize>,
    first: u64,
    /// Further variables of each process.
    variables: Vec<(&'static str, PathBuf)>,
}

impl Seeds {
    /// `test`: its full name.
    pub(super) fn of(test: &'static str) -> Result<Self> {
        Ok(Self {
            test,
            count: number(COUNT)?.map(usize::try_from).transpose()?,
            first: number(FIRST)?.unwrap_or(1),
            variables: Vec::new(),
        })
    }

    /// Gives each process a path in a variable.
    pub(super) fn give(&mut self, variable: &'static str, path: PathBuf) {
        self.variables.push((variable, path));
    }

    /// What this process has to do, if it is one of a single seed.
    pub(super) fn task() -> Result<Option<Task>> {
        let Some(seed) = number(SEED)? else {
            return Ok(None);
        };
        let without = std::env::var(WITHOUT).unwrap_or_default();
        let without = without.split_terminator(',').map(str::parse);
        Ok(Some(Task {
            seed,
            without: without.collect::<Result<_, _>>()?,
            log: std::env::var_os(LOG).map(PathBuf::from),
        }))
    }

    /// Runs so many seeds, on all processors; the first of them twice. A failure is run again with fewer and fewer steps.
    pub(super) fn run(&self, count: usize, twice: usize) -> Result<Vec<Outcome>> {
        let count = self.count.unwrap_or(count);
        let last = self.first + u64::try_from(count)?;
        let twice = self.first + u64::try_from(twice)?;
        let waiting = Mutex::new((self.first..last).collect::<VecDeque<_>>());
        let processors = std::thread::available_parallelism()?.get();
        let work = || -> Result<Vec<Outcome>> {
            let mut outcomes = Vec::new();
            loop {
                let next = waiting
                    .lock()
                    .map_or(None, |mut waiting| waiting.pop_front());
                let Some(seed) = next else {
                    return Ok(outcomes);
                };
                let outcome = self.one(seed, seed < twice);
                if outcome.is_err()
                    && let Ok(mut waiting) = waiting.lock()
                {
                    waiting.clear();
                }
                outcomes.push(outcome?);
            }
        };
        let ended = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
            let ended = workers.into_iter().map(|worker| worker.join());
            ended.collect::<Vec<_>>()
        });
        let mut outcomes = Vec::new();
        for worker in ended {
            match worker {
                Ok(of_worker) => outcomes.extend(of_worker?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        ensure!(outcomes.len() == count, "not every seed ran");
        Ok(outcomes)
    }

    fn one(&self, seed: u64, twice: bool) -> Result<Outcome> {
        let folder = tempfile::tempdir()?;
        let task = |log: &str| Task {
            seed,
            without: BTreeSet::new(),
            log: twice.then(|| folder.path().join(log)),
        };
        let first = match self.process(&task("first"))? {
            Ended::Well(outcome) => outcome,
            Ended::Badly { output, steps } => {
                let shortest = self.shorten(seed, steps)?;
                bail!(
                    "seed {seed} failed:\n{output}\nagain with: ./test --simulate 1 --seed {seed}\n{shortest}"
                );
            }
        };
        if twice
            && let Ended::Well(again) = self.process(&task("second"))?
            && again.digest != first.digest
        {
            let log = |name: &str| std::fs::read_to_string(folder.path().join(name));
            let (one, other) = (log("first")?, log("second")?);
            let mut lines = one.lines().zip(other.lines());
            bail!(
                "seed {seed} was another run the second time, from here on: {:#?}",
                lines.find(|(one, other)| one != other)
            );
        }
        Ok(first)
    }

    /// The fewest steps found with which a seed still fails.
    fn shorten(&self, seed: u64, steps: usize) -> Result<String> {
        let mut kept: Vec<usize> = (0..steps).collect();
        let (mut runs, mut size) = (0, steps.div_ceil(2).max(1));
        while runs < SHORTENING && size > 0 {
            let mut at = 0;
            while at < kept.len() && runs < SHORTENING {
                let end = (at + size).min(kept.len());
                let fewer: Vec<usize> = [&kept[..at], &kept[end..]].concat();
                let without = (0..steps).filter(|step| fewer.binary_search(step).is_err());
                let task = Task {
                    seed,
                    without: without.collect(),
                    log: None,
                };
                runs += 1;
                if matches!(self.process(&task)?, Ended::Badly { .. }) {
                    kept = fewer;
                } else {
                    at = end;
                }
            }
            size /= 2;
        }
        Ok(format!("fewest steps found that fail: {kept:?}"))
    }

    fn process(&self, task: &Task) -> Result<Ended> {
        let without: Vec<String> = task.without.iter().map(ToString::to_string).collect();
        // Other tests of this binary go by the machine's clock.
        let mut command = Command::new("nice");
        command
            .arg(std::env::current_exe()?)
            .args([self.test, "--exact", "--nocapture"])
            .env(SEED, task.seed.to_string())
            .env(WITHOUT, without.join(","))
            .envs(self.variables.iter().cloned())
            // Errors that are waited through would be traced, each time.
            .env("RUST_BACKTRACE", "0");
        if let Some(log) = &task.log {
            command.env(LOG, log);
        }
        let output = command.output().context("start a process for a seed")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (printed, errors) = (text(&output.stdout), text(&output.stderr));
        if let Some(outcome) = Outcome::read(&printed).filter(|_| output.status.success()) {
            return Ok(Ended::Well(outcome));
        }
        let steps = after(&printed, STEPS).and_then(|steps| steps.parse().ok());
        Ok(Ended::Badly {
            output: printed + &errors,
            steps: steps.unwrap_or_default(),
        })
    }
}

enum Ended {
    Well(Outcome),
    Badly { output: String, steps: usize },
}

/// The rest of the line that begins so.
fn after<'a>(printed: &'a str, begin: &str) -> Option<&'a str> {
    let line = printed.lines().find_map(|line| line.strip_prefix(begin));
    line.map(str::trim)
}

fn number(variable: &str) -> Result<Option<u64>> {
    let Ok(text) = std::env::var(variable) else {
        return Ok(None);
    };
    let number = text.parse();
    number
        .map(Some)
        .with_context(|| format!("{variable} must be a number, not {text:?}"))
}

/// Seconds of processor that this process has used, by the kernel's count: its own clock is simulated.
fn processor() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("a line without a name")?;
    let ticks = fields.split_ascii_whitespace().skip(11).take(2);
    let ticks = ticks.map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / 100.0)
}
