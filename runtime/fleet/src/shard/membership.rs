//! This process as a member of a sharded fleet: it sends the machine's calls, and says which clusters' keys may run. Entry point:
//! [`Membership::run`].
//!
//! Invariants:
//! * A run begins only with a [`Stay`], for a shard that is held at that moment. A shard is quiet once its last stay has been dropped, under
//!   whichever incarnation it began.
//! * Each incarnation has a fence of its own. Once it is over, its fence is shut and its runs are cancelled.

use super::Sharding;
use super::call::{Call, Outcome, Wire};
use super::machine::{Machine, Next};
use super::placement::shard_of;
use super::record::{LABEL, LeaseObject, Listing};
use super::set::ShardSet;
use super::status::ShardStatus;
use crate::api::{ApiCode, ApiError, Json};
use crate::clock::Clock;
use crate::cluster::lease::{self, LeaseCalls};
use crate::cluster::{Cluster, Fleet};
use crate::http::fence::Fence;
use crate::name::ClusterName;
use crate::portion::Portion;
use fastrand::Rng;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How often it is looked whether caches are full, while shards are joined.
const WARM_CHECK: Duration = Duration::from_millis(500);

/// This process as a member.
pub(crate) struct Membership {
    sharding: Sharding,
    clock: Clock,
    duty: Mutex<Duty>,
    status: Mutex<ShardStatus>,
    /// The living members by the shards that they hold.
    owners: Mutex<Vec<Option<Arc<str>>>>,
    /// Counts the changes of the shards that are held, or whose caches should be there.
    changes: watch::Sender<u64>,
    /// A run of a shard that leaves has ended, or this process leaves: the machine is asked again.
    inputs: Notify,
    /// Until when shards are given to others, once this process leaves.
    leaving: Mutex<Option<Instant>>,
    /// Whether this process gives its shards away and stays a member.
    drains: AtomicBool,
    /// Cancelled once this process is no member any more.
    ended: CancellationToken,
}

/// What runs may rely on.
struct Duty {
    incarnation: Arc<str>,
    holds: ShardSet,
    keeps: ShardSet,
    /// Shards that are held since this was last taken, though they may have been held before, too: another process may have worked on them
    /// in between.
    came: ShardSet,
    fence: Arc<Fence>,
    /// Shards with runs.
    busy: BTreeMap<u16, Busy>,
    /// The error of the last call; `None`: it succeeded.
    problem: Option<String>,
}

/// The runs of one shard.
struct Busy {
    runs: usize,
    /// Cancels them.
    token: CancellationToken,
    /// Since when they have been asked to end; `None`: they may go on.
    leaves_since: Option<Instant>,
}

/// A run of a key whose cluster this process owns. The shard is not given away before this is dropped.
pub(crate) struct Stay {
    membership: Arc<Membership>,
    shard: u16,
    fence: Arc<Fence>,
    token: CancellationToken,
}

impl Stay {
    /// What the run's writes must pass.
    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.fence
    }

    /// Waits until the run must end.
    pub(crate) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut duty = self.membership.duty.lock();
        let Some(busy) = duty.busy.get_mut(&self.shard) else {
            return;
        };
        busy.runs -= 1;
        if busy.runs > 0 {
            return;
        }
        let awaited = busy.leaves_since.is_some();
        duty.busy.remove(&self.shard);
        drop(duty);
        if awaited {
            self.membership.inputs.notify_one();
        }
    }
}

impl Membership {
    /// The options must have been checked.
    pub(crate) fn new(sharding: Sharding) -> Arc<Self> {
        let clock = Clock::machine();
        let duty = Duty {
            incarnation: "".into(),
            holds: ShardSet::EMPTY,
            keeps: ShardSet::EMPTY,
            came: ShardSet::EMPTY,
            fence: Fence::new(clock.clone(), sharding.timing.reach()),
            busy: BTreeMap::new(),
            problem: None,
        };
        Arc::new(Self {
            clock,
            duty: Mutex::new(duty),
            status: Mutex::new(ShardStatus::before(&sharding)),
            owners: Mutex::default(),
            sharding,
            changes: watch::channel(0).0,
            inputs: Notify::new(),
            leaving: Mutex::default(),
            drains: AtomicBool::new(false),
            ended: CancellationToken::new(),
        })
    }

    /// The shard of a cluster.
    pub(crate) fn shard_of(&self, cluster: &ClusterName) -> u16 {
        shard_of(cluster, self.sharding.shards)
    }

    /// The shards that this process holds, and those whose caches should be there: the same, and those that come or go. Third, the shards that
    /// have come since this was last asked. Of several callers one gets these.
    pub(crate) fn take_shards(&self) -> (ShardSet, ShardSet, ShardSet) {
        let mut duty = self.duty.lock();
        let came = std::mem::replace(&mut duty.came, ShardSet::EMPTY);
        (duty.holds, duty.keeps, came)
    }

