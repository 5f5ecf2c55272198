//! Changes and queries a manager while it runs. Entry point: [`ManagerHandle`].

use super::controller_status::ControllerStatus;
use super::core::Core;
use super::error::ManagerError;
use super::explain::{Explanation, explain};
use super::hot_keys::HotKeys;
use super::idle::{Idle, idle};
use super::keys::{self, KeyFilter, KeyPage, KeyStatus};
use super::options::Concurrency;
use super::pauses::PauseSet;
use super::pausing::{PauseError, annotate};
use super::providers::ProviderStatus;
use crate::cluster::{AnswerUse, CacheOptions, Client, Cluster, ClusterStatus, Fleet, SocketUse};
use crate::controller::Controller;
use crate::election::ElectionStatus;
use crate::grant::Grant;
use crate::metrics::{AttemptCounts, MetricLimits};
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::paused::Pause;
use crate::portion::LivePortion;
use crate::provider::{Problem, Provider};
use crate::queue::{Add, Added, Cause, TenantOptions};
use crate::request::Request;
use crate::shard::ShardStatus;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Changes and queries a manager while it runs. Cheap to clone.
#[derive(Clone)]
pub struct ManagerHandle {
    core: Arc<Core>,
}

impl ManagerHandle {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// The engaged clusters.
    #[must_use]
    pub fn fleet(&self) -> &Fleet {
        &self.core.fleet
    }

    /// Adds a controller, or replaces the one of the same tenant and name: only watches that changed stop and start.
    ///
    /// # Errors
    /// [`ManagerError::Stopping`].
    pub fn put_controller(&self, controller: Controller) -> Result<(), ManagerError> {
        if self.core.draining.is_cancelled() {
            return Err(ManagerError::Stopping);
        }
        self.core.put_controller(controller);
        Ok(())
    }

    /// Removes a controller: its watches stop, its keys leave the queue, and its reconciles may end within the drain timeout. Returns
    /// whether it was there.
    pub async fn remove_controller(&self, tenant: &TenantName, name: &ControllerName) -> bool {
        self.core.remove_controller(tenant, name).await
    }

    /// Sets the weight and limits of a tenant in the queue.
    pub fn put_tenant(&self, name: &TenantName, options: TenantOptions) {
        self.core.queue.set_tenant(name, options);
    }

    /// Changes how many keys run at once. Runs beyond a lower limit go on.
    pub fn set_concurrency(&self, concurrency: &Concurrency) {
        self.core.set_concurrency(concurrency);
    }

    /// Changes how long a drain, and the removal of a controller, waits for reconciles before it cancels them.
    pub fn set_drain_timeout(&self, timeout: Duration) {
        self.core.set_drain_timeout(timeout);
    }

    /// Changes how caches follow their servers. Running caches change with their next list, watch or comparison.
    pub fn set_caches(&self, options: CacheOptions) {
        self.core.caches.set(options);
    }

    /// Changes the bounds on metrics. Series that exist are kept. A cluster that has none gets some when it is engaged again, and a pair
    /// of a controller and a cluster with its next attempt.
    pub fn set_metric_limits(&self, limits: MetricLimits) {
        self.core.metrics.set_limits(limits);
    }

    /// Writes a pause on the object of a key, in its cluster, or takes it away with `None`, with the rights of a controller of that name, or
    /// of any that has the object. Returns the object's kind. A run under way goes on.
    ///
    /// # Errors
    /// [`PauseError`].
    pub async fn pause(
        &self,
        request: &Request,
        controller: Option<&ControllerName>,
        pause: Option<&Pause>,
    ) -> Result<String, PauseError> {
        annotate(&self.core, request, controller, pause).await
    }

    /// Replaces the pauses of tenants, reconcilers and clusters. They hold keys that begin to run from now on; keys that were paused and are
    /// not any more run within a second.
    pub fn set_pauses(&self, set: PauseSet) {
        self.core.set_pauses(set);
    }

    /// The pauses of tenants, reconcilers and clusters. Some may have ended.
    #[must_use]
    pub fn pauses(&self) -> Arc<PauseSet> {
        self.core.pauses.get()
    }

