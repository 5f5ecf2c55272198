//! `windlass test --crash`: runs each case under faults, and compares how it ends. Entry points: [`Search`] and [`replay`].
//!
//! A case runs twice without faults: what differs between these two is noise. Then it runs once for each fault, on a fleet of its own with
//! one key at a time. The end must be the same, and a further resync must write nothing. A fault that fails is tried once more before it
//! counts, so that a race of the test itself is no finding.
//!
//! After a change by somebody the end may rightly be another one. It is compared with the end after the same change at a quiet time.

mod door;
mod faults;
mod trial;

pub(super) use trial::Stage;

use super::runner::{Outcome, Runner};
use crate::cli::CrashArgs;
use anyhow::Result;
use fastrand::Rng;
use futures::{StreamExt, stream};
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trial::{Trial, Usual};
use windlass_author::cases::{Case, Difference, Effect, Fault};

/// How long faults are tried, unless a flag says otherwise.
const BUDGET: Duration = Duration::from_secs(60);

/// Runs at the same time, each on a fleet of its own: they mostly wait.
const AT_ONCE: usize = 8;

/// The fields of a fault, as a file has them.
const FIELDS: [&str; 9] = [
    "fault",
    "in",
    "at",
    "number",
    "object",
    "behind",
    "resource",
    "reconciler",
    "request",
];

/// Objects that are shown of a failure.
const SHOWN: usize = 10;

/// What a test under faults tried.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Crash {
    /// The calls of a run without faults.
    calls: usize,
    /// Single faults that there are.
    faults: usize,
    /// Those that were tried.
    tried: usize,
    /// Those that found no call to strike, or nothing to change.
    #[serde(skip_serializing_if = "is_zero")]
    missed: usize,
    /// Runs with several faults.
    #[serde(skip_serializing_if = "is_zero")]
    combined: usize,
    /// The faults under which the case ends otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) schedule: Option<Schedule>,
}

/// The faults of a run that failed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Schedule {
    faults: Vec<Fault>,
    /// A file of `tests` that runs them again. Empty: they are of such a file.
    file: String,
}

/// How a run under faults ended otherwise.
struct Failure {
    differences: Vec<Difference>,
    problems: Vec<String>,
}

/// What a run under faults says.
enum Verdict {
    /// It ended as it does without.
    Same,
    /// A fault did not strike, or its step could not follow: nothing is known.
    Nothing,
    Other(Failure),
}

/// The search of one command.
pub(super) struct Search {
    pub(super) seed: u64,
    depth: usize,
    /// The time that is left, without that of builds.
    time: Duration,
    /// The cases that are left.
    cases: u32,
}

impl CrashArgs {
    /// The search that they ask for, in so many cases.
    pub(super) fn search(&self, cases: usize) -> Option<Search> {
        self.crash.then(|| Search {
            seed: self.seed.unwrap_or_else(|| u64::from(fastrand::u32(..))),
            depth: usize::from(self.depth.unwrap_or(1)),
            time: self.budget.map_or(BUDGET, |budget| budget.0),
            cases: u32::try_from(cases).unwrap_or(u32::MAX),
        })
    }
}

impl Search {
    /// Runs a case under faults, within its part of the time that is left.
    ///
    /// # Errors
    /// When a guest does not build, nothing can start, or a signal comes.
    pub(super) async fn of(&mut self, runner: &mut Runner, case: &Case) -> Result<Outcome> {
        let stage = runner.stage(case).await?;
        let start = Instant::now();
        let part = self.time / self.cases.max(1);
        self.cases = self.cases.saturating_sub(1);
        let outcome = if case.faults.is_empty() {
            self.search(&stage, case, part).await
        } else {
            replay(runner, case).await
        };
        // The first run may have compiled the guest, which takes long for some languages.
        self.time = self.time.saturating_sub(part.min(start.elapsed()));
        outcome
    }

