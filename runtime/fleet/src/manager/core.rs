//! What the parts of a running manager share. Entry point: [`Core::new`].

use super::clusters::Engaged;
use super::controllers::Registered;
use super::leadership::Leadership;
use super::providers::Providers;
use super::recent::Recent;
use super::storms::StormTeller;
use super::{Concurrency, ManagerOptions};
use crate::cluster::{Fleet, SharedOptions, Transports};
use crate::controller::Controller;
use crate::election::Election;
use crate::kind::GroupKind;
use crate::metrics::{Metrics, Observe};
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::queue::{ControllerId, ControllerOptions as QueueOptions, Limits, Queue, TenantOptions};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long ending tasks may take once they are cancelled.
pub(super) const END: Duration = Duration::from_secs(15);

pub(crate) struct Core {
    /// Everything but reconcilers runs here.
    pub(super) host: Handle,
    /// Limits of controllers that have none of their own, by primary kind. Taken before the queue.
    kind_limits: Mutex<BTreeMap<GroupKind, usize>>,
    /// How long a drain waits for what runs.
    drain_timeout: Mutex<Duration>,
    pub(super) metrics: Metrics,
    pub(super) transports: Arc<Transports>,
    pub(super) caches: SharedOptions,
    pub(super) fleet: Fleet,
    /// Whether there is a provider, which decides what controllers engage by default.
    pub(super) has_provider: AtomicBool,
    /// Never held across an await. Of all locks only the fleet's is taken under it.
    pub(super) queue: Mutex<Queue>,
    /// Tells the dispatcher that a key may be ready to run.
    pub(super) wake: Notify,
    /// Told at the end of every attempt.
    pub(super) finished: Notify,
    /// Engaged clusters and who provides them. Taken before `controllers`.
    pub(super) engaged: Mutex<BTreeMap<ClusterName, Engaged>>,
    /// Changes when a name becomes free that a provider was refused.
    pub(super) freed: watch::Sender<()>,
    pub(super) controllers: RwLock<Controllers>,
    /// Taken after `engaged`.
    pub(super) providers: Mutex<Providers>,
    /// Who of several processes works.
    pub(super) leadership: Leadership,
    /// Cancelled when a drain begins: nothing is engaged, started or handed out any more.
    pub(super) draining: CancellationToken,
    /// Cancelled when a drain has run out of time: what runs is cut off.
    pub(super) cut_off: CancellationToken,
    /// How keys' last runs ended.
    pub(super) recent: Recent,
    pub(super) storms: StormTeller,
    /// Attempts that run.
    pub(super) attempts: TaskTracker,
    /// Providers, and clusters that are ending.
    pub(super) tasks: TaskTracker,
}

#[derive(Default)]
pub(super) struct Controllers {
    pub(super) by_name: BTreeMap<(TenantName, ControllerName), Arc<Registered>>,
    pub(super) by_id: HashMap<ControllerId, Arc<Registered>>,
    /// Controllers that were removed and of which a run has not ended.
    pub(super) leaving: HashMap<(TenantName, ControllerName), Arc<Registered>>,
}

impl Core {
    pub(super) fn new(
        host: Handle,
        options: ManagerOptions,
        metrics: Metrics,
        has_provider: bool,
        election: Option<Arc<Election>>,
    ) -> Arc<Self> {
        let limits = Limits {
            global: options.concurrency.global,
            per_cluster: options.concurrency.per_cluster,
            keys_per_controller: options.keys_per_controller,
            hot_key: options.hot_key,
            ..Limits::default()
        };
        let core = Arc::new(Self {
            transports: Arc::new(Transports::new(host.clone(), options.transport.clone())),
            caches: SharedOptions::new(options.caches.clone()),
            host,
            kind_limits: Mutex::new(options.concurrency.kinds),
            drain_timeout: Mutex::new(options.drain_timeout),
            metrics,
            fleet: Fleet::default(),
            has_provider: AtomicBool::new(has_provider),
            queue: Mutex::new(Queue::new(Instant::now(), limits)),
            wake: Notify::new(),
            finished: Notify::new(),
            engaged: Mutex::default(),
            freed: watch::Sender::new(()),
            controllers: RwLock::default(),
            providers: Mutex::default(),
            leadership: Leadership::new(election),
            draining: CancellationToken::new(),
            cut_off: CancellationToken::new(),
            recent: Recent::default(),
            storms: StormTeller::default(),
            attempts: TaskTracker::new(),
            tasks: TaskTracker::new(),
        });
        let observed: Weak<Self> = Arc::downgrade(&core);
        core.metrics.observe(observed as Weak<dyn Observe>);
        core
    }

    pub(super) fn set_concurrency(&self, concurrency: &Concurrency) {
        let mut queue = self.queue.lock();
        let limits = Limits {
            global: concurrency.global,
            per_cluster: concurrency.per_cluster,
            ..queue.limits()
        };
        queue.set_limits(limits);
        drop(queue);
        self.kind_limits.lock().clone_from(&concurrency.kinds);
        let registered: Vec<_> = self.controllers.read().by_name.values().cloned().collect();
        for registered in registered {
            let options = self.queue_options(&registered.controller());
            self.queue.lock().set_controller(registered.id, options);
        }
        self.wake.notify_one();
    }

    /// How many keys of a controller run at once. None: as many as its tenant may have.
    pub(super) fn concurrency_of(&self, controller: &Controller) -> Option<usize> {
        let of_kind = || {
            let primary = controller.primary.as_ref()?;
            self.kind_limits.lock().get(&primary.group_kind()).copied()
        };
        controller.options.concurrency.or_else(of_kind)
    }

    /// What the queue is told of a controller.
    pub(super) fn queue_options(&self, controller: &Controller) -> QueueOptions {
        QueueOptions {
            concurrency: self.concurrency_of(controller),
            per_cluster: controller.options.concurrency_per_cluster,
            backoff: controller.options.backoff,
        }
    }

    pub(super) fn drain_timeout(&self) -> Duration {
        *self.drain_timeout.lock()
    }

    pub(super) fn set_drain_timeout(&self, timeout: Duration) {
        *self.drain_timeout.lock() = timeout;
    }

    pub(super) fn put_tenant(&self, name: &TenantName, options: TenantOptions) {
        self.queue.lock().set_tenant(name, options);
        self.wake.notify_one();
    }

    /// Stops sources, lets what runs finish within the drain timeout, cuts off the rest, gives the lease back, and ends every
    /// cluster.
    pub(super) async fn drain(self: &Arc<Self>) {
        self.draining.cancel();
        self.wake.notify_one();
        self.detach_all();
        self.attempts.close();
        tracing::info!(running = self.attempts.len(), "draining");
        if tokio::time::timeout(self.drain_timeout(), self.attempts.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                running = self.attempts.len(),
                "drain timeout: cutting off what still runs"
            );
            self.cut_off.cancel();
            let _ = tokio::time::timeout(END, self.attempts.wait()).await;
        }
        // Before the clusters end, one of which keeps the lease.
        self.resign().await;
        let clusters = std::mem::take(&mut *self.engaged.lock());
        for mut engaged in clusters.into_values() {
            self.drop_successor(&mut engaged);
            self.end_cluster(engaged.cluster);
        }
        self.tasks.close();
        let _ = tokio::time::timeout(END, self.tasks.wait()).await;
        tracing::info!("drained");
    }
}