    /// The portion of limits for all processes that goes with shards.
    pub(crate) fn portion(&self, shards: &ShardSet) -> Portion {
        Portion::new(shards.len(), self.sharding.shards.into())
    }

    /// Whether this process runs the keys of a cluster.
    pub(crate) fn owns(&self, cluster: &ClusterName) -> bool {
        let shard = self.shard_of(cluster);
        self.duty.lock().holds.contains(shard)
    }

    /// What writes for a cluster that this process owns must pass. `None`: another process owns it, or none does.
    pub(crate) fn fence(&self, cluster: &ClusterName) -> Option<Arc<Fence>> {
        let shard = self.shard_of(cluster);
        let duty = self.duty.lock();
        duty.holds.contains(shard).then(|| duty.fence.clone())
    }

    /// Begins a run of a key. `None`: its cluster is another process's, or nobody's.
    pub(crate) fn enter(self: &Arc<Self>, cluster: &ClusterName) -> Option<Stay> {
        let shard = self.shard_of(cluster);
        let mut duty = self.duty.lock();
        if !duty.holds.contains(shard) {
            return None;
        }
        let busy = duty.busy.entry(shard).or_insert_with(|| Busy {
            runs: 0,
            token: CancellationToken::new(),
            leaves_since: None,
        });
        busy.runs += 1;
        let token = busy.token.clone();
        Some(Stay {
            membership: self.clone(),
            shard,
            fence: duty.fence.clone(),
            token,
        })
    }

