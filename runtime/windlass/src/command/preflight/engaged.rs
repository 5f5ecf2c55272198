//! The clusters of a configuration's Providers, without a reconciler. Entry point: [`Engaged::start`].

use super::check::{Limit, check};
use super::needs::Plan;
use super::recorded::{Origins, Recorded};
use super::report::{Checked, ClusterReport, ProviderProblem};
use crate::command::progress::Progress;
use crate::config::clusters;
use crate::config::load::Configuration;
use crate::config::rbac::Member;
use crate::run::manager_options;
use anyhow::{Result, anyhow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_fleet::cluster::{Cluster, Scope};
use windlass_fleet::hub::Hub;
use windlass_fleet::manager::{Manager, ManagerHandle};

/// Clusters that are asked at once. All of them connect at once.
const CLUSTERS_AT_ONCE: usize = 64;
/// How often new clusters are looked for while Providers list them.
const TICK: Duration = Duration::from_millis(50);
/// How long a Provider with a problem may take to list its clusters all the same.
const PATIENCE: Duration = Duration::from_secs(5);

/// A manager that engages clusters and does nothing in them. It ends with this value.
pub(super) struct Engaged {
    handle: ManagerHandle,
    origins: Origins,
    /// How many Providers the manager runs. It names each only once it has begun.
    running: usize,
    /// Providers that cannot be started.
    unusable: Vec<ProviderProblem>,
    _stop: DropGuard,
}

impl Engaged {
    /// Starts to engage the clusters of a configuration.
    ///
    /// # Errors
    /// When the local cluster cannot be used.
    pub(super) fn start(configuration: &Configuration) -> Result<Self> {
        let spec = configuration.manager_spec();
        let mut builder = Manager::builder().options(manager_options(&spec)?);
        let local = clusters::local(configuration).map_err(|problem| anyhow!("{problem}"))?;
        if let Some(local) = local {
            builder = builder.local(local);
        }
        let (origins, mut running, mut unusable) = (Origins::default(), 0, Vec::new());
        for (document, spec) in configuration.providers() {
            match clusters::provider(document, spec) {
                Ok(provider) => {
                    running += 1;
                    builder = builder.provider(Recorded::wrap(provider, &origins));
                }
                Err(problem) => unusable.push(ProviderProblem {
                    provider: document.identity.name.clone(),
                    subject: document.identity.name.clone(),
                    message: problem.to_string(),
                }),
            }
        }
        let bound = builder.build()?.bind();
        let (handle, stop) = (bound.handle(), CancellationToken::new());
        tokio::spawn(bound.run(stop.clone()));
        Ok(Self {
            handle,
            origins,
            running,
            unusable,
            _stop: stop.drop_guard(),
        })
    }

    /// Waits until every Provider has listed its clusters and every cluster is checked, and every hub that is reached with credentials of
    /// its own; at most for `length`.
    pub(super) async fn check(&self, plan: &Plan<'_>, length: Duration) -> Checked {
        let limit = Limit {
            until: Instant::now() + length,
            length,
        };
        let permits = Arc::new(Semaphore::new(CLUSTERS_AT_ONCE));
        let (mut checks, mut begun) = (JoinSet::new(), BTreeSet::new());
        let (mut hubs, mut begun_hubs) = (JoinSet::new(), BTreeSet::new());
        let mut checked = Checked::default();
        let (mut reports, mut progress) = (BTreeMap::new(), Progress::new());
        let mut listing = Listing::default();
        loop {
            // Before the clusters are read: a provider engages them before it says that it has listed them.
            let unlisted = listing.unlisted(&self.handle, self.running, Instant::now());
            for cluster in self.handle.fleet().clusters() {
                if begun.insert(cluster.name().clone()) {
                    checks.spawn(self.begin(cluster, plan, limit, &permits));
                }
            }
            for provider in plan.providers_with_hubs() {
                if let Some(hub) = self.origins.hub(provider)
                    && begun_hubs.insert(provider)
                {
                    hubs.spawn(begin_hub(&hub, provider, plan, limit, &permits));
                }
            }
            let mut line = format!("{} of {} clusters checked", reports.len(), begun.len());
            if unlisted > 0 {
                line.push_str(&format!(", {unlisted} providers still list"));
            }
            progress.show(line);
            let over = Instant::now() >= limit.until;
            if checks.is_empty() && hubs.is_empty() && (unlisted == 0 || over) {
                checked.clusters = reports.into_values().collect();
                checked.hubs.sort_by(|one, other| one.name.cmp(&other.name));
                return checked;
            }
            tokio::select! {
                Some(Ok(report)) = checks.join_next(), if !checks.is_empty() => {
                    reports.insert(report.name.clone(), report);
                }
                Some(Ok(report)) = hubs.join_next(), if !hubs.is_empty() => {
                    checked.hubs.push(report);
                }
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    fn begin(
        &self,
        cluster: Arc<Cluster>,
        plan: &Plan<'_>,
        limit: Limit,
        permits: &Arc<Semaphore>,
    ) -> impl Future<Output = ClusterReport> + Send + use<> {
        let config = cluster.config();
        let member = Member {
            name: cluster.name(),
            labels: &cluster.labels(),
            namespace: match cluster.scope() {
                Scope::Whole | Scope::Workspace(_) => None,
                Scope::Namespace(namespace) => Some(&namespace.name),
            },
        };
        let asks = plan.asks(member, config.namespace());
        let provider = self.origins.of(cluster.name());
        let name = cluster.name().to_string();
        check(cluster, name, provider, asks, limit, permits.clone())
    }

    /// The problems of all Providers, with one of each Provider that has not listed its clusters.
    pub(super) fn problems(&self) -> Vec<ProviderProblem> {
        let mut problems = self.unusable.clone();
        for provider in self.handle.providers() {
            if provider.last_listed.is_none() && provider.problems.is_empty() {
                problems.push(ProviderProblem {
                    provider: provider.name.clone(),
                    subject: provider.name.clone(),
                    message: "it has not listed its clusters in time: see what it reads, or give a longer --timeout"
                        .to_owned(),
                });
            }
            let of_it = provider.problems.into_iter();
            problems.extend(of_it.map(|problem| ProviderProblem {
                provider: provider.name.clone(),
                subject: problem.subject,
                message: problem.message,
            }));
        }
        problems
    }
}

/// Asks the hub of a Provider. The hub stays as long as the question.
fn begin_hub(
    hub: &Hub,
    provider: &str,
    plan: &Plan<'_>,
    limit: Limit,
    permits: &Arc<Semaphore>,
) -> impl Future<Output = ClusterReport> + Send + use<> {
    let (hub, asks) = (hub.clone(), plan.hub_asks(provider));
    let (name, provider) = (format!("the hub of {provider}"), provider.to_owned());
    let permits = permits.clone();
    async move {
        let cluster = hub.cluster().clone();
        check(cluster, name, Some(provider), asks, limit, permits).await
    }
}

/// Which Providers are still waited for.
#[derive(Default)]
struct Listing {
    /// When each Provider first had a problem.
    troubled: BTreeMap<String, Instant>,
}

impl Listing {
    /// How many of the running Providers may still list their clusters.
    fn unlisted(&mut self, handle: &ManagerHandle, running: usize, now: Instant) -> usize {
        let begun = handle.providers();
        let not_begun = running.saturating_sub(begun.len());
        let waited_for = begun.into_iter().filter(|provider| {
            if provider.last_listed.is_some() {
                return false;
            }
            if provider.problems.is_empty() {
                return true;
            }
            let since = *self.troubled.entry(provider.name.clone()).or_insert(now);
            now < since + PATIENCE
        });
        not_begun + waited_for.count()
    }
}
