//! Holds requests until they run: dedup, delay, backoff, priority, fairness. Entry point: [`Queue`].
//!
//! One queue serves the process. It does no I/O and reads no clock: every call that depends on time is told it, and who waits for
//! [`Queue::get`] sleeps until [`Queue::next_wake`], or until whoever has changed something finds that it [has news](Queue::has_news).
//!
//! The classes are tenant → controller → cluster → key. Of those that have a key to run and are at no limit, the class that has
//! been charged least slot time (from [`Queue::get`] to [`Queue::done`]) is next; tenants count by weight. A run is charged the
//! class's moving average when it is handed out, which is corrected when it is done. Inside a controller priority comes first,
//! and clusters take turns among equals.
//!
//! A run holds its slot from [`Queue::get`] to [`Queue::done`], whatever it waits for. So that clusters whose servers are slow or dead do
//! not hold what the rest needs, those of which a run is a second old have at most half of a tenant's slots together.

mod class;
mod gate;
mod heap;
mod key;
mod options;
mod registry;
mod run;
mod slab;
mod slow;
mod status;
mod storm;
mod table;
mod timer;
mod turn;
mod wait;
#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod storm_tests;
#[cfg(test)]
mod tests;

pub use class::{Counts, Totals};
pub use options::{
    Add, Added, Cause, ClusterState, ControllerOptions, Limits, Origin, StormLimit, TenantOptions,
};
pub use run::{Outcome, Run, Token};
pub use status::{KeyFilter, KeyState, KeyStatus, LastFailure, Page};

use crate::name::{ClusterName, ControllerName, TenantName};
use crate::request::{ObjectKey, Request};
use ahash::{AHashMap, RandomState};
use class::{Controller, Tally};
use fastrand::Rng;
use key::{Entry, Keys, State};
use registry::Classes;
use run::{Running, Runs};
use slow::Ended;
use std::time::{Duration, Instant};
use storm::RunCounts;
use timer::Timers;
use wait::counts;

/// A controller of the queue. Not reused: a controller that is added again gets another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControllerId {
    place: u32,
    generation: u32,
}

/// The queue. See the [module](self) for what it promises.
///
/// All methods are O(log n) in keys and classes unless they say otherwise.
#[derive(Debug)]
pub struct Queue {
    classes: Classes,
    keys: Keys,
    timers: Timers,
    runs: Runs,
    /// The last failures that are kept, by key.
    failures: AHashMap<u32, LastFailure>,
    /// Controllers that have refused a request and have room again.
    drained: Vec<ControllerId>,
    storms: RunCounts,
    /// Keys of which a storm began and has not been told yet.
    stormy: Vec<(ControllerId, Request)>,
    tally: Tally,
    hasher: RandomState,
    rng: Rng,
    /// What the queue's nanoseconds count from.
    epoch: Instant,
    /// What [`Queue::next_wake`] told last.
    told: Option<u64>,
    /// Keys of which a status was put together.
    #[cfg(test)]
    shown: std::cell::Cell<u64>,
}

/// What a request is found by.
struct Hashes {
    /// Of the controller and the cluster.
    lane: u32,
    /// Of these and the object.
    key: u32,
}

impl Queue {
    /// An empty queue. No later call may be told an earlier time than `now`; one that is counts as `now`.
    #[must_use]
    pub fn new(now: Instant, limits: Limits) -> Self {
        Self::with_rng(now, limits, Rng::new())
    }

    /// As [`Queue::new`], with the source of the jitter in backoff.
    #[must_use]
    pub fn with_rng(now: Instant, limits: Limits, rng: Rng) -> Self {
        Self {
            classes: Classes::new(limits),
            keys: Keys::default(),
            timers: Timers::default(),
            runs: Runs::default(),
            failures: AHashMap::default(),
            drained: Vec::new(),
            storms: RunCounts::new(limits.storm),
            stormy: Vec::new(),
            tally: Tally::default(),
            hasher: RandomState::new(),
            rng,
            epoch: now,
            told: None,
            #[cfg(test)]
            shown: std::cell::Cell::default(),
        }
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }

