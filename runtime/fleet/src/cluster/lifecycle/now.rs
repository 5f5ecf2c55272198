//! The state of a cluster, with its reason, and whether keys may run. Entry point: [`Now`].

use std::sync::Arc;
use std::time::SystemTime;

/// The state of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub enum ClusterState {
    /// Not reached yet.
    Connecting,
    /// Reached; the first lists are not complete.
    Syncing,
    /// Every cache is in step.
    Ready,
    /// The server cannot be reached, or lost its history: keys wait, except one that probes the server. Or the server refuses a watch or
    /// fails it: only the keys of controllers that use the watch wait. Or another cluster is the same server: all keys wait.
    Degraded,
    /// Disengaged.
    Gone,
}

impl ClusterState {
    /// The word in logs, metrics and status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "Connecting",
            Self::Syncing => "Syncing",
            Self::Ready => "Ready",
            Self::Degraded => "Degraded",
            Self::Gone => "Gone",
        }
    }
}

/// A state with its reason and its time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Now {
    pub(crate) state: ClusterState,
    /// Shared by all parts of a server.
    pub(crate) reason: Arc<str>,
    pub(crate) since: SystemTime,
    /// Whether keys may run, as far as their own controller does not wait for something.
    pub(crate) reach: Reach,
    /// When the next attempt to connect begins; `None` outside of waits.
    pub(crate) next_attempt: Option<SystemTime>,
    /// Whether another server answers under this cluster's address, for good: the manager replaces this cluster.
    pub(crate) identity_changed: bool,
    /// How often something was repaired that may have made keys fail: credentials, the connection, a watch, a kind that was not served.
    pub(super) repairs: u64,
    /// Why it is not worked on, whatever its server's state is: another cluster is the same server, and is worked on.
    pub(super) duplicate: Option<Arc<str>>,
}

impl Now {
    /// Whether the caches were in sync once.
    pub(crate) fn has_served(&self) -> bool {
        matches!(self.state, ClusterState::Ready | ClusterState::Degraded)
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.has_served() && self.reach == Reach::Full
    }

    /// The same to people and to the queue: no key of a duplicate may run.
    pub(super) fn shown(self) -> Self {
        match &self.duplicate {
            Some(reason) if self.state != ClusterState::Gone => Self {
                state: ClusterState::Degraded,
                reach: Reach::None,
                reason: reason.clone(),
                ..self
            },
            _ => self,
        }
    }
}

/// Whether keys may run on a cluster's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Not reached yet, or gone.
    None,
    /// The server cannot be reached now, or the caches are known to be wrong: one key at a time probes the server.
    Doubtful,
    /// The server is reached, as far as the watches show.
    Full,
}
