//! Why an object is not reconciled: what the queue tells of its keys. Entry point: [`Queue::keys`].

use super::class::{Counts, Totals};
use super::key::{Entry, State};
use super::options::{Cause, ClusterState, Origin};
use super::{ControllerId, Queue};
use crate::name::ClusterName;
use crate::outcome::{Blame, Disposition, Failure};
use crate::request::Request;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Most keys that one call of [`Queue::keys`] looks at, so that it holds nobody up.
const LOOKED_AT: u32 = 16_384;

/// What is kept of a key's last failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFailure {
    /// Whether it is retried.
    pub disposition: Disposition,
    /// Whose fault it is.
    pub blame: Blame,
    /// A short reason from a closed set.
    pub reason: &'static str,
    /// For people; at most [`LastFailure::MAX_MESSAGE`] bytes.
    pub message: Arc<str>,
}

impl LastFailure {
    /// Longest message kept, in bytes.
    pub const MAX_MESSAGE: usize = 512;

    /// Keeps a failure; `shared` is a message that may be equal, and then is shared.
    pub(super) fn of(failure: &Failure, shared: Option<Arc<str>>) -> Self {
        let end = failure.message.floor_char_boundary(Self::MAX_MESSAGE);
        let message = &failure.message[..end];
        let message = shared
            .filter(|shared| &**shared == message)
            .unwrap_or_else(|| message.into());
        Self {
            disposition: failure.disposition,
            blame: failure.blame,
            reason: failure.reason,
            message,
        }
    }
}

/// What a key is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It waits for its turn since then.
    Ready(Instant),
    /// It waits since then, because its cluster is not ready.
    Held(Instant),
    /// It waits until then, as whoever added it or its last run asked.
    Delayed(Instant),
    /// It waits until then, because it failed.
    Backoff(Instant),
    /// It was asked for, and waits until then because it has run too often lately.
    Throttled(Instant),
    /// It runs since then.
    Running(Instant),
    /// It failed for good then, and waits for an event.
    Terminal(Instant),
}

impl KeyState {
    /// The word in status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready(_) => "ready",
            Self::Held(_) => "held",
            Self::Delayed(_) => "delayed",
            Self::Backoff(_) => "backoff",
            Self::Throttled(_) => "throttled",
            Self::Running(_) => "running",
            Self::Terminal(_) => "terminal",
        }
    }
}

/// All that the queue knows of a key.
#[derive(Debug, Clone)]
pub struct KeyStatus {
    /// Whose key it is.
    pub controller: ControllerId,
    /// What it asks to look at.
    pub request: Request,
    /// What it is doing.
    pub state: KeyState,
    /// Failures since the last success.
    pub attempts: u32,
    /// What it is, or was last, in line with.
    pub priority: i32,
    /// What enqueued it.
    pub cause: Cause,
    /// Which source did, or began what the key is tried again for.
    pub origin: Origin,
    /// An event has asked for it while it runs.
    pub dirty: bool,
    /// `None` if its last run did not fail, or too many keys of its controller fail to keep all.
    pub last_failure: Option<LastFailure>,
}

/// Which keys are wanted; the default is all.
#[derive(Debug, Clone, Default)]
pub struct KeyFilter {
    /// Of these controllers.
    pub controllers: Option<BTreeSet<ControllerId>>,
    /// Of this cluster.
    pub cluster: Option<ClusterName>,
    /// In this state, by its word: see [`KeyState::as_str`].
    pub state: Option<String>,
    /// Only those that have failed since their last success.
    pub failing: bool,
}

impl KeyFilter {
    /// Whether it takes a key of a controller and a cluster that it takes.
    fn takes(&self, key: &KeyStatus) -> bool {
        self.state
            .as_ref()
            .is_none_or(|state| state == key.state.as_str())
            && (!self.failing || key.attempts > 0 || key.last_failure.is_some())
    }
}

/// Some of the keys that a filter takes.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// In no order.
    pub keys: Vec<KeyStatus>,
    /// Where to go on; `None` at the end.
    pub next: Option<u32>,
}

