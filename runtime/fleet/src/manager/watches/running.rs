//! The watches that run, by controller and cluster. Entry point: [`RunningWatches`].
//!
//! It owns the table of watches. Questions copy what they ask about out of the table first, so that no watch is asked, and none
//! ends, under the table's lock. Only [`RunningWatches::settle`] takes the queue's lock under it.

use super::watch::{ActiveWatch, Visibility};
use crate::cluster::Cluster;
use crate::kind::GroupVersionKind;
use crate::manager::leadership::Leadership;
use crate::manager::registrations::{Registration, Registrations};
use crate::manager::shared_queue::SharedQueue;
use crate::name::ClusterName;
use crate::queue::ControllerId;
use crate::request::Request;
use crate::source::Watch;
use parking_lot::Mutex;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) type ByCluster = HashMap<ClusterName, Vec<Arc<ActiveWatch>>>;

pub(in crate::manager) struct RunningWatches {
    queue: Arc<SharedQueue>,
    registrations: Arc<Registrations>,
    leadership: Arc<Leadership>,
    /// Whether there is a provider, which decides what controllers engage by default.
    has_provider: AtomicBool,
    by_controller: Mutex<HashMap<ControllerId, ByCluster>>,
}

impl RunningWatches {
    pub(super) fn new(
        queue: Arc<SharedQueue>,
        registrations: Arc<Registrations>,
        leadership: Arc<Leadership>,
        has_provider: bool,
    ) -> Self {
        Self {
            queue,
            registrations,
            leadership,
            has_provider: AtomicBool::new(has_provider),
            by_controller: Mutex::default(),
        }
    }

    pub(super) fn has_provider(&self) -> bool {
        self.has_provider.load(Ordering::Acquire)
    }

    /// Returns whether that is a change.
    pub(super) fn set_has_provider(&self, has_provider: bool) -> bool {
        self.has_provider.swap(has_provider, Ordering::AcqRel) != has_provider
    }

    pub(super) fn insert(
        &self,
        controller: ControllerId,
        cluster: &ClusterName,
        watches: Vec<Arc<ActiveWatch>>,
    ) {
        let mut by_controller = self.by_controller.lock();
        let by_cluster = by_controller.entry(controller).or_default();
        by_cluster.insert(cluster.clone(), watches);
    }

    /// Takes out the watches of a controller. They end when the caller drops them.
    #[must_use]
    pub(super) fn take(&self, controller: ControllerId) -> ByCluster {
        let taken = self.by_controller.lock().remove(&controller);
        taken.unwrap_or_default()
    }

    /// Takes out the watches of a controller in a cluster. They end when the caller drops them.
    #[must_use]
    pub(super) fn take_in(
        &self,
        controller: ControllerId,
        cluster: &ClusterName,
    ) -> Vec<Arc<ActiveWatch>> {
        let mut by_controller = self.by_controller.lock();
        let by_cluster = by_controller.get_mut(&controller);
        by_cluster
            .and_then(|of| of.remove(cluster))
            .unwrap_or_default()
    }

    /// Ends the watches of a controller.
    pub(in crate::manager) fn end(&self, controller: ControllerId) {
        drop(self.take(controller));
    }

    /// Ends all watches in a cluster.
    pub(in crate::manager) fn end_in(&self, cluster: &ClusterName) {
        let mut by_controller = self.by_controller.lock();
        let each = by_controller.values_mut();
        let ended: Vec<_> = each.filter_map(|of| of.remove(cluster)).collect();
        drop(by_controller);
        drop(ended);
    }

    /// Ends all watches.
    pub(in crate::manager) fn end_all(&self) {
        let ended = std::mem::take(&mut *self.by_controller.lock());
        drop(ended);
    }

    /// Holds a controller's keys of a cluster until all its watches there are in step, and this process owns the cluster.
    pub(in crate::manager) fn settle(&self, registration: &Registration, cluster: &ClusterName) {
        // Locked until the queue knows, so that an older answer cannot follow a newer one, and no cluster that has left is named.
        let by_controller = self.by_controller.lock();
        let watches = by_controller
            .get(&registration.id)
            .and_then(|of| of.get(cluster));
        let behind = watches.is_some_and(|watches| !watches.iter().all(|watch| watch.is_in_step()));
        let controller = registration.controller();
        let held = behind || self.leadership.holds_in(&controller, cluster);
        self.queue.hold_in_cluster(registration.id, cluster, held);
        drop(by_controller);
    }

    /// Whether every watch of a kind in a cluster has these labels for its selector.
    pub(super) fn all_select(
        &self,
        kind: &GroupVersionKind,
        cluster: &Cluster,
        labels: &str,
    ) -> bool {
        let has_provider = self.has_provider();
        self.registrations.all().iter().all(|registration| {
            let controller = registration.controller();
            let here = |watch: &&Arc<Watch>| {
                let selection = &controller.selection;
                watch.kind == *kind && selection.engages(watch, cluster, has_provider)
            };
            controller.watches.iter().filter(here).all(|watch| {
                let selector = watch.label_selector.as_ref();
                selector.is_some_and(|selector| selector.to_string() == labels)
            })
        })
    }

    /// Removes the keys of a controller in a cluster that stays in the fleet, and whose keys are not this process's any more.
    pub(super) fn forget_keys(&self, controller: ControllerId, cluster: &ClusterName) {
        self.queue.remove_in_cluster(controller, cluster);
    }