    /// The keys that become hot from now on: they ask to run without end, and are throttled.
    #[must_use]
    pub fn hot_keys(&self) -> HotKeys {
        self.core.hot_keys.follow(self.core.draining.clone())
    }

    /// How many sockets to API servers are open, if [`TransportOptions::max_sockets`](crate::cluster::TransportOptions) sets a cap.
    #[must_use]
    pub fn sockets(&self) -> Option<SocketUse> {
        self.core.transports.sockets()
    }

    /// The bytes of answers to calls of controllers that are held: at most [`TransportOptions::max_answers`](crate::cluster::TransportOptions).
    #[must_use]
    pub fn answers(&self) -> AnswerUse {
        self.core.transports.answers()
    }

    /// Every provider, sorted by name.
    #[must_use]
    pub fn providers(&self) -> Vec<ProviderStatus> {
        self.core.providers.statuses()
    }

    /// Starts a provider, or replaces the one of its name: clusters that both know stay engaged, the others leave. With a first
    /// provider, controllers whose clusters are the default ones engage provided clusters from now on.
    ///
    /// # Errors
    /// [`ManagerError::Stopping`].
    pub fn put_provider(&self, provider: Arc<dyn Provider>) -> Result<(), ManagerError> {
        if self.core.draining.is_cancelled() {
            return Err(ManagerError::Stopping);
        }
        self.core.providers.put(provider);
        Ok(())
    }

    /// Removes a provider and disengages its clusters at once. Without any provider, controllers whose clusters are the default ones
    /// engage the local cluster. Returns whether it was there.
    pub fn remove_provider(&self, name: &str) -> bool {
        self.core.providers.remove(name)
    }

    /// Runs every object of a controller again, at low priority, as after a change of its code or configuration. Returns whether
    /// there is such a controller.
    pub fn resync(&self, tenant: &TenantName, name: &ControllerName) -> bool {
        let Some(registration) = self.core.registrations.by_name(tenant, name) else {
            return false;
        };
        self.core.watches.running().enqueue_all(registration.id);
        true
    }

    /// The same for every controller.
    pub fn resync_all(&self) {
        for registration in self.core.registrations.all() {
            self.core.watches.running().enqueue_all(registration.id);
        }
    }

    /// Enqueues a key at once, in every controller of that name, or in all that work in the cluster. Returns in how many: none, if another process
    /// works on the cluster.
    #[must_use]
    pub fn requeue(&self, request: &Request, controller: Option<&ControllerName>) -> usize {
        let watches = self.core.watches.running();
        let mut taken = 0;
        for registration in self.core.registrations.all() {
            let wanted = controller.is_none_or(|name| *name == registration.controller().name);
            let engages = watches.engages(registration.id, &request.cluster);
            if !wanted || !engages || registration.is_elsewhere(&request.cluster) {
                continue;
            }
            let add = Add::now(Cause::Operator);
            let added = self.core.queue.add(registration.id, request, add);
            taken += usize::from(added.is_some_and(|added| added != Added::Full));
        }
        taken
    }

    /// The state of the election; `None` if every process works.
    #[must_use]
    pub fn election(&self) -> Option<ElectionStatus> {
        self.core.leadership.status()
    }

    /// The sharded fleet, as this process knows it; `None` if every process works on all of it.
    #[must_use]
    pub fn shards(&self) -> Option<ShardStatus> {
        self.core.leadership.shards()
    }

    /// The portion of limits for all processes together that is this process's: all of them, if it does not share the fleet by shards.
    #[must_use]
    pub fn portion(&self) -> LivePortion {
        self.core.portion.clone()
    }

    /// Whether this process works on a cluster: it is alone, leads, or owns the cluster's shard. What one process does for the whole fleet is
    /// done by the one that works on the local cluster.
    #[must_use]
    pub fn works_on(&self, cluster: &ClusterName) -> bool {
        self.core.leadership.leading_fence(cluster).is_some()
    }

    /// The process that works on a cluster, as far as this one knows: the candidate that leads, or the living member that owns the cluster's
    /// shard. `None`: there is none, or every process works on all clusters.
    #[must_use]
    pub fn owner_of(&self, cluster: &ClusterName) -> Option<Arc<str>> {
        self.core.leadership.worker(cluster)
    }

