//! Clusters that objects of a hub stand for. Entry points: [`Inventory`], which says how, and [`HubProvider`], which does the rest.
//!
//! A provider of this sort is a pure function from an object, and objects that are related to it, to what the provider wants: see
//! [`Desired`]. [`HubProvider`] opens the hub, watches it, calls that function for the objects that have changed, and brings the engaged
//! clusters in line.
//!
//! Invariants:
//! * A cluster is disengaged because its object is not on a list that would have it, or because the function says so. An error, a hub that
//!   is away, or a kind that is not served disengages nobody.
//! * One object cannot affect the cluster of another.
//! * An object that asks for something that cannot be used keeps its last good cluster, and is reported.
//!
//! Cost: a round looks at every object, and calls the function for those that have changed. Rounds are at least [`PACE`] apart.
//!
//! Rooms: `clusters` holds the clusters and brings them in line.

mod clusters;
#[cfg(test)]
mod tests;

use super::hub_source::HubSource;
use super::problems::Problems;
use super::{Problem, ProviderError};
use crate::engage::{ClusterSpec, Engage};
use crate::hub::{Hub, HubObject, HubWatch};
use crate::name::ClusterName;
use crate::request::ObjectKey;
use clusters::{Clusters, View};
use futures::future::select_all;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Least time between two rounds, so that a burst of changes costs few of them.
const PACE: Duration = Duration::from_millis(20);

/// Most labels, and most properties, that a cluster gets from its object.
const MOST_LABELS: usize = 100;

/// How objects of a hub stand for clusters.
pub(crate) trait Inventory: Send + Sync + 'static {
    /// Begins to watch a hub. Called once for each hub; must not block.
    fn watch(&self, hub: &Hub) -> Watches;

    /// Whether the hub must have caches of its own, even if it is the local cluster. Default: no.
    fn is_apart(&self) -> bool {
        false
    }

    /// Called at the start of each round, before clusters are engaged. Default: nothing.
    fn prepare(&self, _watches: &Watches) {}

    /// What the provider reports beside what objects cannot be used for, once every list is in. Default: nothing.
    fn problem(&self, _watches: &Watches) -> Option<Problem> {
        None
    }

    /// The objects of [`Watches::related`] that concern a cluster, by the key of the cluster's object. Called in each round, in the order
    /// of the watches; default: none.
    fn related(&self, _watches: &[HubWatch]) -> Related {
        Related::default()
    }

    /// What an object asks for. Must depend on nothing but its arguments: it is called again only when one of them has changed, and not
    /// before every related watch knows the objects of the object's namespace.
    fn desired(&self, object: &HubObject, related: &[HubObject]) -> Desired;
}

/// The watches of an inventory.
pub(crate) struct Watches {
    /// The objects that stand for clusters, one for each cluster.
    pub(crate) clusters: HubWatch,
    /// Objects that say more about these clusters, such as Secrets with their kubeconfigs.
    pub(crate) related: Vec<HubWatch>,
}

/// Objects by the key of the object that they are related to.
pub(crate) type Related = BTreeMap<ObjectKey, Vec<HubObject>>;

/// What an object asks for.
#[derive(Debug, Clone)]
pub(crate) struct Desired {
    pub(crate) wish: Wish,
    /// Reported as long as the object stays as it is. Of [`Wish::Refresh`], only while the cluster is not engaged.
    pub(crate) problem: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Wish {
    /// Engage this cluster, or bring the engaged one in line with it.
    Engage(Box<ClusterSpec>),
    /// Bring the engaged cluster in line with this. Engage none.
    Refresh(Box<ClusterSpec>),
    /// Change nothing: an engaged cluster stays as it is. `None`: the object cannot even name a cluster.
    Keep(Option<ClusterName>),
    /// Engage no cluster, and disengage an engaged one.
    Leave,
}

impl Desired {
    /// The cluster is engaged, or brought in line.
    pub(crate) fn engage(spec: ClusterSpec) -> Self {
        let (spec, problem) = bounded(spec);
        Self {
            wish: Wish::Engage(Box::new(spec)),
            problem,
        }
    }

    /// The cluster is not ready: it is not engaged for the reason given, but stays engaged, with other credentials if it has such now.
    pub(crate) fn refresh(spec: ClusterSpec, problem: impl Into<String>) -> Self {
        Self {
            wish: Wish::Refresh(Box::new(bounded(spec).0)),
            problem: Some(problem.into()),
        }
    }

    /// The object cannot be used for the reason given, which names the remedy. A cluster that is engaged stays as it is.
    pub(crate) fn keep(name: ClusterName, problem: impl Into<String>) -> Self {
        Self {
            wish: Wish::Keep(Some(name)),
            problem: Some(problem.into()),
        }
    }

    /// The object's name is no name of a cluster, for the reason given.
    pub(crate) fn nameless(problem: impl Into<String>) -> Self {
        Self {
            wish: Wish::Keep(None),
            problem: Some(problem.into()),
        }
    }

    /// The cluster is disengaged.
    pub(crate) fn leave() -> Self {
        Self {
            wish: Wish::Leave,
            problem: None,
        }
    }