    /// Changes when this process holds other shards, or should have the caches of others.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn status(&self) -> ShardStatus {
        self.status.lock().clone()
    }

    /// The name of the living member that holds the shard of a cluster, as this process knows it.
    pub(crate) fn owner(&self, cluster: &ClusterName) -> Option<Arc<str>> {
        let shard = usize::from(self.shard_of(cluster));
        self.owners.lock().get(shard).cloned().flatten()
    }

    /// Gives the shards to other members that are ready, now and later, and stays a member that takes none.
    pub(crate) fn drain(&self) {
        self.drains.store(true, Ordering::Release);
        self.inputs.notify_one();
    }

    /// Gives the shards to other members for so long, and releases the others then. Returns once this process is no member any more. The local
    /// cluster must stay engaged until then.
    pub(crate) async fn leave(&self, time: Duration) {
        *self.leaving.lock() = Some(self.clock.now() + time);
        self.inputs.notify_one();
        self.ended.cancelled().await;
    }

    /// Runs until this process has left. `warm` says which of some shards have full caches; runs of a shard that leaves are cancelled after
    /// `patience`.
    pub(crate) async fn run(
        self: Arc<Self>,
        fleet: Fleet,
        patience: impl Fn() -> Duration,
        warm: impl Fn(&ShardSet) -> ShardSet,
    ) {
        let _ended = self.ended.clone().drop_guard();
        let mut machine = Machine::new(self.sharding.clone(), self.clock.now(), Rng::new());
        loop {
            let now = self.clock.now();
            self.publish(&machine);
            machine.drained(&self.quiet(machine.leaves(), patience()), now);
            if !machine.joins().is_empty() {
                let warm = warm(machine.joins());
                machine.warmed(&warm);
            }
            if self.drains.load(Ordering::Acquire) {
                machine.drain(now);
            }
            if let Some(until) = *self.leaving.lock() {
                machine.leave(now, until);
            }
            let next = machine.next(now, Timestamp::now());
            self.publish(&machine);
            match next {
                Next::Wait(until) => self.wait(&machine, until).await,
                Next::Send(call, limit) => self.send(&mut machine, &fleet, call, limit).await,
                Next::End => break,
            }
        }
        self.publish(&machine);
        self.duty.lock().fence.shut();
        tracing::info!(member = &*self.sharding.member, "no member any more");
    }

    async fn wait(&self, machine: &Machine, until: Instant) {
        let now = self.clock.now();
        let mut time = until.saturating_duration_since(now);
        let busy = !machine.joins().is_empty() || !machine.leaves().is_empty();
        if busy {
            time = time.min(WARM_CHECK);
        }
        // Either way the machine is asked again.
        let _ = tokio::time::timeout(time, self.inputs.notified()).await;
    }

    async fn send(&self, machine: &mut Machine, fleet: &Fleet, call: Call, limit: Duration) {
        let begun = self.clock.now();
        let outcome = match fleet.cluster(&ClusterName::local()) {
            Some(cluster) => self.call(&cluster, &call, limit).await,
            None => Err(ApiError::host(
                ApiCode::ClusterGone,
                "the local cluster has left the fleet",
            )),
        };
        self.duty.lock().problem = outcome.as_ref().err().and_then(problem);
        let outcome = outcome.unwrap_or_else(|error| outcome_of(&error));
        machine.answered(&call, outcome, begun, self.clock.now());
        self.publish(machine);
    }

    async fn call(
        &self,
        cluster: &Arc<Cluster>,
        call: &Call,
        limit: Duration,
    ) -> Result<Outcome, ApiError> {
        let (namespace, sharding) = (&self.sharding.namespace, &self.sharding.name);
        let of = |name: &str| LeaseCalls::new(namespace, name);
        let written = match call.wire(&self.sharding) {
            Wire::List => {
                let selector = format!("{LABEL}={sharding}");
                let list = lease::list(cluster, namespace, &selector, limit).await?;
                let listing = Listing::parse(&list, sharding).ok_or_else(unreadable)?;
                return Ok(Outcome::List(listing));
            }
            Wire::Delete(name, version) => {
                of(&name).delete(cluster, &version, limit).await?;
                return Ok(Outcome::Deleted);
            }
            Wire::Create(body) => of("").create(cluster, Json::from(body), limit).await?,
            Wire::Replace(name, body) => of(&name).update(cluster, Json::from(body), limit).await?,
        };
        let lease = LeaseObject::parse(&written).ok_or_else(unreadable)?;
        Ok(Outcome::Written(lease))
    }

    /// Puts what the machine says into effect.
    pub(super) fn publish(&self, machine: &Machine) {
        let mut duty = self.duty.lock();
        if duty.incarnation != *machine.incarnation() {
            duty.begin(machine.incarnation(), &self.clock, &self.sharding);
        }
        if let Some(since) = machine.renewed() {
            duty.fence.renewed(since);
        }
        let holds_others = duty.holds != *machine.holds();
        let keeps = machine.keeps();
        let changed = holds_others || duty.keeps != keeps;
        duty.keeps = keeps;
        if holds_others {
            let came = *machine.holds() - duty.holds;
            duty.came |= came;
            duty.holds = *machine.holds();
            tracing::info!(
                member = &*self.sharding.member,
                held = duty.holds.len(),
                "other shards are held"
            );
        }
        let problem = duty.problem.clone();
        drop(duty);
        self.report(machine, problem);
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    fn report(&self, machine: &Machine, problem: Option<String>) {
        let known = machine.status();
        let owners = (0..self.sharding.shards).map(|shard| known.owner(shard).cloned());
        *self.owners.lock() = owners.collect();
        let now = ShardStatus::of(&self.sharding, &known);
        let mut status = self.status.lock();
        let problem = problem.or_else(|| now.problem.clone());
        if let Some(problem) = problem.as_ref().filter(|_| status.problem != problem) {
            tracing::warn!(
                member = &*self.sharding.member,
                problem,
                "shards: a problem"
            );
        }
        *status = ShardStatus { problem, ..now };
    }

    /// Those of some shards that have no run. Runs that have not ended after `patience` are cancelled.
    fn quiet(&self, shards: &ShardSet, patience: Duration) -> ShardSet {
        let now = self.clock.now();
        let mut duty = self.duty.lock();
        let mut quiet = ShardSet::EMPTY;
        for shard in shards.iter() {
            let Some(busy) = duty.busy.get_mut(&shard) else {
                quiet.insert(shard);
                continue;
            };
            let since = *busy.leaves_since.get_or_insert(now);
            if now.saturating_duration_since(since) >= patience {
                busy.token.cancel();
            }
        }
        quiet
    }
}

impl Duty {
    /// Another incarnation begins: the last one writes nothing any more, and its runs end.
    fn begin(&mut self, incarnation: &Arc<str>, clock: &Clock, sharding: &Sharding) {
        self.fence.shut();
        self.fence = Fence::new(clock.clone(), sharding.timing.reach());
        self.incarnation = incarnation.clone();
        for busy in self.busy.values() {
            busy.token.cancel();
        }
    }
}

fn outcome_of(error: &ApiError) -> Outcome {
    match error.code {
        ApiCode::NotFound => Outcome::Absent,
        ApiCode::Conflict | ApiCode::AlreadyExists => Outcome::Conflict,
        _ => Outcome::Failed,
    }
}

/// What people may have to repair. Lost races are not among it.
fn problem(error: &ApiError) -> Option<String> {
    match error.code {
        ApiCode::NotFound | ApiCode::Conflict | ApiCode::AlreadyExists => None,
        _ => Some(error.message.clone()),
    }
}

fn unreadable() -> ApiError {
    ApiError::host(ApiCode::Other, "the API server answered with no Lease")
}
