//! What is running, and what becomes of a key when its run has ended. Entry point: [`Outcome`].

use super::key::{Entry, State};
use super::options::{Cause, Origin};
use super::slow::SLOW;
use super::status::LastFailure;
use super::{ControllerId, Queue, nanos, storm};
use crate::outcome::{Action, Disposition, Failure};
use crate::request::Request;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often a key may run at its own asking: not sooner than this after its last run began.
const STORM_INTERVAL: Duration = Duration::from_millis(100);

/// A key that has been handed out.
#[derive(Debug, Clone)]
pub struct Run {
    /// Given back to [`Queue::done`].
    pub token: Token,
    /// Whose reconciler runs.
    pub controller: ControllerId,
    /// What it looks at.
    pub request: Request,
    /// 1 for the first attempt since a success.
    pub attempt: u32,
    /// What it was handed out with.
    pub priority: i32,
    /// How long it was ready before its turn came.
    pub waited: Duration,
    /// What enqueued it.
    pub cause: Cause,
}

/// A run that has not ended. Not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    place: u32,
    generation: u32,
}

impl Token {
    pub(super) fn place(self) -> u32 {
        self.place
    }
}

/// How a run ended. A key that was asked for meanwhile runs again at once, whatever the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded; its backoff is forgotten.
    Done,
    /// It succeeded, and asks to run again after this time, which an earlier event replaces. It runs at most every 100 ms this
    /// way, and half as often when it goes on: see [`StormLimit`](super::StormLimit).
    RequeueAfter(Duration),
    /// It failed. For a retry `not_before` is the largest retry-after that the API answered in this run: the next attempt is not
    /// earlier, unless an event asks for it.
    Failed {
        /// Says whether it is retried.
        failure: Failure,
        /// Default: the backoff alone counts.
        not_before: Option<Duration>,
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

/// What a key was asked for while it runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Again {
    /// In the queue's nanoseconds; 0 for at once.
    pub(super) due: u64,
    pub(super) priority: i32,
    pub(super) cause: Cause,
    pub(super) origin: Origin,
}

/// What the queue keeps of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    pub(super) key: u32,
    pub(super) lane: u32,
    pub(super) controller: u32,
    /// An event has asked for the key meanwhile.
    pub(super) again: Option<Again>,
    /// The cluster has been removed meanwhile: how the run ends does not matter.
    pub(super) gone: bool,
    /// Slot time charged in advance, in nanoseconds.
    pub(super) charged: u64,
    pub(super) started: u64,
    /// It lasts for [`SLOW`] already, and its cluster counts it.
    pub(super) old: bool,
}

/// The runs that have not ended: as many as the limits allow.
#[derive(Debug, Default)]
pub(super) struct Runs {
    slots: Vec<(u32, Option<Running>)>,
    free: Vec<u32>,
    /// Those that are not old, by when they began.
    young: BTreeSet<(u64, Token)>,
}

impl Runs {
    pub(super) fn begin(&mut self, run: Running) -> Token {
        let started = run.started;
        let token = self.place(run);
        self.young.insert((started, token));
        token
    }

    fn place(&mut self, run: Running) -> Token {
        if let Some(place) = self.free.pop() {
            let (generation, slot) = &mut self.slots[place as usize];
            *slot = Some(run);
            return Token {
                place,
                generation: *generation,
            };
        }
        self.slots.push((0, Some(run)));
        Token {
            place: (self.slots.len() - 1) as u32,
            generation: 0,
        }
    }

    pub(super) fn get(&self, token: Token) -> Option<Running> {
        self.slots
            .get(token.place as usize)
            .filter(|slot| slot.0 == token.generation)?
            .1
    }

    fn get_mut(&mut self, token: Token) -> Option<&mut Running> {
        self.slots
            .get_mut(token.place as usize)
            .filter(|slot| slot.0 == token.generation)?
            .1
            .as_mut()
    }

    pub(super) fn end(&mut self, token: Token) -> Option<Running> {
        let run = self.get(token)?;
        self.young.remove(&(run.started, token));
        self.slots[token.place as usize] = (token.generation.wrapping_add(1), None);
        self.free.push(token.place);
        Some(run)
    }

    /// Calls the next run old that lasts for [`SLOW`] and has not been called so. Returns its lane.
    pub(super) fn next_old(&mut self, now: u64) -> Option<u32> {
        let (started, token) = *self.young.first()?;
        if now < started.saturating_add(SLOW) {
            return None;
        }
        self.young.pop_first();
        let run = self.get_mut(token)?;
        run.old = true;
        Some(run.lane)
    }

    /// Makes how a run ends not matter, and forgets what has been asked for meanwhile.
    pub(super) fn abandon(&mut self, token: Token) {
        if let Some(run) = self.get_mut(token) {
            (run.gone, run.again) = (true, None);
        }
    }

    pub(super) fn tokens(&self, is: impl Fn(&Running) -> bool) -> Vec<Token> {
        let tokens = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.1.as_ref().is_some_and(&is));
        tokens
            .map(|(place, slot)| Token {
                place: place as u32,
                generation: slot.0,
            })
            .collect()
    }

    /// The run of a key that runs.
    pub(super) fn of(&mut self, entry: &Entry) -> Option<&mut Running> {
        self.slots.get_mut(entry.run()? as usize)?.1.as_mut()
    }

    /// As [`Runs::of`], to look at.
    pub(super) fn look(&self, entry: &Entry) -> Option<&Running> {
        self.slots.get(entry.run()? as usize)?.1.as_ref()
    }
}

