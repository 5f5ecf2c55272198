//! What the tasks and the sinks of a watch share. Entry point: [`WatchLinks`].

use super::active::ActiveWatch;
use super::plan::WatchPlan;
use super::running::RunningWatches;
use super::task::Task;
use super::work::Work;
use crate::cluster::{Cluster, Fleet, StoreUse};
use crate::manager::registrations::Registration;
use crate::source::{SourceSink, WatchTask};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What the tasks and the sinks of a watch share. The watch itself is held weakly, because its end ends the tasks.
pub(super) struct WatchLinks {
    pub(super) running: Weak<RunningWatches>,
    pub(super) registration: Arc<Registration>,
    pub(super) watch: Weak<ActiveWatch>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) plan: Arc<WatchPlan>,
    pub(super) fleet: Fleet,
    pub(super) work: Work,
}

/// Sinks hold this and not the watch: a sink is woken under the lock of its store, where the last reference to a watch must not be dropped.
/// A watch that is dropped unsubscribes from the store.
impl WatchTask for WatchLinks {
    fn wake(self: Arc<Self>) {
        self.work.wake(|| {
            let (host, token) = (self.cluster.host(), self.cluster.token().clone());
            let task = Task::new(self.clone()).run();
            crate::task::spawn(self.cluster.tasks(), host, token, task).abort_handle()
        });
    }
}

impl WatchLinks {
    /// How often every object is enqueued again, if at all.
    pub(super) fn resync(&self) -> Option<Duration> {
        self.registration.controller().options.resync
    }

    /// The sinks of the watch's events now.
    pub(super) fn sinks(&self) -> Vec<Arc<SourceSink>> {
        let watch = self.watch.upgrade();
        watch.map(|watch| watch.sinks()).unwrap_or_default()
    }

    /// Holds on the stores that the watch follows now, each with its sink.
    pub(super) fn store_uses(&self) -> Vec<(StoreUse, Arc<SourceSink>)> {
        let watch = self.watch.upgrade();
        watch.map(|watch| watch.store_uses()).unwrap_or_default()
    }

    /// Notes why the watch does not run, and logs it once.
    pub(super) fn set_problem(&self, problem: Option<String>) {
        let Some(watch) = self.watch.upgrade() else {
            return;
        };
        let is_new = watch.set_problem(problem.as_deref());
        if let Some(problem) = problem.filter(|_| is_new) {
            tracing::warn!(cluster = %self.cluster.name(), kind = %self.plan.watch.kind, problem, "watch does not run");
        }
    }

    /// Notes that the watch keeps no key of its controller waiting any more.
    pub(super) fn note_in_step(&self) {
        if let (Some(watch), Some(running)) = (self.watch.upgrade(), self.running.upgrade())
            && watch.note_in_step()
        {
            running.settle(&self.registration, self.cluster.name());
        }
    }
}
