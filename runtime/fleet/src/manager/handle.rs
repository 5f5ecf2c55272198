//! Changes and asks a manager while it runs. Entry point: [`ManagerHandle`].

use super::core::Core;
use super::{
    Concurrency, ControllerStatus, Explanation, Idle, ManagerError, ProviderStatus, Storms,
};
use crate::cluster::{AnswerUse, CacheOptions, ClusterStatus, Fleet, SocketUse};
use crate::controller::Controller;
use crate::election::ElectionStatus;
use crate::metrics::{AttemptCounts, MetricLimits};
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::provider::{Problem, Provider};
use crate::queue::{
    Add, Added, Cause, ControllerId, KeyState, KeyStatus as QueuedKey, TenantOptions,
};
use crate::request::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most keys that one answer lists.
const MAX_KEYS: usize = 10_000;

/// Changes and asks a manager while it runs. Cheap to clone.
#[derive(Clone)]
pub struct ManagerHandle {
    core: Arc<Core>,
}

/// Which keys are asked for.
#[derive(Debug, Clone, Default)]
pub struct KeyFilter {
    /// Of this tenant. Default: any.
    pub tenant: Option<String>,
    /// Of this controller. Default: any.
    pub controller: Option<String>,
    /// Of this cluster. Default: any.
    pub cluster: Option<ClusterName>,
    /// In this state: `ready`, `held`, `delayed`, `backoff`, `throttled`, `running` or `terminal`; `failing` is any that has failed last time.
    /// Default: any.
    pub state: Option<String>,
    /// At most so many; 0: as many as an answer may have.
    pub limit: usize,
}

/// Some of the keys that a filter takes.
#[derive(Debug, Clone, Default)]
pub struct KeyPage {
    /// In no order.
    pub keys: Vec<KeyStatus>,
    /// Where to go on; `None` at the end.
    pub next: Option<u32>,
}

/// A key as status pages show it: why is my object not reconciled?
#[derive(Debug, Clone, serde::Serialize)]
pub struct KeyStatus {
    /// The key, as `cluster://…`.
    pub key: String,
    /// Its tenant.
    pub tenant: String,
    /// Its controller.
    pub controller: String,
    /// `ready`, `held`, `delayed`, `backoff`, `throttled` (it has run too often lately), `running` or `terminal`.
    pub state: &'static str,
    /// How often it has failed since it last succeeded.
    pub attempts: u32,
    /// Its priority.
    pub priority: i32,
    /// Seconds until it runs, for `delayed`, `backoff` and `throttled`.
    pub runs_in: Option<f64>,
    /// Seconds since it is in its state, for the others.
    pub since: Option<f64>,
    /// What enqueued it.
    pub cause: &'static str,
    /// The kind of the object whose event that was, or that began what the key is tried again for; `None` for what nobody's event
    /// is about.
    pub source: Option<String>,
    /// Its last error, while it fails.
    pub last_error: Option<String>,
    /// Whose fault the last error is.
    pub blame: Option<&'static str>,
    /// The last error's short reason.
    pub reason: Option<&'static str>,
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

    /// Takes a controller out: its watches stop, its keys leave, and what runs is left to finish within the drain timeout. Returns
    /// whether it was there.
    pub async fn remove_controller(&self, tenant: &TenantName, name: &ControllerName) -> bool {
        self.core.remove_controller(tenant, name).await
    }

    /// Sets a tenant's share.
    pub fn put_tenant(&self, name: &TenantName, options: TenantOptions) {
        self.core.put_tenant(name, options);
    }

    /// Changes how many keys run at once. Runs beyond a lower limit go on.
    pub fn set_concurrency(&self, concurrency: &Concurrency) {
        self.core.set_concurrency(concurrency);
    }

    /// Changes how long a drain, and the removal of a controller, waits for what runs before it is cancelled.
    pub fn set_drain_timeout(&self, timeout: Duration) {
        self.core.set_drain_timeout(timeout);
    }