impl Queue {
    /// Keys that a filter takes, at most `limit` of them, beginning at 0 or where the last page said. Looks at a bounded number of
    /// keys, so a page may be empty and still not be the last. Keys that come or change between two pages may be missed.
    #[must_use]
    pub fn keys(&self, filter: &KeyFilter, from: u32, limit: usize) -> Page {
        let end = self.keys.places().min(from.saturating_add(LOOKED_AT));
        let mut page = Page::default();
        let cluster = filter.cluster.as_ref();
        let cluster = cluster.map(|name| self.classes.cluster_id(name));
        let nobody = filter.controllers.as_ref().is_some_and(BTreeSet::is_empty);
        if nobody || cluster == Some(None) {
            return page;
        }
        // Cheap to ask of each key; what is shown of one is put together only if it may be wanted.
        let wanted = |place: &u32| {
            let entry = self.keys.entry(*place);
            if entry.key.is_none() {
                return false;
            }
            let lane = &self.classes.lanes[entry.lane as usize];
            let of = |controllers: &BTreeSet<_>| controllers.contains(&self.id(lane.controller));
            cluster.is_none_or(|cluster| cluster == Some(lane.cluster))
                && filter.controllers.as_ref().is_none_or(of)
        };
        for place in from..end {
            if page.keys.len() >= limit {
                page.next = Some(place);
                return page;
            }
            let status = Some(place).filter(wanted);
            let status = status.and_then(|place| self.status(place));
            page.keys.extend(status.filter(|key| filter.takes(key)));
        }
        page.next = (end < self.keys.places()).then_some(end);
        page
    }

    /// What is known of one key; `None` if it is not in the queue.
    #[must_use]
    pub fn key(&self, controller: ControllerId, request: &Request) -> Option<KeyStatus> {
        self.controller(controller)?;
        let hash = self.hash(controller, request);
        let lane = self
            .classes
            .find_lane(hash.lane, controller.place, &request.cluster)?;
        self.status(self.keys.find(hash.key, lane, &request.key)?)
    }

    fn status(&self, place: u32) -> Option<KeyStatus> {
        #[cfg(test)]
        self.shown.set(self.shown.get() + 1);
        let entry = self.keys.entry(place);
        let Entry {
            at,
            lane,
            attempts,
            priority,
            cause,
            origin,
            ..
        } = *entry;
        let request = self.request(place)?;
        let run = self.runs.look(entry);
        let of = &self.classes.lanes[lane as usize];
        let since = self.instant(run.map_or(at, |run| run.started));
        let state = match entry.state {
            State::Ready
                if self.classes.clusters[of.cluster as usize].state != ClusterState::Ready
                    || self.classes.is_held(of)
                    || self.classes.controllers[of.controller as usize]
                        .share
                        .barred =>
            {
                KeyState::Held(since)
            }
            State::Ready => KeyState::Ready(since),
            State::Delayed => KeyState::Delayed(since),
            State::Backoff => KeyState::Backoff(since),
            State::Throttled => KeyState::Throttled(since),
            State::Terminal => KeyState::Terminal(since),
            State::Running => KeyState::Running(since),
        };
        let dirty = run.is_some_and(|run| run.again.is_some());
        let last_failure = self.failure(place).cloned();
        Some(KeyStatus {
            controller: self.id(of.controller),
            request,
            state,
            attempts: attempts.into(),
            priority,
            cause,
            origin,
            dirty,
            last_failure,
        })
    }

    /// The error of the run that failed last, of a controller that has keys whose last run failed.
    #[must_use]
    pub fn last_error(&self, controller: ControllerId) -> Option<Arc<str>> {
        let of = self.controller(controller)?;
        of.last_message.clone().filter(|_| of.failures > 0)
    }

    /// How many keys of a controller do what; all zero once it has been removed.
    #[must_use]
    pub fn counts(&self, controller: ControllerId) -> Counts {
        self.controller(controller)
            .map(|of| of.tally.counts())
            .unwrap_or_default()
    }

    /// How many keys do what, over all controllers.
    #[must_use]
    pub fn total_counts(&self) -> Counts {
        self.tally.counts()
    }

    /// What has happened to a controller's keys since it was added.
    #[must_use]
    pub fn totals(&self, controller: ControllerId) -> Totals {
        self.controller(controller)
            .map(|of| Totals {
                adds: of.adds,
                ..of.totals
            })
            .unwrap_or_default()
    }

    /// Whether nothing is ready, running, in backoff or throttled; what waits for a time that was asked for does not count.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tally.counts().is_idle()
    }

    /// How many keys there are, terminal ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