    async fn search(&self, stage: &Stage, case: &Case, part: Duration) -> Result<Outcome> {
        let start = Instant::now();
        let usual = match Performed::of(stage).await? {
            Ok(usual) => usual,
            Err(failure) => return Ok(outcome(case, start, failure, None)),
        };
        let ends = Instant::now() + part;
        let mut rng = Rng::with_seed(self.seed);
        let singles = faults::singles(&usual.trial, &mut rng);
        let mut crash = Crash {
            calls: usual.trial.made.len(),
            faults: singles.len(),
            tried: 0,
            missed: 0,
            combined: 0,
            schedule: None,
        };
        let mut failed = None;
        let schedules = stream::iter(singles.iter().map(|fault| vec![fault.clone()]));
        let mut verdicts = judged(stage, &usual, schedules, ends);
        while let Some((faults, verdict)) = verdicts.next().await {
            match verdict {
                Ok(Verdict::Same) => crash.tried += 1,
                Ok(Verdict::Nothing) => crash.missed += 1,
                verdict => failed = failed.or(Some((faults, verdict))),
            }
            if failed.is_some() {
                // The others end before this returns, and leave nothing behind.
                stage.stop.cancel();
            }
        }
        drop(verdicts);
        if failed.is_none() && self.depth > 1 && singles.len() >= self.depth {
            let depth = self.depth;
            let several = std::iter::repeat_with(|| {
                let count = rng.usize(2..=depth);
                let faults = rng.choose_multiple(singles.iter(), count).into_iter();
                faults.cloned().collect::<Vec<_>>()
            });
            let mut verdicts = judged(stage, &usual, stream::iter(several), ends);
            while let Some((faults, verdict)) = verdicts.next().await {
                match verdict {
                    Ok(Verdict::Same | Verdict::Nothing) => crash.combined += 1,
                    verdict => failed = failed.or(Some((faults, verdict))),
                }
                if failed.is_some() {
                    stage.stop.cancel();
                }
            }
        }
        let failed = failed.map(|(faults, verdict)| Ok::<_, anyhow::Error>((faults, verdict?)));
        let Some((faults, Verdict::Other(failure))) = failed.transpose()? else {
            return Ok(outcome(case, start, Failure::none(), Some(crash)));
        };
        crash.schedule = Some(Schedule {
            file: file(case, &faults, self.seed),
            faults,
        });
        Ok(outcome(case, start, failure, Some(crash)))
    }
}

/// Runs a case under the faults of its own file.
///
/// # Errors
/// When a guest does not build, nothing can start, or a signal comes.
pub(super) async fn replay(runner: &mut Runner, case: &Case) -> Result<Outcome> {
    let stage = runner.stage(case).await?;
    let start = Instant::now();
    let usual = match Performed::of(&stage).await? {
        Ok(usual) => usual,
        Err(failure) => return Ok(outcome(case, start, failure, None)),
    };
    let failure = match usual.verdict(&stage, &case.faults).await? {
        Verdict::Same => Failure::none(),
        Verdict::Other(failure) => {
            let crash = Crash {
                calls: usual.trial.made.len(),
                faults: case.faults.len(),
                tried: case.faults.len(),
                missed: 0,
                combined: 0,
                schedule: Some(Schedule {
                    faults: case.faults.clone(),
                    file: String::new(),
                }),
            };
            return Ok(outcome(case, start, failure, Some(crash)));
        }
        Verdict::Nothing => Failure::of_problem(
            "its faults did not strike: the guest does not make these calls any more, or not so often; remove the file, or find new faults with windlass test --crash".to_owned(),
        ),
    };
    Ok(outcome(case, start, failure, None))
}