    /// Removes the keys of a controller in a cluster that stays in the fleet, and in which the controller has no watch any more.
    pub(super) fn left(&self, controller: ControllerId, cluster: &ClusterName) {
        self.forget_keys(controller, cluster);
        // Its mappers in other clusters may have asked for some of these keys.
        self.cluster_arrived(controller, cluster);
    }

    /// Whether the watches of all controllers in a cluster have their caches, or cannot have them.
    pub(in crate::manager) fn are_in_step(&self, cluster: &ClusterName) -> bool {
        let by_controller = self.by_controller.lock();
        let mut each = by_controller.values().filter_map(|of| of.get(cluster));
        each.all(|watches| watches.iter().all(|watch| watch.is_in_step()))
    }

    fn of(&self, controller: ControllerId) -> Vec<Arc<ActiveWatch>> {
        let by_controller = self.by_controller.lock();
        let by_cluster = by_controller.get(&controller);
        by_cluster
            .map(|of| of.values().flatten().cloned().collect())
            .unwrap_or_default()
    }

    /// In how many clusters a controller has watches.
    pub(in crate::manager) fn clusters(&self, controller: ControllerId) -> usize {
        let by_controller = self.by_controller.lock();
        by_controller.get(&controller).map_or(0, HashMap::len)
    }

    /// Whether a controller works in a cluster.
    pub(in crate::manager) fn engages(
        &self,
        controller: ControllerId,
        cluster: &ClusterName,
    ) -> bool {
        let by_controller = self.by_controller.lock();
        let by_cluster = by_controller.get(&controller);
        by_cluster.is_some_and(|of| of.contains_key(cluster))
    }

    /// Why watches of a controller do not run as they should, one line for each.
    pub(in crate::manager) fn problems(&self, controller: ControllerId) -> Vec<String> {
        let watches = self.of(controller);
        watches.iter().filter_map(|watch| watch.problem()).collect()
    }

    /// Why kinds that a controller watches are watched nowhere, a line for each kind, of its first cluster: all of its clusters lack the
    /// kind, or refuse it.
    pub(in crate::manager) fn unwatched(&self, controller: ControllerId) -> Vec<String> {
        let mut kinds: BTreeMap<String, Option<String>> = BTreeMap::new();
        for watch in self.of(controller) {
            let problem = watch.problem();
            match kinds.entry(watch.kind()) {
                // A problem begins with its cluster.
                Entry::Occupied(mut known) => {
                    let both = known.get_mut().take().zip(problem);
                    *known.get_mut() = both.map(|(one, other)| one.min(other));
                }
                Entry::Vacant(free) => drop(free.insert(problem)),
            }
        }
        kinds.into_values().flatten().collect()
    }

    /// How many events wait for the controller's mapper, and how many requests for deleted objects wait for room in the queue.
    pub(in crate::manager) fn waiting(&self, controller: ControllerId) -> (usize, usize) {
        let watches = self.of(controller);
        let waiting = watches.iter().map(|watch| watch.waiting());
        waiting.fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// Whether all events of a controller have become requests in the queue.
    pub(in crate::manager) fn are_idle(&self, controller: ControllerId) -> bool {
        self.of(controller).iter().all(|watch| watch.is_idle())
    }

    /// The object and the reason of a mapper of the controller that failed last.
    pub(in crate::manager) fn map_failure(&self, controller: ControllerId) -> Option<String> {
        self.of(controller)
            .iter()
            .find_map(|watch| watch.map_failure())
    }

    /// Enqueues every object of a controller again.
    pub(in crate::manager) fn enqueue_all(&self, controller: ControllerId) {
        enqueue(&self.of(controller));
    }

    /// Enqueues every object of a controller in a cluster again.
    pub(in crate::manager) fn enqueue_in(&self, controller: ControllerId, cluster: &ClusterName) {
        let by_controller = self.by_controller.lock();
        let by_cluster = by_controller.get(&controller);
        let watches = by_cluster.and_then(|of| of.get(cluster)).cloned();
        drop(by_controller);
        enqueue(&watches.unwrap_or_default());
    }

    /// Scans again for the requests that mappers of a controller made for a cluster while the cluster was away.
    pub(super) fn cluster_arrived(&self, controller: ControllerId, cluster: &ClusterName) {
        for watch in self.of(controller) {
            watch.cluster_arrived(cluster);
        }
    }

    /// How a controller's watches of its own objects see the object of a request, by kind. `None`: the controller does not work in
    /// the cluster.
    pub(in crate::manager) fn visibility(
        &self,
        controller: ControllerId,
        request: &Request,
    ) -> Option<Vec<(String, Visibility)>> {
        let by_controller = self.by_controller.lock();
        let watches = by_controller
            .get(&controller)?
            .get(&request.cluster)?
            .clone();
        drop(by_controller);
        let primary = watches.iter().filter(|watch| watch.is_primary());
        let each = primary.map(|watch| (watch.kind(), watch.visibility(&request.key)));
        Some(each.collect())
    }
}

/// Enqueues the objects of watches, of the primary ones where there are such.
fn enqueue(watches: &[Arc<ActiveWatch>]) {
    let any_primary = watches.iter().any(|watch| watch.is_primary());
    let chosen = watches
        .iter()
        .filter(|watch| watch.is_primary() || !any_primary);
    chosen.for_each(|watch| watch.enqueue_all());
}