    fn instant(&self, nanos: u64) -> Instant {
        // A delay of centuries has been cut to what fits in 64 bits, which an Instant may still not hold.
        self.epoch
            .checked_add(Duration::from_nanos(nanos))
            .unwrap_or(self.epoch + Duration::from_secs(1 << 30))
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.classes.limits
    }

    /// Changes the limits. Runs beyond a lower limit go on. Linear in clusters, tenants and controllers.
    pub fn set_limits(&mut self, limits: Limits) {
        self.storms.set_limit(limits.storm);
        self.classes.set_limits(limits);
        for controller in 0..self.classes.controllers.len() {
            self.note_room(controller as u32);
        }
    }

    /// Makes a tenant, or changes what it gets. Linear in tenants.
    pub fn set_tenant(&mut self, name: &TenantName, options: TenantOptions) {
        self.classes.set_tenant(name, options);
    }

    /// Removes a tenant that no controller belongs to any more; false if one does, or still runs. Linear in clusters.
    pub fn remove_tenant(&mut self, name: &TenantName) -> bool {
        self.classes.remove_tenant(name)
    }

    /// Adds a controller to a tenant, which gets the default options if it is not known.
    pub fn add_controller(
        &mut self,
        tenant: &TenantName,
        name: ControllerName,
        options: ControllerOptions,
    ) -> ControllerId {
        let tenant = match self.classes.tenant_id(tenant) {
            Some(tenant) => tenant,
            None => self.classes.set_tenant(tenant, TenantOptions::default()),
        };
        let place = self.classes.add_controller(tenant, name, options);
        ControllerId {
            place,
            generation: self.classes.controllers[place as usize].generation,
        }
    }

    /// Changes what a controller gets.
    pub fn set_controller(&mut self, controller: ControllerId, options: ControllerOptions) {
        if self.controller(controller).is_some() {
            self.classes.set_options(controller.place, options);
        }
    }

    /// Holds a controller's keys, or lets them go: held ones are taken in and none is handed out. Runs go on.
    pub fn hold_controller(&mut self, controller: ControllerId, held: bool) {
        if self.controller(controller).is_some() {
            self.classes.hold_controller(controller.place, held);
        }
    }

    /// Holds a controller's keys of one cluster, or lets them go, as [`Queue::hold_controller`] does with all. A cluster that is
    /// removed takes its holds along.
    pub fn hold_in_cluster(&mut self, controller: ControllerId, cluster: &ClusterName, held: bool) {
        if self.controller(controller).is_some() {
            let hash = self.lane_hash(controller, cluster);
            self.classes
                .hold_lane(hash as u32, controller.place, cluster, held);
        }
    }

    fn controller(&self, id: ControllerId) -> Option<&Controller> {
        self.classes
            .controllers
            .get(id.place as usize)
            .filter(|of| of.alive && of.generation == id.generation)
    }

    /// The tenant and name of a controller; `None` once it has been removed.
    #[must_use]
    pub fn name(&self, controller: ControllerId) -> Option<(&TenantName, &ControllerName)> {
        self.controller(controller)
            .map(|of| (&self.classes.tenants[of.tenant as usize].name, &of.name))
    }

    /// Removes a controller and its waiting keys. Returns its runs, which the caller ends; how they end does not matter. Linear in
    /// lanes, and in the controller's keys.
    pub fn remove_controller(&mut self, now: Instant, controller: ControllerId) -> Vec<Token> {
        if self.controller(controller).is_none() {
            return Vec::new();
        }
        let now = self.nanos(now);
        let lanes = self.classes.lanes_of(controller.place);
        lanes.into_iter().for_each(|lane| self.purge(lane, now));
        let removed = &mut self.classes.controllers[controller.place as usize];
        removed.alive = false;
        self.drained.retain(|id| *id != controller);
        let runs = self.runs.tokens(|run| run.controller == controller.place);
        if runs.is_empty() {
            self.classes.drop_controller(controller.place);
        }
        runs
    }

