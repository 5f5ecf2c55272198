//! The running manager: composes its parts, and coordinates the work that needs several of them. Entry point: [`Core::new`].
//!
//! Each part owns its locks, and none leaves its part. The parts, in the order in which they depend on each other:
//!
//! 1. [`SharedQueue`] owns keys and runs. [`RecentRuns`], [`HotKeyFeed`], [`Leadership`] and [`Pauses`] depend on no other part.
//! 2. [`Registrations`] owns controllers.
//! 3. [`Watches`] owns the watches of controllers in clusters.
//! 4. [`Engagements`] owns clusters.
//! 5. [`Providers`] owns sources of clusters, and [`Dispatcher`] the attempts that run.
//!
//! **Lock order: from the last to the first.** A part that holds its lock calls only parts of a lower number. So a lock of
//! `Providers` is taken before one of `Engagements`, and the queue's is taken last. No lock is held across an await.

use super::dispatcher::Dispatcher;
use super::engagements::{Engagements, Environment};
use super::hot_keys::HotKeyFeed;
use super::leadership::{InEffect, Leadership, Sharing};
use super::options::{Concurrency, END_TIMEOUT, ManagerOptions};
use super::pauses::{PauseSet, Pauses};
use super::providers::Providers;
use super::recent::RecentRuns;
use super::registrations::Registrations;
use super::repeats::Repeats;
use super::shared_queue::SharedQueue;
use super::watches::Watches;
use crate::cluster::{ClusterState, Fleet, SharedOptions, Transports};
use crate::controller::Controller;
use crate::engage::{ClusterSpec, EngageError, Reroute};
use crate::metrics::{Metrics, Observe};
use crate::name::{ControllerName, TenantName};
use crate::portion::LivePortion;
use crate::queue::Limits;
use crate::shard::{Membership, ShardSet};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(super) struct Core {
    /// Runs everything but reconcilers.
    pub(super) host: Handle,
    pub(super) metrics: Metrics,
    pub(super) transports: Arc<Transports>,
    pub(super) caches: SharedOptions,
    pub(super) fleet: Fleet,
    pub(super) queue: Arc<SharedQueue>,
    pub(super) recent: Arc<RecentRuns>,
    pub(super) hot_keys: Arc<HotKeyFeed>,
    pub(super) leadership: Arc<Leadership>,
    /// Of the limits that are for all processes together.
    pub(super) portion: LivePortion,
    pub(super) pauses: Arc<Pauses>,
    pub(super) registrations: Arc<Registrations>,
    pub(super) watches: Arc<Watches>,
    pub(super) engagements: Arc<Engagements>,
    pub(super) providers: Providers,
    pub(super) dispatcher: Arc<Dispatcher>,
    /// Cancelled when a drain begins: nothing is engaged or started any more.
    pub(super) draining: CancellationToken,
    /// Providers, and clusters that are ending.
    tasks: TaskTracker,
    /// How long a drain, and the removal of a controller, waits for runs before it cancels them.
    drain_timeout: Mutex<Duration>,
}

