//! What runs, and what a key does when its run has ended. Entry point: [`Outcome`].

use super::key::State;
use super::options::{Cause, Origin};
use super::slab::{ControllerIndex, FlowId, KeyId};
use super::slow::SLOW;
use super::status::LastFailure;
use super::{ControllerId, Queue, hot_key, nanos};
use crate::outcome::{Action, Disposition, Failure};
use crate::request::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A run that its own key asks for begins not sooner than this after the run before began.
const REQUEUE_INTERVAL: Duration = Duration::from_millis(100);

/// A key that has been handed out.
#[derive(Debug, Clone)]
pub struct Run {
    /// Given back to [`Queue::done`].
    pub token: Token,
    /// Its reconciler runs.
    pub controller: ControllerId,
    /// The key.
    pub request: Request,
    /// 1 for the first attempt since a success.
    pub attempt: u32,
    /// What it was handed out with.
    pub priority: i32,
    /// How long it was ready before.
    pub waited: Duration,
    /// What enqueued it.
    pub cause: Cause,
    /// Whether its object paused it when it was handed out last.
    pub was_paused: bool,
}

/// A run that has not ended. Not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    pub(super) key: KeyId,
    number: u64,
}

/// How a run ended. A key that was enqueued meanwhile runs again at once, whatever the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded; its backoff is forgotten.
    Done,
    /// It succeeded, and asks to run again after this time, which an earlier event replaces. It runs at most every 100 ms this
    /// way, and half as often when it goes on: see [`HotKeyLimit`](super::HotKeyLimit).
    RequeueAfter(Duration),
    /// It failed. For a retry `not_before` is the largest retry-after that the API answered in this run: the next attempt is not
    /// earlier, unless an event asks for it.
    Failed {
        /// Says whether it is retried.
        failure: Failure,
        /// Default: the backoff alone counts.
        not_before: Option<Duration>,
    },
    /// A pause holds it, so that it has not run: it is handed out again after this time, or when it is enqueued. Its attempts and its
    /// failure stay.
    Paused {
        /// How long it waits.
        after: Duration,
        /// Whether its object asks for the pause.
        by_object: bool,
    },
    /// Its cluster left the fleet: counts as done.
    Gone,
}

impl From<Action> for Outcome {
    fn from(action: Action) -> Self {
        match action {
            Action::Done => Self::Done,
            Action::RequeueAfter(after) => Self::RequeueAfter(after),
        }
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::Failed {
            failure,
            not_before: None,
        }
    }
}

/// What a key was enqueued for while it runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rerun {
    /// In the queue's nanoseconds; 0 for at once.
    pub(super) due: u64,
    pub(super) priority: i32,
    pub(super) cause: Cause,
    pub(super) origin: Origin,
}

/// What the queue keeps of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    pub(super) token: Token,
    pub(super) flow: FlowId,
    pub(super) controller: ControllerIndex,
    /// The key has been enqueued meanwhile.
    pub(super) rerun: Option<Rerun>,
    /// The cluster has been removed meanwhile, or its controller has left it: how the run ends does not matter.
    pub(super) cluster_gone: bool,
    /// Slot time charged in advance, in nanoseconds.
    pub(super) charged: u64,
    pub(super) started: u64,
    /// It is [`SLOW`] old, and its cluster counts it.
    pub(super) old: bool,
}

/// The runs that have not ended: as many as the limits allow, and one of a key at most.
#[derive(Debug, Default)]
pub(super) struct Runs {
    by_key: BTreeMap<KeyId, Running>,
    /// Those that are not old, by when they began.
    young: BTreeSet<(u64, KeyId)>,
    /// The number of the last token.
    last: u64,
}

impl Runs {
    /// A token for a run of a key that begins.
    pub(super) fn token(&mut self, key: KeyId) -> Token {
        self.last += 1;
        Token {
            key,
            number: self.last,
        }
    }