/// The verdicts about schedules, in their order, until the time is over. Some run at the same time.
fn judged<'a>(
    stage: &'a Stage,
    usual: &'a Performed,
    schedules: impl stream::Stream<Item = Vec<Fault>> + 'a,
    ends: Instant,
) -> stream::LocalBoxStream<'a, (Vec<Fault>, Result<Verdict>)> {
    let running = schedules
        .take_while(move |_| {
            let goes_on = Instant::now() < ends && !stage.stop.is_cancelled();
            std::future::ready(goes_on)
        })
        .map(move |faults| async move {
            let verdict = usual.verdict(stage, &faults).await;
            (faults, verdict)
        });
    running.buffered(AT_ONCE).boxed_local()
}

/// A case without faults.
struct Performed {
    trial: Trial,
    usual: Arc<Usual>,
}

impl Performed {
    /// Runs a case twice. `Err`: it fails without any fault.
    async fn of(stage: &Stage) -> Result<Result<Self, Failure>> {
        let mut first = stage.performance().await?;
        let failed = !first.differences.is_empty();
        let Some(state) = first.state.take().filter(|_| first.is_well() && !failed) else {
            let differences = std::mem::take(&mut first.differences);
            return Ok(Err(Failure {
                differences,
                problems: first.all_problems(),
            }));
        };
        if !first.rewritten.is_empty() {
            return Ok(Err(Failure {
                differences: Vec::new(),
                problems: rewritten(&first.rewritten, "no fault is needed: a further resync"),
            }));
        }
        let mut second = stage.trial(&[], None).await?;
        let Some(again) = second.state.take() else {
            return Ok(Err(Failure::of_problem(format!(
                "it ends otherwise without any fault: {}",
                second.all_problems().join("; ")
            ))));
        };
        let noise = state.noise(&again);
        Ok(Ok(Self {
            trial: second,
            usual: Arc::new(Usual { state, noise }),
        }))
    }

    /// How a run under these faults ends. One that ends otherwise runs once more.
    async fn verdict(&self, stage: &Stage, faults: &[Fault]) -> Result<Verdict> {
        match self.judge(stage, faults).await? {
            Verdict::Other(_) => self.judge(stage, faults).await,
            verdict => Ok(verdict),
        }
    }

    async fn judge(&self, stage: &Stage, faults: &[Fault]) -> Result<Verdict> {
        let mut trial = stage.trial(faults, Some(&self.usual)).await?;
        let at_calls = faults.iter().filter(|it| it.fault != Effect::Merge);
        let is_of_somebody = faults.iter().any(Fault::is_of_somebody);
        if trial.struck < at_calls.count() || is_of_somebody && trial.impossible.is_some() {
            return Ok(Verdict::Nothing);
        }
        let Some(state) = trial.state.take() else {
            return Ok(Verdict::Other(Failure {
                differences: Vec::new(),
                problems: trial.all_problems(),
            }));
        };
        let mut differences = self.usual.state.differences(&state, &self.usual.noise);
        let is_lost = trial.changes > state.count_changes();
        if is_of_somebody && (is_lost || !differences.is_empty() || !trial.is_well()) {
            let Some(quiet) = self.quiet(stage, faults).await? else {
                return Ok(Verdict::Nothing);
            };
            let Some(expected) = &quiet.state else {
                return Ok(Verdict::Nothing);
            };
            differences = expected.differences(&state, &self.usual.noise);
            differences.extend(state.lost_changes(expected));
            if !quiet.is_well() {
                trial.problems.clear();
            }
        }
        let again = rewritten(&trial.rewritten, "a further resync");
        trial.problems.extend(again);
        if differences.is_empty() && trial.is_well() {
            return Ok(Verdict::Same);
        }
        Ok(Verdict::Other(Failure {
            differences,
            problems: trial.all_problems(),
        }))
    }

    /// The end after the same changes by somebody at a quiet time.
    async fn quiet(&self, stage: &Stage, faults: &[Fault]) -> Result<Option<Trial>> {
        let mut quiet = Vec::new();
        for fault in faults {
            match faults::quiet(&self.trial, fault) {
                Some(instead) => quiet.extend(instead),
                None if fault.is_of_somebody() => return Ok(None),
                None => quiet.push(fault.clone()),
            }
        }
        Ok(Some(stage.trial(&quiet, Some(&self.usual)).await?))
    }
}