impl Core {
    pub(super) fn new(
        host: Handle,
        options: ManagerOptions,
        metrics: Metrics,
        has_provider: bool,
        sharing: Sharing,
        reroute: Option<Arc<dyn Reroute>>,
    ) -> Arc<Self> {
        let limits = Limits {
            global: options.concurrency.global,
            per_cluster: options.concurrency.per_cluster,
            keys_per_controller: options.keys_per_controller,
            hot_key: options.hot_key,
            ..Limits::default()
        };
        let (draining, cut_off) = (CancellationToken::new(), CancellationToken::new());
        let tasks = TaskTracker::new();
        let transports = Arc::new(Transports::new(host.clone(), options.transport));
        let caches = SharedOptions::new(options.caches);
        let fleet = Fleet::new(transports.clone());
        let queue = Arc::new(SharedQueue::new(limits, fleet.clone()));
        let recent = Arc::new(RecentRuns::default());
        let hot_keys = Arc::new(HotKeyFeed::default());
        let leadership = Arc::new(Leadership::new(sharing));
        let pauses = Arc::new(Pauses::new(fleet.clone()));
        let registrations = Arc::new(Registrations::new(
            queue.clone(),
            leadership.clone(),
            metrics.clone(),
            options.concurrency.kinds,
        ));
        let watches = Arc::new(Watches::new(
            fleet.clone(),
            queue.clone(),
            registrations.clone(),
            leadership.clone(),
            has_provider,
        ));
        let engagements = Arc::new(Engagements::new(Environment {
            host: host.clone(),
            metrics: metrics.clone(),
            transports: transports.clone(),
            caches: caches.clone(),
            fleet: fleet.clone(),
            queue: queue.clone(),
            recent: recent.clone(),
            watches: watches.clone(),
            duplicate_clusters: options.duplicate_clusters,
            reroute,
            draining: draining.clone(),
            cut_off: cut_off.clone(),
            tasks: tasks.clone(),
        }));
        let providers = Providers::new(
            host.clone(),
            engagements.clone(),
            watches.clone(),
            draining.clone(),
            tasks.clone(),
        );
        let dispatcher = Arc::new(Dispatcher {
            host: host.clone(),
            fleet: fleet.clone(),
            queue: queue.clone(),
            registrations: registrations.clone(),
            leadership: leadership.clone(),
            recent: recent.clone(),
            hot_keys: hot_keys.clone(),
            repeats: Repeats::default(),
            pauses: pauses.clone(),
            draining: draining.clone(),
            cut_off,
            attempts: TaskTracker::new(),
        });
        let core = Arc::new(Self {
            host,
            metrics,
            transports,
            caches,
            fleet,
            queue,
            recent,
            hot_keys,
            leadership,
            portion: LivePortion::default(),
            pauses,
            registrations,
            watches,
            engagements,
            providers,
            dispatcher,
            draining,
            tasks,
            drain_timeout: Mutex::new(options.drain_timeout),
        });
        let observed: Weak<Self> = Arc::downgrade(&core);
        core.metrics.observe(observed as Weak<dyn Observe>);
        core
    }

    pub(super) fn set_concurrency(&self, concurrency: &Concurrency) {
        self.queue
            .set_concurrency(concurrency.global, concurrency.per_cluster);
        self.registrations.set_kind_limits(&concurrency.kinds);
    }

    /// Replaces the pauses of tenants, reconcilers and clusters. Paused keys look at them within a second.
    pub(super) fn set_pauses(&self, set: PauseSet) {
        if self.pauses.set(set) {
            self.queue.wake_paused();
        }
    }

    fn drain_timeout(&self) -> Duration {
        *self.drain_timeout.lock()
    }

    pub(super) fn set_drain_timeout(&self, timeout: Duration) {
        *self.drain_timeout.lock() = timeout;
    }

    /// Engages the local cluster, which no provider provides.
    pub(super) fn engage_local(&self, local: ClusterSpec) -> Result<(), EngageError> {
        self.engagements
            .engage(&"local".into(), &self.draining, local)
    }

    /// Adds a controller, or replaces the one of the same tenant and name: watches that stay the same go on undisturbed.
    pub(super) fn put_controller(&self, controller: Controller) {
        // No cluster comes or goes between registering and attaching.
        let frozen = self.engagements.freeze();
        let held = self.leadership.holds(&controller);
        let registration = self.registrations.put(controller, held);
        self.watches.reattach(&registration, &frozen.clusters());
    }

    /// Removes a controller: its watches stop, its keys leave, and its runs may end within the drain timeout. Returns whether it was
    /// there.
    pub(super) async fn remove_controller(
        &self,
        tenant: &TenantName,
        name: &ControllerName,
    ) -> bool {
        // No watch of the controller is started between its removal and the end of its watches.
        let removed = {
            let _frozen = self.engagements.freeze();
            let removed = self.registrations.remove(tenant, name);
            if let Some(removed) = &removed {
                self.watches.running().end(removed.registration.id);
            }
            removed
        };
        let Some(removed) = removed else {
            return false;
        };
        let limit = Instant::now() + self.drain_timeout();
        self.queue.await_runs(&removed.runs, limit).await;
        removed.cancelled.cancel();
        self.queue
            .await_runs(&removed.runs, limit + END_TIMEOUT)
            .await;
        self.registrations.forget(&removed);
        true
    }

    /// Begins to stand for election or to take part in a sharded fleet, if there is one, and releases keys once they are this process's.
    pub(super) fn stand(self: &Arc<Self>) {
        let core = self.clone();
        let phase_changed = move || core.hold_or_release();
        self.leadership
            .stand(self.fleet.clone(), &self.host, &self.tasks, phase_changed);
        if let Some(membership) = self.leadership.membership() {
            self.share(membership);
        }
    }