    pub(super) fn begin(&mut self, run: Running) {
        self.young.insert((run.started, run.token.key));
        self.by_key.insert(run.token.key, run);
    }

    pub(super) fn get(&self, token: Token) -> Option<&Running> {
        self.of(token.key).filter(|run| run.token == token)
    }

    pub(super) fn end(&mut self, token: Token) -> Option<Running> {
        self.get(token)?;
        let run = self.by_key.remove(&token.key)?;
        self.young.remove(&(run.started, token.key));
        Some(run)
    }

    /// Marks the next run that has become [`SLOW`] old. Returns its flow.
    pub(super) fn mark_old(&mut self, now: u64) -> Option<FlowId> {
        let (started, key) = *self.young.first()?;
        if now < started.saturating_add(SLOW) {
            return None;
        }
        self.young.pop_first();
        let run = self.of_mut(key)?;
        run.old = true;
        Some(run.flow)
    }

    /// Notes that the cluster of a run is gone, for its controller at least.
    pub(super) fn abandon(&mut self, token: Token) {
        if let Some(run) = self.of_mut(token.key) {
            (run.cluster_gone, run.rerun) = (true, None);
        }
    }

    /// The tokens of the runs for which `is` holds.
    pub(super) fn tokens(&self, is: impl Fn(&Running) -> bool) -> Vec<Token> {
        let runs = self.by_key.values().filter(|run| is(run));
        runs.map(|run| run.token).collect()
    }

    /// The run of a key, if it runs.
    pub(super) fn of(&self, key: KeyId) -> Option<&Running> {
        self.by_key.get(&key)
    }

    pub(super) fn of_mut(&mut self, key: KeyId) -> Option<&mut Running> {
        self.by_key.get_mut(&key)
    }
}

impl Queue {
    /// Decides what a key does next whose run has ended.
    pub(super) fn decide_next(&mut self, now: u64, run: &Running, outcome: Outcome) {
        let key = run.token.key;
        let hash = self.keys.entry(key).hash;
        let next = match outcome {
            Outcome::RequeueAfter(after) if !run.cluster_gone => self.requeue(now, run, after),
            Outcome::Failed {
                failure,
                not_before,
            } if !run.cluster_gone => self.fail(now, run, failure, not_before),
            Outcome::Paused { after, by_object } if !run.cluster_gone => {
                if by_object {
                    self.paused.insert(key);
                }
                Some((State::Paused, now.saturating_add(nanos(after))))
            }
            _ => None,
        };
        if next.is_none_or(|(state, _)| state == State::Delayed) {
            self.keys.entry_mut(key).attempts = 0;
            self.drop_failure(key);
        }
        if run.rerun.is_some_and(|rerun| rerun.due <= now) {
            self.run_counts.add(hash, now, hot_key::RERUN);
        }
        // A hot key waits, for whatever reason it is to run.
        let free = self.run_counts.throttled_until(hash, now).unwrap_or(0);
        let rerun = run.rerun.map(|rerun| Rerun {
            due: rerun.due.max(free),
            ..rerun
        });
        let next = next.map(|(state, due)| match state {
            State::Terminal => (state, due),
            _ => (state, due.max(free)),
        });
        let entry = self.keys.entry_mut(key);
        let (state, due) = match (next, rerun) {
            (None, None) => return self.forget(key),
            (Some((State::Terminal, _)), None) => return self.keep_terminal(now, key),
            (Some((state, due)), rerun)
                if state != State::Terminal && rerun.is_none_or(|rerun| due < rerun.due) =>
            {
                entry.priority = entry
                    .priority
                    .max(rerun.map_or(i32::MIN, |rerun| rerun.priority));
                entry.cause = match state {
                    State::Backoff => Cause::Retry,
                    State::Paused => entry.cause,
                    _ => Cause::Requeue,
                };
                (state, due)
            }
            (next, Some(rerun)) => {
                entry.priority = if next.is_none() {
                    rerun.priority
                } else {
                    entry.priority.max(rerun.priority)
                };
                (entry.cause, entry.origin) = (rerun.cause, rerun.origin);
                let state = if run.rerun.is_some_and(|asked| asked.due < free) {
                    State::Throttled
                } else {
                    State::Delayed
                };
                (state, rerun.due)
            }
            (Some(next), None) => next,
        };
        self.delist(key);
        self.wait(now, key, Some(due), state);
        if free > 0 && due == free {
            self.count_throttled(key);
        }
    }