    /// Changes how caches follow their servers, those that are running too: from their next list, watch or comparison on.
    pub fn set_caches(&self, options: CacheOptions) {
        self.core.caches.set(options);
    }

    /// Changes the bounds on metrics. What has series of its own keeps them; a cluster that has none gets some when it is engaged again,
    /// and a pair of a controller and a cluster with its next attempt.
    pub fn set_metric_limits(&self, limits: MetricLimits) {
        self.core.metrics.set_limits(limits);
    }

    /// The keys that begin to be held back from now on because they ask to run without end.
    #[must_use]
    pub fn storms(&self) -> Storms {
        self.core.storms.follow(self.core.draining.clone())
    }

    /// How many sockets to API servers there are, where [`TransportOptions::max_sockets`](crate::cluster::TransportOptions) sets a cap.
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
        self.core.provider_statuses()
    }

    /// Starts a provider, in place of the one of its name if there is one: clusters that both know stay engaged, those that only the
    /// one before knew leave. With a first provider, controllers that leave it to the default engage provided clusters from now on.
    ///
    /// # Errors
    /// [`ManagerError::Stopping`].
    pub fn put_provider(&self, provider: Arc<dyn Provider>) -> Result<(), ManagerError> {
        if self.core.draining.is_cancelled() {
            return Err(ManagerError::Stopping);
        }
        self.core.put_provider(provider);
        Ok(())
    }

    /// Takes a provider out: it is stopped, and its clusters are disengaged at once. Without any provider, controllers that leave it
    /// to the default engage the local cluster. Returns whether it was there.
    pub fn remove_provider(&self, name: &str) -> bool {
        self.core.remove_provider(name)
    }

    /// Runs every object of a controller again, at low priority, as after a change of its code or configuration. Returns whether
    /// there is such a controller.
    pub fn resync(&self, tenant: &TenantName, name: &ControllerName) -> bool {
        let registered = self
            .core
            .controllers
            .read()
            .by_name
            .get(&(tenant.clone(), name.clone()))
            .cloned();
        let Some(registered) = registered else {
            return false;
        };
        let sources: Vec<_> = registered
            .attachments
            .lock()
            .values()
            .flatten()
            .cloned()
            .collect();
        let any_primary = sources.iter().any(|source| source.is_primary());
        for source in sources
            .iter()
            .filter(|source| source.is_primary() || !any_primary)
        {
            source.offer_again();
        }
        true
    }

    /// Runs a key again at once, in every controller of that name, or in all that know the cluster. Returns how many took it.
    #[must_use]
    pub fn requeue(&self, request: &Request, controller: Option<&ControllerName>) -> usize {
        if self.core.fleet.cluster(&request.cluster).is_none() {
            return 0;
        }
        let registered: Vec<_> = self
            .core
            .controllers
            .read()
            .by_name
            .values()
            .cloned()
            .collect();
        let mut taken = 0;
        for registered in registered {
            let wanted = controller.is_none_or(|name| *name == registered.controller().name);
            if !wanted || !registered.attachments.lock().contains_key(&request.cluster) {
                continue;
            }
            let added = self
                .core
                .enqueue(&registered, request, Add::now(Cause::Operator));
            taken += usize::from(added.is_some_and(|added| added != Added::Full));
        }
        self.core.wake.notify_one();
        taken
    }

    /// Who leads, where several processes stand for election; `None` where every process works.
    #[must_use]
    pub fn election(&self) -> Option<ElectionStatus> {
        self.core.leadership.status()
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

    /// What providers cannot use at the moment: files, contexts, names that are taken; and providers that have failed and wait to be
    /// started again.
    #[must_use]
    pub fn provider_problems(&self) -> Vec<Problem> {
        self.core.provider_problems()
    }

    /// Every controller, sorted by tenant and name.
    #[must_use]
    pub fn controllers(&self) -> Vec<ControllerStatus> {
        let registered: Vec<_> = self
            .core
            .controllers
            .read()
            .by_name
            .values()
            .cloned()
            .collect();
        registered
            .iter()
            .map(|registered| self.core.controller_status(registered))
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
        self.core.keys(filter)
    }

    /// As [`Self::keys`], from 0 or from where the page before said. Keys that come or change between two pages may be missed.
    #[must_use]
    pub fn keys_page(&self, filter: &KeyFilter, from: u32) -> KeyPage {
        self.core.keys_page(filter, from)
    }

    /// Why an object is not reconciled: what every controller, or those of a name, make of its key.
    #[must_use]
    pub fn explain(&self, request: &Request, controller: Option<&str>) -> Vec<Explanation> {
        self.core.explain(request, controller)
    }

    /// Whether there is nothing left to do, and if not, why.
    pub async fn idle(&self) -> Idle {
        self.core.idle().await
    }
}