impl Queue {
    /// Decides what a key does next whose run has ended.
    pub(super) fn settle(&mut self, now: u64, run: &Running, outcome: Outcome) {
        let key = run.key;
        let hash = self.keys.entry(key).hash;
        let next = match outcome {
            Outcome::RequeueAfter(after) if !run.gone => self.requeue(now, run, after),
            Outcome::Failed {
                failure,
                not_before,
            } if !run.gone => self.fail(now, run, failure, not_before),
            _ => None,
        };
        if next.is_none_or(|(state, _)| state == State::Delayed) {
            self.keys.entry_mut(key).attempts = 0;
            self.drop_failure(key);
        }
        if run.again.is_some_and(|again| again.due <= now) {
            self.storms.count(hash, now, storm::AGAIN);
        }
        // Whatever asks for a key that has run too often, it waits.
        let held = self.storms.held(hash, now).unwrap_or(0);
        let again = run.again.map(|again| Again {
            due: again.due.max(held),
            ..again
        });
        let next = next.map(|(state, due)| match state {
            State::Terminal => (state, due),
            _ => (state, due.max(held)),
        });
        let entry = self.keys.entry_mut(key);
        let (state, due) = match (next, again) {
            (None, None) => return self.forget(key),
            (Some((State::Terminal, _)), None) => return self.keep_terminal(now, key),
            (Some((state, due)), again)
                if state != State::Terminal && again.is_none_or(|again| due < again.due) =>
            {
                entry.priority = entry
                    .priority
                    .max(again.map_or(i32::MIN, |again| again.priority));
                entry.cause = if state == State::Backoff {
                    Cause::Retry
                } else {
                    Cause::Requeue
                };
                (state, due)
            }
            (next, Some(again)) => {
                entry.priority = if next.is_none() {
                    again.priority
                } else {
                    entry.priority.max(again.priority)
                };
                (entry.cause, entry.origin) = (again.cause, again.origin);
                let put_off = run.again.is_some_and(|asked| asked.due < held);
                let state = if put_off {
                    State::Throttled
                } else {
                    State::Delayed
                };
                (state, again.due)
            }
            (Some(next), None) => next,
        };
        self.count(key, -1);
        self.wait(now, key, Some(due), state);
        if held > 0 && due == held {
            self.put_off(key);
        }
    }

    fn requeue(&mut self, now: u64, run: &Running, after: Duration) -> Option<(State, u64)> {
        let asked = now.saturating_add(nanos(after));
        let earliest = run.started.saturating_add(nanos(STORM_INTERVAL));
        if asked < earliest {
            let hash = self.keys.entry(run.key).hash;
            self.storms.count(hash, now, storm::TOO_SOON);
            if self.storms.held(hash, now).is_none() {
                let totals = &mut self.classes.controllers[run.controller as usize].totals;
                totals.storms += 1;
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
        let controller = &mut self.classes.controllers[run.controller as usize];
        let entry = self.keys.entry_mut(run.key);
        let next = match failure.disposition {
            Disposition::Terminal => {
                controller.totals.terminal += 1;
                (State::Terminal, 0)
            }
            Disposition::Retry => {
                controller.totals.retries += 1;
                let delay = controller
                    .options
                    .backoff
                    .delay(entry.attempts.into(), &mut self.rng);
                entry.attempts = entry.attempts.saturating_add(1);
                (
                    State::Backoff,
                    now.saturating_add(nanos(delay.max(not_before.unwrap_or_default()))),
                )
            }
        };
        self.keep_failure(run, &failure);
        Some(next)
    }

    /// Keeps a failure for status, within the controller's limit.
    fn keep_failure(&mut self, run: &Running, failure: &Failure) {
        let limit = self.classes.limits.failures_per_controller;
        let controller = &mut self.classes.controllers[run.controller as usize];
        if !self.failures.contains_key(&run.key) {
            if controller.failures >= limit {
                controller.totals.forgotten += 1;
                return;
            }
            controller.failures += 1;
        }
        let kept = LastFailure::of(failure, controller.last_message.take());
        controller.last_message = Some(kept.message.clone());
        self.failures.insert(run.key, kept);
    }

    pub(super) fn drop_failure(&mut self, key: u32) {
        if self.failures.is_empty() || self.failures.remove(&key).is_none() {
            return;
        }
        let controller = self.classes.lanes[self.keys.entry(key).lane as usize].controller;
        self.classes.controllers[controller as usize].failures -= 1;
    }

    /// Keeps a terminal key for status and for its count of attempts, within the controller's limit.
    fn keep_terminal(&mut self, now: u64, key: u32) {
        let controller = self.classes.lanes[self.keys.entry(key).lane as usize].controller;
        let controller = &mut self.classes.controllers[controller as usize];
        if controller.tally.counts().terminal >= self.classes.limits.failures_per_controller {
            controller.totals.forgotten += 1;
            self.forget(key);
            return;
        }
        self.count(key, -1);
        self.keys.enlist(key, State::Terminal);
        self.keys.entry_mut(key).at = now;
        self.count(key, 1);
    }

    /// The failure of a key's last run, if it is kept.
    pub(super) fn failure(&self, key: u32) -> Option<&LastFailure> {
        self.failures.get(&key)
    }
}

impl Queue {
    /// Whose the runs are that have not ended, and how long each lasts already. Linear in runs.
    #[must_use]
    pub fn run_times(&self, now: Instant) -> Vec<(ControllerId, Duration)> {
        let now = self.nanos(now);
        let runs = self.runs.slots.iter().filter_map(|(_, run)| run.as_ref());
        runs.map(|run| {
            let time = Duration::from_nanos(now.saturating_sub(run.started));
            (self.id(run.controller), time)
        })
        .collect()
    }

    /// The request of a run that has not ended.
    #[must_use]
    pub fn running(&self, token: Token) -> Option<Request> {
        self.request(self.runs.get(token)?.key)
    }
}
