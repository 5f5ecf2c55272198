//! How clusters of a server begin: [`Opening`].

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::hook::Hook;
use crate::origin::Source;
use crate::state::State;

/// What all clusters of a server have in common.
#[derive(Clone)]
pub(super) struct Opening {
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    /// Changes kept per resource.
    pub(super) history: usize,
    pub(super) streaming_lists: bool,
    pub(super) controllers: bool,
    pub(super) hook: Option<Arc<dyn Hook>>,
}

impl Opening {
    /// Makes a cluster of what it holds and runs its clean-up.
    pub(super) fn open(&self, name: &str, state: State) -> Cluster {
        self.open_as(name, state, None)
    }

    /// As [`Opening::open`]; with a source it is a fork.
    pub(super) fn open_as(&self, name: &str, mut state: State, source: Option<Source>) -> Cluster {
        state.controllers = self.controllers;
        let stop = self.stop.child_token();
        let hook = self.hook.clone();
        let cluster = Cluster::new(name, state, self.streaming_lists, hook, stop, source);
        self.tasks.spawn(cluster.clone().clean_up());
        cluster
    }
}