    /// The cluster is disengaged, or not engaged, for the reason given.
    pub(crate) fn leave_because(problem: impl Into<String>) -> Self {
        Self {
            wish: Wish::Leave,
            problem: Some(problem.into()),
        }
    }
}

/// A cluster with no more labels and properties than a cluster may have: the first ones by name. And what to say of the others.
fn bounded(mut spec: ClusterSpec) -> (ClusterSpec, Option<String>) {
    let mut problem = None;
    let texts = [
        ("labels", &mut spec.labels),
        ("properties", &mut spec.properties),
    ];
    for (what, texts) in texts {
        let count = texts.len();
        if count <= MOST_LABELS {
            continue;
        }
        *texts = texts.first(MOST_LABELS);
        problem = Some(format!(
            "it has {count} {what}, and its cluster gets the first {MOST_LABELS} by name: remove some"
        ));
    }
    (spec, problem)
}

/// A provider of the clusters of an inventory.
pub(crate) struct HubProvider<I> {
    name: String,
    from: HubSource,
    inventory: I,
    /// Between rounds and runs.
    clusters: Mutex<Clusters>,
    problems: Problems,
}

impl<I: Inventory> HubProvider<I> {
    /// A provider of the clusters of an inventory that is read from a hub.
    pub(crate) fn new(name: String, from: HubSource, inventory: I) -> Self {
        Self {
            name,
            from,
            inventory,
            clusters: Mutex::default(),
            problems: Problems::default(),
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its problems at the moment.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        self.problems.all()
    }

    /// Follows the hub until stopped.
    ///
    /// # Errors
    /// When a round panics.
    pub(crate) async fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> Result<(), ProviderError> {
        self.clusters.lock().begin_run();
        let mut hubs = self.from.open(engage.clone(), self.inventory.is_apart());
        let mut watched = Watched::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                found = hubs.next() => watched.follow(found, &self.inventory),
                () = watched.changed() => {}
                () = engage.freed() => {}
            }
            let (this, to) = (self.clone(), engage.clone());
            let (watches, problem) = (watched.watches.clone(), watched.problem.clone());
            let round =
                tokio::task::spawn_blocking(move || this.round(watches.as_deref(), problem, &*to));
            let goes_on = round.await.map_err(|error| ProviderError {
                provider: self.name.clone(),
                reason: error.to_string(),
            })?;
            let pause = tokio::time::sleep(PACE);
            if !goes_on || stop.run_until_cancelled(pause).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Brings the engaged clusters in line with the hub. False if the manager is stopping.
    fn round(
        &self,
        watches: Option<&Watches>,
        hub_problem: Option<Problem>,
        engage: &dyn Engage,
    ) -> bool {
        let mut clusters = self.clusters.lock();
        let mut problems: Vec<Problem> = hub_problem.into_iter().collect();
        let mut goes_on = true;
        if let Some(watches) = watches {
            problems.extend(watches.problems());
            // Before the objects are read.
            let listed = watches.listed();
            self.inventory.prepare(watches);
            let view = View::of(&self.inventory, watches, clusters.keys());
            goes_on = clusters.bring_in_line(&self.inventory, view, engage);
            if listed && goes_on {
                problems.extend(self.inventory.problem(watches));
                engage.listed();
            }
        }
        problems.extend(clusters.problems());
        self.problems.replace(&self.name, problems);
        goes_on
    }
}

impl Watches {
    fn all(&self) -> impl Iterator<Item = &HubWatch> {
        std::iter::once(&self.clusters).chain(&self.related)
    }

    /// Whether every list is in.
    fn listed(&self) -> bool {
        self.all().all(HubWatch::listed)
    }

    /// Whether the lists are in that would have the objects related to an object.
    fn know_related(&self, key: &ObjectKey) -> bool {
        self.related.iter().all(|watch| watch.knows(key))
    }

    fn problems(&self) -> Vec<Problem> {
        let problem = |watch: &HubWatch| {
            let message = watch.problem()?;
            Some(Problem {
                subject: watch.hub().server(),
                message: format!("{message}; the clusters that are known from it stay"),
            })
        };
        let mut problems: Vec<Problem> = self.all().filter_map(problem).collect();
        // A hub that is away is one problem, not one for each watch.
        problems.dedup();
        problems
    }
}

/// The hub that is watched now.
#[derive(Default)]
struct Watched {
    watches: Option<Arc<Watches>>,
    /// Why the hub cannot be found. The hub before is still watched.
    problem: Option<Problem>,
}

impl Watched {
    /// Watches the hub that was found, unless it is watched already.
    fn follow(&mut self, found: Result<Hub, Problem>, inventory: &impl Inventory) {
        match found {
            Ok(hub) => {
                self.problem = None;
                let is_watched = |watches: &Arc<Watches>| watches.clusters.hub().is(&hub);
                if !self.watches.as_ref().is_some_and(is_watched) {
                    self.watches = Some(Arc::new(inventory.watch(&hub)));
                }
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// Waits for a change of the hub's objects.
    async fn changed(&self) {
        let Some(watches) = &self.watches else {
            return std::future::pending().await;
        };
        select_all(watches.all().map(|watch| Box::pin(watch.changed()))).await;
    }
}