    /// Gives this process's shards to the other members of a sharded fleet, as they are ready, and takes none any more. Returns at once, and
    /// false if there are no shards. While there is no other member, this one keeps them.
    #[must_use]
    pub fn drain_shards(&self) -> bool {
        let membership = self.core.leadership.membership();
        membership.inspect(|one| one.drain()).is_some()
    }

    /// A client for this program's own writes in a cluster, with all rights, if this process leads, owns the cluster, or is alone. Take it anew
    /// for each write: its writes are refused once this process does not lead any more or its lease has ended, but not because the cluster has passed
    /// to another process of a sharded fleet.
    #[must_use]
    pub fn leading_client(&self, cluster: &Arc<Cluster>) -> Option<Client> {
        self.leading_client_with(cluster, Grant::all())
    }

    /// The same with the rights of a grant, and as the user that it impersonates.
    #[must_use]
    pub fn leading_client_with(&self, cluster: &Arc<Cluster>, grant: Grant) -> Option<Client> {
        let fence = self.core.leadership.leading_fence(cluster.name())?;
        Some(cluster.fenced_client(grant, fence))
    }

    /// Whether a controller works in a cluster now.
    #[must_use]
    pub fn engages(
        &self,
        tenant: &TenantName,
        name: &ControllerName,
        cluster: &ClusterName,
    ) -> bool {
        let registration = self.core.registrations.by_name(tenant, name);
        let watches = self.core.watches.running();
        registration.is_some_and(|registration| watches.engages(registration.id, cluster))
    }

    /// Every engaged cluster, sorted by name.
    #[must_use]
    pub fn clusters(&self) -> Vec<ClusterStatus> {
        self.core
            .fleet
            .clusters()
            .iter()
            .map(|cluster| cluster.status())
            .collect()
    }

    /// Problems of providers at the moment: files and contexts that cannot be used, names that are taken, and providers that have failed
    /// and wait to be started again.
    #[must_use]
    pub fn provider_problems(&self) -> Vec<Problem> {
        self.core.providers.problems()
    }

    /// Every controller, sorted by tenant and name.
    #[must_use]
    pub fn controllers(&self) -> Vec<ControllerStatus> {
        let registrations = self.core.registrations.all().into_iter();
        registrations
            .map(|registration| {
                ControllerStatus::of(&registration, &self.core.queue, self.core.watches.running())
            })
            .collect()
    }

    /// Attempts of all controllers by the cluster's label in metrics.
    #[must_use]
    pub fn attempts_by_cluster(&self) -> BTreeMap<Arc<str>, AttemptCounts> {
        self.core.metrics.attempts_by_cluster()
    }

    /// Keys that the queue knows.
    #[must_use]
    pub fn keys(&self, filter: &KeyFilter) -> Vec<KeyStatus> {
        self.keys_page(filter, 0).keys
    }

    /// As [`Self::keys`], from 0 or from [`KeyPage::next`] of the page before. Keys that come or change between two pages may be missed.
    #[must_use]
    pub fn keys_page(&self, filter: &KeyFilter, from: u32) -> KeyPage {
        let core = &self.core;
        keys::page(&core.queue, &core.registrations, &core.pauses, filter, from)
    }

    /// Why every controller, or those of a name, do not reconcile an object.
    #[must_use]
    pub fn explain(&self, request: &Request, controller: Option<&str>) -> Vec<Explanation> {
        explain(&self.core, request, controller)
    }

    /// Whether there is nothing left to do, and if there is, what.
    pub async fn idle(&self) -> Idle {
        self.idle_but(&BTreeSet::new()).await
    }

    /// The same, whatever the state of some clusters is: for tests in which these have failed. Their keys that fail or wait do not count either.
    pub async fn idle_but(&self, failed: &BTreeSet<String>) -> Idle {
        idle(&self.core, failed).await
    }

    /// Moves the clock of the queue forward, by a year at most, for tests: a delayed requeue or a retry that is due by then is ready now, and runs
    /// once, however often it would have run. No other time moves: deadlines, watches, resyncs and leases go by the machine's clock.
    pub fn advance(&self, by: Duration) {
        self.core.queue.advance(by);
    }
}
