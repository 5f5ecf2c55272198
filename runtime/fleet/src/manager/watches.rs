//! Controllers' watches in clusters. A task for each opens its stores and subscribes. Entry point: [`Watches::attach_all`].
//!
//! The parts, each of which uses only parts above it:
//!
//! * `plan`: how a watch is to run.
//! * `watch`: the state of one watch.
//! * `running`: the table of watches, and questions about them.
//! * `enqueue`, `task`: the task that changes the state of a watch.
//!
//! Methods that attach are called while the clusters are frozen (see [`Engagements`](super::engagements::Engagements)), so that the
//! table holds no cluster that has left.

mod enqueue;
mod plan;
mod running;
mod task;
mod watch;

pub(super) use running::RunningWatches;

use super::leadership::Leadership;
use super::registrations::{Registration, Registrations};
use super::shared_queue::SharedQueue;
use crate::cluster::{Cluster, Fleet};
use plan::WatchPlan;
use std::sync::Arc;
use watch::{ActiveWatch, Startup};

/// Starts and ends the watches of controllers.
pub(super) struct Watches {
    fleet: Fleet,
    registrations: Arc<Registrations>,
    leadership: Arc<Leadership>,
    running: Arc<RunningWatches>,
}

impl Watches {
    pub(super) fn new(
        fleet: Fleet,
        queue: Arc<SharedQueue>,
        registrations: Arc<Registrations>,
        leadership: Arc<Leadership>,
        has_provider: bool,
    ) -> Self {
        let running = RunningWatches::new(
            queue,
            registrations.clone(),
            leadership.clone(),
            has_provider,
        );
        Self {
            fleet,
            registrations,
            leadership,
            running: Arc::new(running),
        }
    }

    /// The watches that run.
    pub(super) fn running(&self) -> &RunningWatches {
        &self.running
    }

    /// Starts the watches of every controller in a cluster that was just engaged.
    pub(super) fn attach_all(&self, cluster: &Arc<Cluster>) {
        for registration in self.registrations.all() {
            self.running
                .cluster_arrived(registration.id, cluster.name());
            self.attach(&registration, cluster, Vec::new());
        }
    }

    /// Brings a controller's watches in step with its current definition.
    pub(super) fn reattach(&self, registration: &Arc<Registration>, clusters: &[Arc<Cluster>]) {
        let mut before = self.running.take(registration.id);
        for cluster in clusters {
            let kept = before.remove(cluster.name()).unwrap_or_default();
            self.reattach_in(registration, cluster, kept);
        }
    }

    /// Brings all watches in a cluster in step with its labels. A controller that leaves the cluster leaves no key behind.
    pub(super) fn labels_changed(&self, cluster: &Arc<Cluster>) {
        for registration in self.registrations.all() {
            let before = self.running.take_in(registration.id, cluster.name());
            self.reattach_in(&registration, cluster, before);
        }
    }

    /// Brings all watches in a cluster in step with the shards in effect. Of a cluster that this process does not watch any more no key stays,
    /// and for one that it watches again mappers are asked again.
    pub(super) fn shards_changed(&self, cluster: &Arc<Cluster>) {
        let watches = self.leadership.watches(cluster.name());
        for registration in self.registrations.all() {
            if !registration.controller().needs_lease {
                continue;
            }
            if watches {
                self.running
                    .cluster_arrived(registration.id, cluster.name());
            }
            let before = self.running.take_in(registration.id, cluster.name());
            self.attach(&registration, cluster, before);
            if !watches {
                self.running.forget_keys(registration.id, cluster.name());
            }
        }
    }

    /// Starts the watches that engage a cluster in place of others. If none does any more, the controller's keys of the cluster leave.
    fn reattach_in(
        &self,
        registration: &Arc<Registration>,
        cluster: &Arc<Cluster>,
        before: Vec<Arc<ActiveWatch>>,
    ) {
        let had_watches = !before.is_empty();
        self.attach(registration, cluster, before);
        if had_watches && !self.running.engages(registration.id, cluster.name()) {
            self.running.left(registration.id, cluster.name());
        }
    }

    /// Sets whether there is a provider, which decides what controllers engage by default.
    pub(super) fn set_has_provider(&self, has_provider: bool, clusters: &[Arc<Cluster>]) {
        if !self.running.set_has_provider(has_provider) {
            return;
        }
        for registration in self.registrations.all() {
            self.reattach(&registration, clusters);
        }
    }

    /// Starts the watches that engage a cluster, but for those that run already.
    fn attach(
        &self,
        registration: &Arc<Registration>,
        cluster: &Arc<Cluster>,
        mut before: Vec<Arc<ActiveWatch>>,
    ) {
        let controller = registration.controller();
        let has_provider = self.running.has_provider();
        before.retain(|watch| Arc::ptr_eq(watch.cluster(), cluster));
        let mut watches = Vec::new();
        let has_keys = !controller.needs_lease || self.leadership.watches(cluster.name());
        for watch in &controller.watches {
            let is_here = controller.selection.engages(watch, cluster, has_provider);
            if !is_here || !has_keys && !watch.enqueue.may_leave_its_cluster() {
                continue;
            }
            let plan = WatchPlan::of(&controller, watch, cluster);
            let Some(at) = before.iter().position(|watch| *watch.plan() == plan) else {
                watches.push(self.start(registration, cluster, plan, &before));
                continue;
            };
            let kept = before.swap_remove(at);
            kept.controller_replaced();
            watches.push(kept);
        }
        if !watches.is_empty() {
            self.running
                .insert(registration.id, cluster.name(), watches);
        }
        self.running.settle(registration, cluster.name());
    }

    /// Starts a watch that replaces others.
    fn start(
        &self,
        registration: &Arc<Registration>,
        cluster: &Arc<Cluster>,
        plan: WatchPlan,
        before: &[Arc<ActiveWatch>],
    ) -> Arc<ActiveWatch> {
        let mut startup = Startup::new(cluster);
        for replaced in before {
            startup.replace(replaced, &plan);
        }
        let (plan, running) = (Arc::new(plan), &self.running);
        task::start(registration, cluster, plan, startup, running, &self.fleet)
    }
}
