//! Why an object is not reconciled: what the queue shows of its keys. Entry point: [`Queue::keys`].

use super::class::{Counts, Flow, Totals};
use super::key::{Entry, State};
use super::options::{Cause, ClusterMode, Origin};
use super::slab::{Id, KeyId};
use super::{ControllerId, Queue};
use crate::name::ClusterName;
use crate::outcome::{Blame, Disposition, Failure, shortened};
use crate::request::Request;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Most keys that one call of [`Queue::keys`] scans, so that it does not delay other callers for long.
const MAX_SCANNED: u32 = 16_384;

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

    /// Keeps a failure. If the message equals `shared`, that one is used.
    pub(super) fn of(failure: &Failure, shared: Option<Arc<str>>) -> Self {
        let message = if failure.message.len() > Self::MAX_MESSAGE {
            Cow::Owned(shortened(failure.message.clone(), Self::MAX_MESSAGE))
        } else {
            Cow::Borrowed(&*failure.message)
        };
        let message = shared
            .filter(|shared| **shared == *message)
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
    /// It has been ready since then.
    Ready(Instant),
    /// It has been ready since then, and its cluster is not.
    Held(Instant),
    /// It waits until then: a caller or its last run has asked for that.
    Delayed(Instant),
    /// It waits until then, because it failed.
    Backoff(Instant),
    /// It is hot: it has been enqueued, and waits until then because it has run too often lately.
    Throttled(Instant),
    /// It waits until then, because a pause holds it, and looks at the pause again.
    Paused(Instant),
    /// It has been running since then.
    Running(Instant),
    /// It failed for good then, and waits for an event.
    Terminal(Instant),
}

impl KeyState {
    /// When the key runs next, if it waits for a time.
    #[must_use]
    pub fn runs_at(self) -> Option<Instant> {
        match self {
            Self::Delayed(at) | Self::Backoff(at) | Self::Throttled(at) | Self::Paused(at) => {
                Some(at)
            }
            _ => None,
        }
    }

    /// Since when the key is in this state; `None` if it waits for a time.
    #[must_use]
    pub fn since(self) -> Option<Instant> {
        match self {
            Self::Ready(at) | Self::Held(at) | Self::Running(at) | Self::Terminal(at) => Some(at),
            _ => None,
        }
    }

    /// The word in status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready(_) => "ready",
            Self::Held(_) => "held",
            Self::Delayed(_) => "delayed",
            Self::Backoff(_) => "backoff",
            Self::Throttled(_) => "throttled",
            Self::Paused(_) => "paused",
            Self::Running(_) => "running",
            Self::Terminal(_) => "terminal",
        }
    }
}

/// What the queue knows of a key.
#[derive(Debug, Clone)]
pub struct QueuedKey {
    /// Its controller.
    pub(crate) controller: ControllerId,
    /// The key.
    pub request: Request,
    /// What it is doing.
    pub state: KeyState,
    /// Failures since the last success.
    pub attempts: u32,
    /// The priority that it waits with, or ran with last.
    pub priority: i32,
    /// What enqueued it.
    pub cause: Cause,
    /// Which source enqueued it, or enqueued what the key is retried for.
    pub(crate) origin: Origin,
    /// It has been enqueued while it runs.
    pub dirty: bool,
    /// `None` if its last run did not fail, or too many keys of its controller fail to keep all.
    pub last_failure: Option<LastFailure>,
}

/// Which keys are wanted; the default is all.
#[derive(Debug, Clone, Default)]
pub struct QueuedKeyFilter {
    /// Of these controllers.
    pub controllers: Option<BTreeSet<ControllerId>>,
    /// Of this cluster.
    pub cluster: Option<ClusterName>,
    /// In this state, by its word: see [`KeyState::as_str`].
    pub state: Option<String>,
    /// Only those that have failed since their last success.
    pub failing: bool,
}

