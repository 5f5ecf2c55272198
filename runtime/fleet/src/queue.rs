//! Holds requests until they run: merging, delay, backoff, priority, fairness. Entry point: [`Queue`].
//!
//! One queue serves the process. It does no I/O and reads no clock: every call that depends on time takes the time as an argument. A
//! dispatcher that got nothing from [`Queue::get`] sleeps until [`Queue::next_wake`]. A caller that has changed the queue wakes the
//! dispatcher if the queue [has news](Queue::has_news).
//!
//! The classes are tenant → controller → flow → key; a *flow* is a controller's keys of one cluster. Of the classes that have a ready key
//! and are at no limit, the class that has been charged least slot time (from [`Queue::get`] to [`Queue::done`]) is next; tenants count
//! by weight. A run that begins is charged the class's moving average. The charge is corrected when the run is done. Inside a controller
//! priority comes first, and flows take turns among equals.
//!
//! Nothing that is ready starves. Of four runs in a row of a controller, one goes to the flow whose turn it is whatever the priorities; of
//! four in a row of a flow, one to the key that has been ready for longest. `docs/limits.md` states the bounds.
//!
//! A run holds its slot from [`Queue::get`] to [`Queue::done`], whatever it waits for. So that clusters whose servers are slow or dead do
//! not take all slots, the clusters with a run that is a second old have at most half of a tenant's slots together.
//!
//! Invariants:
//! * A key is handed out again only after [`Queue::done`]. A request for a key that runs makes it run once more.
//! * Equal requests of a controller are one key, with the higher priority and the earlier time.
//! * A request is refused only if its controller has all the keys that it may have, or has been removed. A controller that was refused
//!   is named by [`Queue::drained`] once it has room.
//!
//! Cost: a method is O(log n) in keys and classes unless its comment says otherwise.
//!
//! Not guaranteed: the queue takes no slot back, so a class that was idle may wait for one. `slow` says how many slots clusters can hold
//! that have just fallen silent.
//!
//! Rooms: `options` and `status` are for callers. `registry` holds the classes, `key` and `table` the keys. `wait` and `timer` decide when
//! a key is ready, `pick` which is next, `run` what follows its run; `wake` brings failed and paused keys forward. `gate`, `slow` and `hot_key` are
//! limits, `slab` gives out ids.

mod class;
mod gate;
mod hot_key;
mod key;
mod options;
mod pick;
mod registry;
mod run;
mod slab;
mod slow;
mod status;
mod table;
mod timer;
mod wait;
mod wake;
#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod hot_key_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod paused_tests;
#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod starvation_tests;
#[cfg(test)]
mod tests;

pub use options::{Add, Cause, HotKeyLimit, Limits, QueueOptions, TenantOptions};
pub use run::Outcome;
pub use status::{KeyState, LastFailure, QueuedKey};

pub(crate) use class::{Counts, Totals};
pub(crate) use options::{Added, ClusterMode, Origin};
pub(crate) use run::{Run, Token};
pub(crate) use status::QueuedKeyFilter;

use crate::name::{ClusterName, ControllerName, TenantName};
use crate::portion::Portion;
use crate::request::{ObjectKey, Request};
use ahash::{AHashMap, AHashSet, RandomState};
use class::Controller;
use fastrand::Rng;
use hot_key::RunCounts;
use key::{Entry, Keys, State};
use registry::Classes;
use run::{Running, Runs};
use slab::{ControllerIndex, KeyId};
use slow::Ended;
use std::time::{Duration, Instant};
use timer::Timers;
use wait::is_live;

/// A controller of the queue. Not reused: a controller that is added again gets another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControllerId {
    index: ControllerIndex,
    /// Differs from that of earlier controllers with the same index.
    number: u32,
}

/// The queue. See the module's header for what it promises.
#[derive(Debug)]
pub struct Queue {
    classes: Classes,
    keys: Keys,
    timers: Timers,
    runs: Runs,
    /// The last failures that are kept.
    failures: AHashMap<KeyId, LastFailure>,
    /// Keys that their objects pause. They have not run since.
    paused: AHashSet<KeyId>,
    /// Controllers that have refused a request and have room again.
    drained: Vec<ControllerId>,
    run_counts: RunCounts,
    /// Hot keys that have not been reported yet.
    hot_keys: Vec<(ControllerId, Request)>,
    counts: Counts,
    hasher: RandomState,
    rng: Rng,
    /// When the queue was made: its nanoseconds count from here.
    epoch: Instant,
    /// What [`Queue::next_wake`] returned last.
    last_wake: Option<u64>,
    /// Keys of which a status was put together.
    #[cfg(test)]
    shown: std::cell::Cell<u64>,
}