    /// Removes a cluster: its waiting keys leave the queue. Returns its runs, which the caller cancels; however they end counts as
    /// done. A cluster of the same name may join at once: a key of it that still runs runs again once that has ended. Linear in the
    /// cluster's keys.
    pub fn remove_cluster(&mut self, now: Instant, name: &ClusterName) -> Vec<Token> {
        let Some(cluster) = self.classes.cluster_id(name) else {
            return Vec::new();
        };
        let now = self.nanos(now);
        // It may be leaving already: lanes must not go while they are looked at.
        self.classes.clusters[cluster as usize].leaving = false;
        let lanes = self.classes.clusters[cluster as usize].lanes.clone();
        lanes.iter().for_each(|lane| self.purge(*lane, now));
        let runs = self.runs.tokens(|run| lanes.contains(&run.lane));
        for token in &runs {
            self.runs.abandon(*token);
        }
        self.classes.set_cluster(name, ClusterState::Ready);
        self.classes.forgive(cluster);
        self.classes.release_cluster(cluster);
        self.classes.clusters[cluster as usize].leaving = true;
        for lane in lanes {
            if self.classes.lanes[lane as usize].keys == 0 {
                self.classes.drop_lane(lane);
            }
        }
        self.classes.drop_cluster(cluster);
        runs
    }

    /// Says how a cluster's keys may run. A cluster that nothing was said about is ready.
    pub fn set_cluster(&mut self, name: &ClusterName, state: ClusterState) {
        self.classes.set_cluster(name, state);
    }

    /// Adds a request. Equal requests of a controller merge: the higher priority and the earlier time count. One that is running runs
    /// again when it is done. An event makes a key run at once that waits after a failure; its count of attempts stays.
    pub fn add(
        &mut self,
        now: Instant,
        controller: ControllerId,
        request: &Request,
        add: Add,
    ) -> Added {
        if self.controller(controller).is_none() {
            return Added::Gone;
        }
        let now = self.nanos(now);
        let due = add
            .after
            .filter(|after| !after.is_zero())
            .map(|after| now.saturating_add(nanos(after)));
        let hash = self.hash(controller, request);
        let lane = self
            .classes
            .find_lane(hash.lane, controller.place, &request.cluster);
        let added = match lane.and_then(|lane| self.keys.find(hash.key, lane, &request.key)) {
            Some(key) => self.merge(now, key, add, due),
            None if self.is_full(controller) => Added::Full,
            None => {
                let lane = lane.unwrap_or_else(|| {
                    let cluster = &request.cluster;
                    self.classes
                        .add_lane(hash.lane, controller.place, cluster, now)
                });
                self.keys.lane(lane);
                let key = self.keys.insert(hash.key, lane, request.key.clone(), &add);
                self.classes.key_added(lane);
                let (due, state) = self.admit(now, hash.key, add.cause, due);
                self.wait(now, key, due, state);
                if state == State::Throttled {
                    self.put_off(key);
                }
                Added::New
            }
        };
        let of = &mut self.classes.controllers[controller.place as usize];
        if added == Added::Full {
            of.refused = true;
            of.totals.refused += 1;
        } else {
            of.adds += 1;
        }
        added
    }

    /// How many more keys a controller's share of the queue has room for.
    #[must_use]
    pub fn room(&self, controller: ControllerId) -> usize {
        self.controller(controller).map_or(0, |of| {
            self.classes
                .limits
                .keys_per_controller
                .saturating_sub(of.tally.counts().held())
        })
    }

    /// Whether a controller's share of the queue has room. If not, [`Queue::drained`] will name it once there is.
    pub fn has_room(&mut self, controller: ControllerId) -> bool {
        let full = self.controller(controller).is_some() && self.is_full(controller);
        if full {
            self.classes.controllers[controller.place as usize].refused = true;
        }
        !full
    }

    /// Takes back a removal, as long as the last run of the controller has not ended: its runs count again. False if there is
    /// nothing left of it.
    pub fn revive_controller(&mut self, controller: ControllerId) -> bool {
        let place = self.classes.controllers.get_mut(controller.place as usize);
        let Some(of) = place.filter(|of| of.generation == controller.generation) else {
            return false;
        };
        if !of.alive && of.tally.counts().held() == 0 {
            return false;
        }
        of.alive = true;
        true
    }

    /// A controller that has refused requests and of whose share a tenth is free again: its sources offer theirs again.
    pub fn drained(&mut self) -> Option<ControllerId> {
        self.drained.pop()
    }

    /// A key of which a storm has begun: it has run too often, and is held back from now on until it is calm.
    pub fn storm(&mut self) -> Option<(ControllerId, Request)> {
        self.stormy.pop()
    }