impl Core {
    pub(super) fn keys(&self, filter: &KeyFilter) -> Vec<KeyStatus> {
        self.keys_page(filter, 0).keys
    }

    fn keys_page(&self, filter: &KeyFilter, from: u32) -> KeyPage {
        let limit = if filter.limit == 0 {
            MAX_KEYS
        } else {
            filter.limit.min(MAX_KEYS)
        };
        let failing = filter.state.as_deref() == Some("failing");
        let of_queue = crate::queue::KeyFilter {
            controllers: self.controllers_of(filter),
            cluster: filter.cluster.clone(),
            state: filter.state.clone().filter(|_| !failing),
            failing,
        };
        let mut keys = Vec::new();
        let mut from = Some(from);
        while let Some(place) = from
            && keys.len() < limit
        {
            // The lock is let go between pages, so that a long answer does not hold up the queue.
            let page = self.queue.lock().keys(&of_queue, place, limit - keys.len());
            from = page.next;
            keys.extend(page.keys.into_iter().filter_map(|key| self.key_status(key)));
        }
        KeyPage { keys, next: from }
    }

    /// The controllers whose keys are asked for; `None` for all.
    fn controllers_of(&self, filter: &KeyFilter) -> Option<BTreeSet<ControllerId>> {
        let (tenant, controller) = (filter.tenant.as_deref(), filter.controller.as_deref());
        if tenant.is_none() && controller.is_none() {
            return None;
        }
        let controllers = self.controllers.read();
        let wanted = controllers.by_name.iter().filter(|((of, name), _)| {
            tenant.is_none_or(|tenant| tenant == of.as_str())
                && controller.is_none_or(|controller| controller == name.as_str())
        });
        Some(wanted.map(|(_, registered)| registered.id).collect())
    }

    pub(super) fn key_status(&self, key: QueuedKey) -> Option<KeyStatus> {
        let registered = self
            .controllers
            .read()
            .by_id
            .get(&key.controller)
            .cloned()?;
        let controller = registered.controller();
        let now = Instant::now();
        let (runs_in, since) = match key.state {
            KeyState::Delayed(at) | KeyState::Backoff(at) | KeyState::Throttled(at) => {
                (Some(at.saturating_duration_since(now)), None)
            }
            KeyState::Ready(at)
            | KeyState::Held(at)
            | KeyState::Running(at)
            | KeyState::Terminal(at) => (None, Some(now.saturating_duration_since(at))),
        };
        Some(KeyStatus {
            key: key.request.to_string(),
            tenant: controller.tenant.to_string(),
            controller: controller.name.to_string(),
            state: key.state.as_str(),
            attempts: key.attempts,
            priority: key.priority,
            runs_in: runs_in.map(|d| d.as_secs_f64()),
            since: since.map(|d| d.as_secs_f64()),
            cause: key.cause.as_str(),
            source: registered.kind(key.origin).map(|kind| kind.to_string()),
            last_error: key
                .last_failure
                .as_ref()
                .map(|failure| failure.message.to_string()),
            blame: key
                .last_failure
                .as_ref()
                .map(|failure| failure.blame.as_str()),
            reason: key.last_failure.as_ref().map(|failure| failure.reason),
        })
    }
}