impl Queue {
    /// An empty queue. An earlier time than `now` counts as `now` in all later calls.
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
            paused: AHashSet::default(),
            drained: Vec::new(),
            run_counts: RunCounts::new(limits.hot_key),
            hot_keys: Vec::new(),
            counts: Counts::default(),
            hasher: RandomState::new(),
            rng,
            epoch: now,
            last_wake: None,
            #[cfg(test)]
            shown: std::cell::Cell::default(),
        }
    }

    fn nanos(&self, now: Instant) -> u64 {
        nanos(now.saturating_duration_since(self.epoch))
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
        self.run_counts.set_limit(limits.hot_key);
        self.classes.set_limits(limits);
        for controller in self.classes.controllers.ids() {
            self.announce_room(controller);
        }
    }

    /// Adds a tenant, or changes its options. Linear in tenants.
    pub fn set_tenant(&mut self, name: &TenantName, options: TenantOptions) {
        self.classes.set_tenant(name, options);
    }

    /// Changes which part of the limits of tenants and controllers is this process's; they are for all processes together. Linear in tenants and
    /// controllers. Default: all of it.
    pub fn set_portion(&mut self, portion: Portion) {
        self.classes.set_portion(portion);
    }

    /// Removes a tenant that has no controller any more; false if it has one, or if a removed one still runs. Linear in clusters.
    pub fn remove_tenant(&mut self, name: &TenantName) -> bool {
        self.classes.remove_tenant(name)
    }

    /// Adds a controller to a tenant. An unknown tenant is added with the default options.
    pub fn add_controller(
        &mut self,
        tenant: &TenantName,
        name: ControllerName,
        options: QueueOptions,
    ) -> ControllerId {
        let tenant = match self.classes.tenant_id(tenant) {
            Some(tenant) => tenant,
            None => self.classes.set_tenant(tenant, TenantOptions::default()),
        };
        self.classes.add_controller(tenant, name, options)
    }

    /// Changes a controller's options.
    pub fn set_controller(&mut self, controller: ControllerId, options: QueueOptions) {
        if self.controller(controller).is_some() {
            self.classes.set_options(controller.index, options);
        }
    }

    /// Holds a controller's keys, or releases them. Held keys are accepted, and none is handed out. Runs go on.
    pub fn hold_controller(&mut self, controller: ControllerId, held: bool) {
        if self.controller(controller).is_some() {
            self.classes.hold_controller(controller.index, held);
        }
    }

    /// Holds a controller's keys of one cluster, or releases them, as [`Queue::hold_controller`] does with all. Removing the cluster
    /// releases them too.
    pub fn hold_in_cluster(&mut self, controller: ControllerId, cluster: &ClusterName, held: bool) {
        if self.controller(controller).is_some() {
            self.classes.hold_flow(controller.index, cluster, held);
        }
    }

    fn controller(&self, id: ControllerId) -> Option<&Controller> {
        let controller = self.classes.controllers.get(id.index)?;
        (controller.alive && controller.id == id).then_some(controller)
    }

    /// The tenant and name of a controller; `None` once it has been removed.
    #[must_use]
    pub fn name(&self, controller: ControllerId) -> Option<(&TenantName, &ControllerName)> {
        let controller = self.controller(controller)?;
        let tenant = &self.classes.tenants[controller.tenant];
        Some((&tenant.name, &controller.name))
    }

    /// Removes a controller and its waiting keys. Returns its runs: the caller ends them, and how they end does not matter. Linear in
    /// flows, and in the controller's keys.
    pub fn remove_controller(&mut self, now: Instant, controller: ControllerId) -> Vec<Token> {
        if self.controller(controller).is_none() {
            return Vec::new();
        }
        let now = self.nanos(now);
        let index = controller.index;
        let flows = self.classes.flows_of(index);
        flows.into_iter().for_each(|flow| self.purge(flow, now));
        self.classes.controllers[index].alive = false;
        self.drained.retain(|id| *id != controller);
        let runs = self.runs.tokens(|run| run.controller == index);
        if runs.is_empty() {
            self.classes.drop_controller(index);
        }
        runs
    }

    /// Removes a cluster and its waiting keys. Returns its runs: the caller cancels them, and however they end counts as done. A cluster
    /// of the same name may join at once. A key of it that still runs runs again when that run has ended. Linear in the cluster's keys.
    pub fn remove_cluster(&mut self, now: Instant, name: &ClusterName) -> Vec<Token> {
        let Some(cluster) = self.classes.cluster_id(name) else {
            return Vec::new();
        };
        let now = self.nanos(now);
        // It may be leaving already: no flow may be dropped within this loop.
        self.classes.clusters[cluster].leaving = false;
        let flows = self.classes.clusters[cluster].flows.clone();
        flows.iter().for_each(|flow| self.purge(*flow, now));
        let runs = self.runs.tokens(|run| flows.contains(&run.flow));
        for token in &runs {
            self.runs.abandon(*token);
        }
        self.classes.set_cluster(name, ClusterMode::Ready);
        self.classes.reset_answers(cluster);
        self.classes.release_cluster(cluster);
        self.classes.clusters[cluster].leaving = true;
        for flow in flows {
            if self.classes.flows[flow].keys == 0 {
                self.classes.drop_flow(flow);
            }
        }
        self.classes.drop_cluster(cluster);
        runs
    }

    /// Sets how a cluster's keys may run. A cluster that was never set is ready.
    pub fn set_cluster(&mut self, name: &ClusterName, state: ClusterMode) {
        self.classes.set_cluster(name, state);
    }

    /// Adds a request. Equal requests of a controller merge: the higher priority and the earlier time count. A running key runs again
    /// when it is done. An event makes a key in backoff run at once; its count of attempts stays.
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
        let added = match self.find(controller, request, hash) {
            Some(key) => self.merge(now, key, add, due),
            None if self.is_full(controller) => Added::Full,
            None => {
                self.insert(now, controller, request, hash, add, due);
                Added::New
            }
        };
        let controller = &mut self.classes.controllers[controller.index];
        if added == Added::Full {
            controller.refused = true;
            controller.totals.refused += 1;
        } else {
            controller.totals.adds += 1;
        }
        added
    }

    /// Adds a key that is not in the queue.
    fn insert(
        &mut self,
        now: u64,
        controller: ControllerId,
        request: &Request,
        hash: u32,
        add: Add,
        due: Option<u64>,
    ) {
        let cluster = self.classes.cluster(&request.cluster);
        let flow = self.classes.find_flow(controller.index, cluster);
        let flow = flow.unwrap_or_else(|| self.classes.add_flow(controller.index, cluster, now));
        let key = self.keys.insert(hash, flow, request.key.clone(), &add);
        self.classes.key_added(flow);
        let (due, state) = self.throttle(now, hash, add.cause, due);
        self.wait(now, key, due, state);
        if state == State::Throttled {
            self.count_throttled(key);
        }
    }

    fn find(&self, controller: ControllerId, request: &Request, hash: u32) -> Option<KeyId> {
        let cluster = self.classes.cluster_id(&request.cluster)?;
        let flow = self.classes.find_flow(controller.index, cluster)?;
        self.keys.find(hash, flow, &request.key)
    }

    /// How many more keys a controller may have.
    #[must_use]
    pub fn room(&self, controller: ControllerId) -> usize {
        let limit = self.classes.limits.keys_per_controller;
        let controller = self.controller(controller);
        controller.map_or(0, |of| limit.saturating_sub(of.counts.limited()))
    }

    /// Whether a controller may have more keys. If not, [`Queue::drained`] will name it once it may.
    pub fn has_room(&mut self, controller: ControllerId) -> bool {
        let full = self.controller(controller).is_some() && self.is_full(controller);
        if full {
            self.classes.controllers[controller.index].refused = true;
        }
        !full
    }

    fn is_full(&self, controller: ControllerId) -> bool {
        self.room(controller) == 0
    }

    /// Takes back a removal, as long as the last run of the controller has not ended: its runs count again. False if there is
    /// nothing left of it.
    pub fn revive_controller(&mut self, id: ControllerId) -> bool {
        let controller = self.classes.controllers.get_mut(id.index);
        let Some(controller) = controller.filter(|controller| controller.id == id) else {
            return false;
        };
        if !controller.alive && controller.counts.limited() == 0 {
            return false;
        }
        controller.alive = true;
        true
    }

    /// A controller that has refused requests and has a tenth of its room again: its sources offer their requests again.
    pub fn drained(&mut self) -> Option<ControllerId> {
        self.drained.pop()
    }

    /// A key that has become hot: it is throttled from now on. It is not returned again before its runs have been few for a while.
    pub fn hot_key(&mut self) -> Option<(ControllerId, Request)> {
        self.hot_keys.pop()
    }

    /// Hands out the key that is next, if any may run. It is not handed out again before [`Queue::done`].
    pub fn get(&mut self, now: Instant) -> Option<Run> {
        let at = self.nanos(now);
        self.promote(at);
        self.mark_old_runs(at);
        let flow = self.classes.pick(at)?;
        let lists = &mut self.classes.flows[flow].lists;
        let key = self.keys.next_ready(lists)?;
        self.delist(key);
        let best = self.classes.flows[flow].lists.best();
        let charged = self.classes.start(flow, best, at);
        self.enlist(key, State::Running);
        let token = self.runs.token(key);
        let controller = self.controller_of(key).id;
        self.runs.begin(Running {
            token,
            flow,
            controller: controller.index,
            rerun: None,
            cluster_gone: false,
            charged,
            started: at,
            old: false,
        });
        let Entry {
            at: since,
            hash,
            priority,
            attempts,
            cause,
            ..
        } = *self.keys.entry(key);
        self.run_counts.add(hash, at, hot_key::RUN);
        Some(Run {
            token,
            controller,
            request: self.request(key)?,
            attempt: u32::from(attempts) + 1,
            priority,
            waited: Duration::from_nanos(at.saturating_sub(since)),
            cause,
            was_paused: self.paused.remove(&key),
        })
    }

    /// When the next key that waits for its time becomes ready, which may be now; `None` if none waits.
    pub fn next_wake(&mut self) -> Option<Instant> {
        self.last_wake = self.next_due();
        self.last_wake.map(|due| self.instant(due))
    }

    /// Whether a caller that sleeps until [`Queue::next_wake`] must wake earlier: a key may run, a controller is drained, a key has become
    /// hot, or a key becomes ready before that time.
    pub fn has_news(&mut self, now: Instant) -> bool {
        let at = self.nanos(now);
        self.promote(at);
        self.mark_old_runs(at);
        let last_wake = self.last_wake;
        let is_sooner = |due| last_wake.is_none_or(|last_wake| due < last_wake);
        self.next_due().is_some_and(is_sooner)
            || !self.drained.is_empty()
            || !self.hot_keys.is_empty()
            || self.classes.pick(at).is_some()
    }

    fn next_due(&mut self) -> Option<u64> {
        let keys = &self.keys;
        let alarm = self.timers.first(|alarm| is_live(keys, alarm))?;
        Some(alarm.due)
    }

    /// Ends a run. False, and nothing happens, if the run has ended before.
    pub fn done(&mut self, now: Instant, token: Token, outcome: Outcome) -> bool {
        let now = self.nanos(now);
        self.mark_old_runs(now);
        let Some(run) = self.runs.end(token) else {
            return false;
        };
        let slot_time = now.saturating_sub(run.started);
        let ended = Ended {
            old: run.old,
            cluster_gone: run.cluster_gone,
        };
        self.classes
            .finish(run.flow, run.charged, slot_time, now, ended);
        if self.classes.controllers[run.controller].alive {
            self.decide_next(now, &run, outcome);
            self.announce_room(run.controller);
            return true;
        }
        self.forget(token.key);
        if self.classes.controllers[run.controller].counts.limited() == 0 {
            self.classes.drop_controller(run.controller);
        }
        true
    }

    /// By this hash a key is found, and its runs are counted, also while it is not in the queue.
    fn hash(&self, controller: ControllerId, request: &Request) -> u32 {
        self.hasher.hash_one((controller, request)) as u32
    }

    /// The request of a key that is there.
    fn request(&self, key: KeyId) -> Option<Request> {
        let Entry { key, flow, .. } = self.keys.entry(key);
        let cluster = &self.classes.clusters[self.classes.flows[*flow].cluster];
        let key: ObjectKey = key.clone()?;
        Some(Request::new(cluster.name.clone(), key))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