    /// Takes part in a sharded fleet.
    fn share(self: &Arc<Self>, membership: &Arc<Membership>) {
        let (of_runs, of_caches) = (Arc::downgrade(self), Arc::downgrade(self));
        let patience = move || {
            let core = of_runs.upgrade();
            core.map_or(Duration::ZERO, |core| core.drain_timeout())
        };
        let warm = move |shards: &ShardSet| {
            let core = of_caches.upgrade();
            core.map_or(ShardSet::EMPTY, |core| core.warm(shards))
        };
        let run = membership.clone();
        let run = run.run(self.fleet.clone(), patience, warm);
        self.leadership.spawn(&self.host, &self.tasks, run);
        let (core, mut changes) = (Arc::downgrade(self), membership.changes());
        let membership = membership.clone();
        let follow = async move {
            while changes.changed().await.is_ok() {
                let Some(core) = core.upgrade() else { return };
                core.follow_shards(&membership);
            }
        };
        self.leadership.spawn(&self.host, &self.tasks, follow);
    }

    /// Of some shards, those whose clusters have full caches, or cannot have them now. None, while a provider has yet to say which clusters
    /// there are.
    fn warm(&self, shards: &ShardSet) -> ShardSet {
        if self.providers.any_awaited() {
            return ShardSet::EMPTY;
        }
        let mut warm = *shards;
        let Some(membership) = self.leadership.membership() else {
            return warm;
        };
        // Else a cluster that is not watched yet would count as warm.
        self.follow_shards(membership);
        for cluster in self.fleet.clusters() {
            let cold = match cluster.state() {
                ClusterState::Connecting | ClusterState::Syncing => true,
                ClusterState::Ready => !self.watches.running().are_in_step(cluster.name()),
                _ => false,
            };
            if cold {
                warm.remove(membership.shard_of(cluster.name()));
            }
        }
        warm
    }

    /// Puts the shards of this process into effect: watches the clusters of those that have come near, and no others; holds the keys of
    /// clusters whose shards have gone, and releases those of clusters whose shards have come. All objects of these are enqueued: what waited
    /// for its time did so in another process.
    fn follow_shards(&self, membership: &Membership) {
        let frozen = self.engagements.freeze();
        let (held, watched, came) = membership.take_shards();
        let now = InEffect { held, watched };
        let before = self.leadership.put_into_effect(now);
        if before == now && came.is_empty() {
            return;
        }
        if now.held.len() != before.held.len() {
            let portion = membership.portion(&held);
            self.queue.set_portion(portion);
            self.portion.set(portion);
        }
        let differs = |before: &ShardSet, now: &ShardSet, shard| {
            before.contains(shard) != now.contains(shard)
        };
        let running = self.watches.running();
        for cluster in frozen.clusters() {
            let shard = membership.shard_of(cluster.name());
            if differs(&before.watched, &now.watched, shard) {
                self.watches.shards_changed(&cluster);
            }
            if !differs(&before.held, &now.held, shard) && !came.contains(shard) {
                continue;
            }
            for registration in self.registrations.all() {
                running.settle(&registration, cluster.name());
                if now.held.contains(shard) && registration.controller().needs_lease {
                    running.enqueue_in(registration.id, cluster.name());
                }
            }
        }
    }

    fn hold_or_release(&self) {
        // As in `put_controller`: a controller that is put meanwhile is held or released by that or by this.
        let frozen = self.engagements.freeze();
        for registration in self.registrations.all() {
            let held = self.leadership.holds(&registration.controller());
            self.queue.hold_controller(registration.id, held);
        }
        drop(frozen);
    }

    /// Ends watches, lets reconciles end within the drain timeout, cancels the rest, gives the lease back, and ends every cluster.
    pub(super) async fn drain(&self) {
        // Other members take over shard by shard, while keys of the others still run here.
        self.leadership.hand_over(self.drain_timeout()).await;
        self.draining.cancel();
        self.watches.running().end_all();
        self.dispatcher.drain(self.drain_timeout()).await;
        // Before the clusters end, one of which keeps the lease.
        self.leadership.resign(self.dispatcher.is_idle()).await;
        self.engagements.end_all();
        self.tasks.close();
        let _ = tokio::time::timeout(END_TIMEOUT, self.tasks.wait()).await;
        tracing::info!("drained");
    }
}