impl Trial {
    fn is_well(&self) -> bool {
        self.problems.is_empty() && self.impossible.is_none()
    }

    fn all_problems(&self) -> Vec<String> {
        let all = self.problems.iter().chain(&self.impossible);
        all.cloned().collect()
    }
}

impl Failure {
    fn none() -> Self {
        Self {
            differences: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn of_problem(problem: String) -> Self {
        Self {
            problems: vec![problem],
            ..Self::none()
        }
    }
}

fn outcome(case: &Case, start: Instant, failure: Failure, crash: Option<Crash>) -> Outcome {
    let Failure {
        differences,
        problems,
    } = failure;
    Outcome {
        name: case.name.clone(),
        passed: differences.is_empty() && problems.is_empty(),
        seconds: start.elapsed().as_secs_f64(),
        differences,
        problems,
        denied: Vec::new(),
        crash,
    }
}

/// What a resync wrote, in words.
fn rewritten(written: &[Difference], what: &str) -> Vec<String> {
    let written = written.iter();
    written
        .map(|it| format!("{what} writes: {}", it.place()))
        .collect()
}

/// A file of `tests` with these faults.
fn file(case: &Case, faults: &[Fault], seed: u64) -> String {
    let mut text = format!(
        "# windlass test --crash --seed {seed}: the end was not the one without faults\ncase: {}\nfaults:\n",
        quoted(case.steps_of())
    );
    for fault in faults {
        let fields = serde_json::to_value(fault).unwrap_or_default();
        let written = FIELDS.iter().filter(|name| !fields[**name].is_null());
        for (number, name) in written.enumerate() {
            let start = if number == 0 { "- " } else { "  " };
            let value = &fields[*name];
            let value = value.as_str().map_or_else(|| value.to_string(), quoted);
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{start}{name}: {value}");
        }
    }
    text
}

/// A text of YAML, in quotes only if it needs them.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./ *".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_word = matches!(
        text,
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    if starts && !is_word && text.chars().all(is_plain) && !text.ends_with(' ') {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

impl Crash {
    /// How much was tried, for the line of a test.
    pub(super) fn tried(&self) -> String {
        let Self {
            calls,
            faults,
            tried,
            missed,
            combined,
            ..
        } = self;
        let missed = match missed {
            0 => String::new(),
            missed => format!(", {missed} struck nothing"),
        };
        let combined = match combined {
            0 => String::new(),
            combined => format!(" and {combined} combinations"),
        };
        format!("  {tried} of {faults} faults{missed}{combined} at {calls} calls")
    }
}

impl Schedule {
    /// The faults, what was left over, and the file that shows it again.
    pub(super) fn reasons(&self, left: impl Iterator<Item = String>) -> Vec<String> {
        let mut all: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        let left: Vec<String> = left.collect();
        let more = left.len().saturating_sub(SHOWN);
        let shown = left.into_iter().take(SHOWN);
        all.extend(shown.map(|line| format!("  {}", line.replace('\n', "\n  "))));
        if more > 0 {
            all.push(format!("  and {more} more"));
        }
        if !self.file.is_empty() {
            all.push("as a file of tests, which shows it again:".to_owned());
            let file = self.file.trim_end();
            all.push(format!("  {}", file.replace('\n', "\n  ")));
        }
        all
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_yaml_is_in_quotes_if_it_needs_them() {
        assert_eq!(
            quoted("create v1/ConfigMap default/a-*"),
            "create v1/ConfigMap default/a-*"
        );
        assert_eq!(quoted("eu: default/a"), "\"eu: default/a\"");
        assert_eq!(quoted("1"), "\"1\"");
        assert_eq!(quoted(""), "\"\"");
    }
}