impl QueuedKeyFilter {
    /// Whether it takes a key whose controller and cluster it takes.
    fn takes(&self, key: &QueuedKey) -> bool {
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
    pub keys: Vec<QueuedKey>,
    /// Where to go on; `None` at the end.
    pub next: Option<u32>,
}

impl Queue {
    /// Keys that a filter takes, at most `limit` of them, beginning at 0 or where the last page said. Looks at a bounded number of
    /// keys, so a page may be empty and still not be the last. Keys that come or change between two pages may be missed.
    #[must_use]
    pub fn keys(&self, filter: &QueuedKeyFilter, from: u32, limit: usize) -> Page {
        let capacity = u32::try_from(self.keys.capacity()).unwrap_or(u32::MAX);
        let end = capacity.min(from.saturating_add(MAX_SCANNED));
        let mut page = Page::default();
        let cluster = filter.cluster.as_ref();
        let cluster = cluster.map(|name| self.classes.cluster_id(name));
        let none = filter.controllers.as_ref().is_some_and(BTreeSet::is_empty);
        if none || cluster == Some(None) {
            return page;
        }
        // This check is cheap. A status is put together only for a key that passes it.
        let is_wanted = |key: &KeyId| {
            let entry = self.keys.entry(*key);
            if entry.key.is_none() {
                return false;
            }
            let flow = &self.classes.flows[entry.flow];
            let controller = self.classes.controllers[flow.controller].id;
            let of = |controllers: &BTreeSet<_>| controllers.contains(&controller);
            cluster.is_none_or(|cluster| cluster == Some(flow.cluster))
                && filter.controllers.as_ref().is_none_or(of)
        };
        for index in from..end {
            if page.keys.len() >= limit {
                page.next = Some(index);
                return page;
            }
            let key = Some(KeyId::new(index as usize)).filter(is_wanted);
            let status = key.and_then(|key| self.status(key));
            page.keys.extend(status.filter(|key| filter.takes(key)));
        }
        page.next = (end < capacity).then_some(end);
        page
    }

    /// What is known of one key; `None` if it is not in the queue.
    #[must_use]
    pub fn key(&self, controller: ControllerId, request: &Request) -> Option<QueuedKey> {
        self.controller(controller)?;
        let hash = self.hash(controller, request);
        self.status(self.find(controller, request, hash)?)
    }

    fn status(&self, key: KeyId) -> Option<QueuedKey> {
        #[cfg(test)]
        self.shown.set(self.shown.get() + 1);
        let Entry {
            at,
            flow,
            state,
            attempts,
            priority,
            cause,
            origin,
            ..
        } = *self.keys.entry(key);
        let request = self.request(key)?;
        let run = self.runs.of(key);
        let flow = &self.classes.flows[flow];
        let since = self.instant(run.map_or(at, |run| run.started));
        let state = match state {
            State::Ready if self.is_held(flow) => KeyState::Held(since),
            State::Ready => KeyState::Ready(since),
            State::Delayed => KeyState::Delayed(since),
            State::Backoff => KeyState::Backoff(since),
            State::Throttled => KeyState::Throttled(since),
            State::Paused => KeyState::Paused(since),
            State::Terminal => KeyState::Terminal(since),
            State::Running => KeyState::Running(since),
        };
        Some(QueuedKey {
            controller: self.classes.controllers[flow.controller].id,
            request,
            state,
            attempts: attempts.into(),
            priority,
            cause,
            origin,
            dirty: run.is_some_and(|run| run.rerun.is_some()),
            last_failure: self.failures.get(&key).cloned(),
        })
    }

    /// Whether a flow's ready keys are held: by a cluster that is not ready, or by a hold on the controller.
    fn is_held(&self, flow: &Flow) -> bool {
        self.classes.clusters[flow.cluster].state != ClusterMode::Ready
            || self.classes.is_held(flow)
            || self.classes.controllers[flow.controller].class.blocked
    }

    /// The error of the run that failed last, of a controller that has keys whose last run failed.
    #[must_use]
    pub fn last_error(&self, controller: ControllerId) -> Option<Arc<str>> {
        let of = self.controller(controller)?;
        of.last_message.clone().filter(|_| of.failures > 0)
    }

    /// The party at fault in that run.
    #[must_use]
    pub fn last_blame(&self, controller: ControllerId) -> Option<Blame> {
        let of = self.controller(controller)?;
        of.last_blame.filter(|_| of.failures > 0)
    }

    /// How many keys of a controller are in which state; all zero once it has been removed.
    #[must_use]
    pub fn counts(&self, controller: ControllerId) -> Counts {
        self.controller(controller)
            .map(|of| of.counts)
            .unwrap_or_default()
    }

    /// How many keys are in which state, over all controllers.
    #[must_use]
    pub fn total_counts(&self) -> Counts {
        self.counts
    }

    /// What has happened to a controller's keys since it was added.
    #[must_use]
    pub fn totals(&self, controller: ControllerId) -> Totals {
        self.controller(controller)
            .map(|of| of.totals)
            .unwrap_or_default()
    }

    /// Whether nothing is ready, running, in backoff or throttled. A delayed or a paused key does not count.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.counts.is_idle()
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