    /// Hands out the key whose turn it is, if any may run. It is not handed out again before [`Queue::done`].
    pub fn get(&mut self, now: Instant) -> Option<Run> {
        let at = self.nanos(now);
        self.promote(at);
        self.find_old(at);
        let lane = self.classes.pick(at)?;
        let key = self.keys.pop_ready(lane)?;
        let charged = self.classes.start(lane, self.keys.lane(lane).best(), at);
        let controller = self.id(self.classes.lanes[lane as usize].controller);
        let token = self.runs.begin(Running {
            key,
            lane,
            controller: controller.place,
            again: None,
            gone: false,
            charged,
            started: at,
            old: false,
        });
        self.count(key, -1);
        self.keys.begin(key, token.place());
        self.storms.count(self.keys.entry(key).hash, at, storm::RUN);
        self.count(key, 1);
        let Entry {
            at: since,
            priority,
            attempts,
            cause,
            ..
        } = *self.keys.entry(key);
        let waited = Duration::from_nanos(at.saturating_sub(since));
        Some(Run {
            token,
            controller,
            request: self.request(key)?,
            attempt: u32::from(attempts) + 1,
            priority,
            waited,
            cause,
        })
    }

    /// When a key that waits for its time becomes ready, which may be now; `None` if none does.
    pub fn next_wake(&mut self) -> Option<Instant> {
        self.told = self.next_due();
        self.told.map(|due| self.instant(due))
    }

    /// Whether there is more to do for who hands out keys than to wait for what [`Queue::next_wake`] told last: a key may run, something
    /// is to be told, or a key becomes ready earlier. Who has changed the queue need not wake them otherwise.
    pub fn has_news(&mut self, now: Instant) -> bool {
        let at = self.nanos(now);
        self.promote(at);
        self.find_old(at);
        let told = self.told;
        let sooner = |due| told.is_none_or(|told| due < told);
        self.next_due().is_some_and(sooner)
            || !self.drained.is_empty()
            || !self.stormy.is_empty()
            || self.classes.pick(at).is_some()
    }

    fn next_due(&mut self) -> Option<u64> {
        let keys = &self.keys;
        let alarm = self.timers.first(|alarm| counts(keys, alarm))?;
        Some(alarm.due)
    }

    /// Takes back a run. False, and nothing happens, if the token's run has been taken back before.
    pub fn done(&mut self, now: Instant, token: Token, outcome: Outcome) -> bool {
        let now = self.nanos(now);
        self.find_old(now);
        let Some(run) = self.runs.end(token) else {
            return false;
        };
        let slot_time = now.saturating_sub(run.started);
        let how = Ended {
            old: run.old,
            gone: run.gone,
        };
        self.classes
            .finish(run.lane, run.charged, slot_time, now, how);
        if !self.classes.controllers[run.controller as usize].alive {
            self.forget(run.key);
            let of = &self.classes.controllers[run.controller as usize];
            if of.tally.counts().held() == 0 {
                self.classes.drop_controller(run.controller);
            }
            return true;
        }
        self.settle(now, &run, outcome);
        self.note_room(run.controller);
        true
    }

    fn hash(&self, controller: ControllerId, request: &Request) -> Hashes {
        let lane = self.lane_hash(controller, &request.cluster);
        let key = self.hasher.hash_one((lane, &request.key));
        Hashes {
            lane: lane as u32,
            key: key as u32,
        }
    }

    fn lane_hash(&self, controller: ControllerId, cluster: &ClusterName) -> u64 {
        self.hasher.hash_one((controller, cluster))
    }

    fn is_full(&self, controller: ControllerId) -> bool {
        self.room(controller) == 0
    }

    /// The request of a key that is there.
    fn request(&self, key: u32) -> Option<Request> {
        let Entry { key, lane, .. } = self.keys.entry(key);
        let cluster = &self.classes.clusters[self.classes.lanes[*lane as usize].cluster as usize];
        let key: ObjectKey = key.clone()?;
        Some(Request::new(cluster.name.clone(), key))
    }

    fn id(&self, place: u32) -> ControllerId {
        ControllerId {
            place,
            generation: self.classes.controllers[place as usize].generation,
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