    fn requeue(&mut self, now: u64, run: &Running, after: Duration) -> Option<(State, u64)> {
        let asked = now.saturating_add(nanos(after));
        let earliest = run.started.saturating_add(nanos(REQUEUE_INTERVAL));
        if asked < earliest {
            let hash = self.keys.entry(run.token.key).hash;
            self.run_counts.add(hash, now, hot_key::TOO_SOON);
            if self.run_counts.throttled_until(hash, now).is_none() {
                self.classes.controllers[run.controller].totals.throttled += 1;
            }
        }
        Some((State::Delayed, asked.max(earliest)))
    }

    fn fail(
        &mut self,
        now: u64,
        run: &Running,
        failure: Failure,
        not_before: Option<Duration>,
    ) -> Option<(State, u64)> {
        let controller = &mut self.classes.controllers[run.controller];
        let entry = self.keys.entry_mut(run.token.key);
        let next = match failure.disposition {
            Disposition::Terminal => {
                controller.totals.terminal += 1;
                (State::Terminal, 0)
            }
            Disposition::Retry => {
                controller.totals.retries += 1;
                let backoff = controller.options.backoff;
                let delay = backoff.delay(entry.attempts.into(), &mut self.rng);
                let delay = delay.max(not_before.unwrap_or_default());
                entry.attempts = entry.attempts.saturating_add(1);
                (State::Backoff, now.saturating_add(nanos(delay)))
            }
        };
        self.keep_failure(run, &failure);
        Some(next)
    }

    /// Keeps a failure for status, within the controller's limit.
    fn keep_failure(&mut self, run: &Running, failure: &Failure) {
        let limit = self.classes.limits.failures_per_controller;
        let controller = &mut self.classes.controllers[run.controller];
        if !self.failures.contains_key(&run.token.key) {
            if controller.failures >= limit {
                controller.totals.forgotten += 1;
                return;
            }
            controller.failures += 1;
        }
        let kept = LastFailure::of(failure, controller.last_message.take());
        controller.last_message = Some(kept.message.clone());
        controller.last_blame = Some(kept.blame);
        self.failures.insert(run.token.key, kept);
    }

    pub(super) fn drop_failure(&mut self, key: KeyId) {
        if self.failures.is_empty() || self.failures.remove(&key).is_none() {
            return;
        }
        self.controller_of_mut(key).failures -= 1;
    }

    /// Keeps a terminal key for status and for its count of attempts, within the controller's limit.
    fn keep_terminal(&mut self, now: u64, key: KeyId) {
        let limit = self.classes.limits.failures_per_controller;
        let controller = self.controller_of_mut(key);
        if controller.counts.terminal >= limit {
            controller.totals.forgotten += 1;
            self.forget(key);
            return;
        }
        self.delist(key);
        self.enlist(key, State::Terminal);
        self.keys.entry_mut(key).at = now;
    }

    /// Who runs, and for how long already. Linear in runs.
    #[must_use]
    pub fn run_times(&self, now: Instant) -> Vec<(ControllerId, Duration)> {
        let now = self.nanos(now);
        let runs = self.runs.by_key.values();
        runs.map(|run| {
            let time = Duration::from_nanos(now.saturating_sub(run.started));
            (self.classes.controllers[run.controller].id, time)
        })
        .collect()
    }

    /// The request of a run that has not ended.
    #[must_use]
    pub fn running(&self, token: Token) -> Option<Request> {
        self.request(self.runs.get(token)?.token.key)
    }
}
