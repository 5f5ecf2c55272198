//! The kinds as objects of the local cluster, as they are now. Entry point: [`Feed`].
//!
//! It watches the three kinds, the namespaces that Tenants claim, and what Reconcilers name in `configFrom`, and joins them with the
//! documents of files. `status` writes what became of each object. A kind that the cluster does not serve is a problem, and joins when it
//! comes. What was read once stays in effect while the cluster cannot be read. Objects of another class are those of another process, and
//! do not exist here.

mod owners;
mod read;
pub(super) mod status;

use crate::app::{App, machine};
use crate::config::kinds::{API_VERSION, Class, Identity, Kind};
use crate::config::load::{Configuration, Merged, Outcome};
use crate::config::objects::{Accepted, Holding, Objects, ValueSource, Values, Verdict};
use arc_swap::ArcSwapOption;
use futures::future::select_all;
use owners::{Owner, Owners};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_files::Problem;
use windlass_fleet::hub::{Hub, HubWatch, WatchSelection};
use windlass_fleet::{ClusterName, GroupVersionKind};

/// Least time between two looks, so that a burst of changes costs few of them.
const PACE: Duration = Duration::from_millis(50);
/// How long until the local cluster is looked for again, if there is none at the moment.
const AGAIN: Duration = Duration::from_millis(500);
/// Most Secrets and ConfigMaps that the Reconcilers of a namespace may name together, so that no team uses up the watches of others.
const MOST_VALUES: usize = 50;
/// What creates the kinds.
const REMEDY: &str = "if the kinds are not there, create them: windlass crds | kubectl apply -f -";

/// The watches of the local cluster.
pub(super) struct Watches {
    hub: Hub,
    kinds: BTreeMap<Kind, HubWatch>,
    namespaces: HubWatch,
}

/// What became of the objects, and where they are: for the task that writes their status.
#[derive(Default)]
pub(super) struct Outcomes {
    pub(super) verdicts: Mutex<Arc<Vec<Verdict>>>,
    pub(super) watches: ArcSwapOption<Watches>,
}

/// The objects of the local cluster.
pub(super) struct Feed {
    app: Arc<App>,
    /// The class of the objects that count; empty: those without one.
    class: String,
    /// Who else handles them.
    owners: Owners,
    watches: Option<Arc<Watches>>,
    values: BTreeMap<ValueSource, HubWatch>,
    /// What was read last, and is in effect; none: nothing has been read yet.
    objects: Option<Objects>,
    /// Why it may be old, or is not there.
    problem: Option<String>,
    accepted: Accepted,
    /// The Reconcilers that served when the objects were first read.
    served: BTreeSet<String>,
    outcomes: Arc<Outcomes>,
}

/// The name under which this process handles objects.
fn owner(app: &App) -> Owner {
    match app.shared_lease() {
        Some(lease) => Owner::lease(&lease.namespace, &lease.name),
        None => Owner::process(app.since, &machine()),
    }
}

impl Watches {
    fn of(hub: Hub) -> Self {
        let watch = |kind: Kind| {
            let kind_of = GroupVersionKind::from_api_version(API_VERSION, kind.as_str());
            (kind, hub.watch(kind_of, WatchSelection::default()))
        };
        let kinds = [Kind::Provider, Kind::Tenant, Kind::Reconciler].map(watch);
        let namespace = GroupVersionKind::new("", "v1", "Namespace");
        Self {
            kinds: kinds.into(),
            namespaces: hub.watch(namespace, WatchSelection::default()),
            hub,
        }
    }

    fn all(&self) -> impl Iterator<Item = &HubWatch> {
        self.kinds.values().chain([&self.namespaces])
    }

    fn problem(&self) -> Option<String> {
        let of_kinds = self.kinds.values().find_map(HubWatch::problem);
        let of_kinds = of_kinds.map(|problem| format!("{problem}: {REMEDY}"));
        of_kinds.or_else(|| self.namespaces.problem())
    }
}

impl Feed {
    /// Begins to read the local cluster of a running program. `is_alone`: it is a copy, in which no other process is at work.
    pub(super) fn start(app: Arc<App>, is_alone: bool) -> Self {
        // Read at the start alone: a process does not leave what it handles to another one while it runs.
        let manager = app.configuration.load().manager_spec();
        let class = manager.class.as_ref().map_or("", Class::as_str);
        Self {
            class: class.to_owned(),
            owners: if is_alone {
                Owners::alone()
            } else {
                Owners::new(owner(&app))
            },
            app,
            watches: None,
            values: BTreeMap::new(),
            objects: None,
            problem: None,
            accepted: Accepted::default(),
            served: BTreeSet::new(),
            outcomes: Arc::default(),
        }
    }

    /// What became of the objects.
    pub(super) fn outcomes(&self) -> Arc<Outcomes> {
        self.outcomes.clone()
    }

    /// Whether the objects have been read once.
    pub(super) fn has_read(&self) -> bool {
        self.objects.is_some()
    }

    /// The Reconcilers that served when the objects were first read, and are to serve here too; none: the objects have not been read.
    pub(super) fn awaited(&self) -> Option<BTreeSet<String>> {
        self.objects.as_ref()?;
        let verdicts = self.outcomes.verdicts.lock().clone();
        let is_wanted = |verdict: &&Verdict| {
            let refused = verdict.refused.as_ref();
            refused.is_none_or(|refused| refused.is_unknown)
        };
        let wanted = verdicts.iter().filter(is_wanted);
        let wanted = wanted.map(|verdict| verdict.object.identity().name);
        Some(wanted.filter(|name| self.served.contains(name)).collect())
    }

    /// Waits until something else is to be joined with the documents of files.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing.
    pub(super) async fn changed(&mut self) {
        loop {
            self.follow_hub();
            if self.look() {
                return;
            }
            self.wait().await;
            tokio::time::sleep(PACE).await;
        }
    }

    /// The documents of files, together with the objects.
    pub(super) fn join(&mut self, last: &Configuration, files: Outcome) -> Merged {
        // A record that this process wrote a moment ago is read here, and not an older one.
        self.look();
        let none = Objects::default();
        let objects = self.objects.as_ref().unwrap_or(&none);
        let (mut merged, verdicts) = self.accepted.join(last, files, objects);
        *self.outcomes.verdicts.lock() = Arc::new(verdicts);
        merged.problems.extend(self.problem());
        merged
    }

    /// The objects that are refused, and why, without those that only time may settle.
    pub(super) fn refused(&self) -> BTreeMap<Identity, String> {
        let verdicts = self.outcomes.verdicts.lock().clone();
        let refused = verdicts.iter().filter_map(|verdict| {
            let refused = verdict.refused.as_ref().filter(|one| !one.is_unknown)?;
            Some((verdict.object.identity(), refused.message.clone()))
        });
        refused.collect()
    }

    /// The namespaces that Tenants have and claim, by Tenant.
    pub(super) fn holdings(&self) -> &BTreeMap<String, Holding> {
        self.accepted.holdings()
    }

    /// Why the objects may be old, if what was read before stays in effect.
    pub(super) fn kept(&self) -> Option<Problem> {
        let is_kept = self.has_read() && self.owners.problem().is_none();
        self.problem().filter(|_| is_kept)
    }

    fn problem(&self) -> Option<Problem> {
        let place = Arc::from("the local cluster");
        let problem = self.problem.as_deref()?;
        Some(Problem::of_file(&place, problem))
    }

    /// Watches the local cluster as it is now: another server may have taken its place.
    fn follow_hub(&mut self) {
        let watched = self.watches.as_ref();
        if watched.is_some_and(|watches| !watches.hub.is_gone()) {
            return;
        }
        let local = self.app.manager.fleet().cluster(&ClusterName::local());
        let hub = local.map(|local| Hub::new(local, None));
        self.values.clear();
        self.watches = hub.map(|hub| Arc::new(Watches::of(hub)));
        self.outcomes.watches.store(self.watches.clone());
    }

    async fn wait(&self) {
        let Some(watches) = &self.watches else {
            return tokio::time::sleep(AGAIN).await;
        };
        let all = watches.all().chain(self.values.values());
        let changed = select_all(all.map(|watch| Box::pin(watch.changed())));
        let due = self.owners.due().map(tokio::time::Instant::from_std);
        tokio::select! {
            _ = changed => {}
            () = tokio::time::sleep_until(due.unwrap_or_else(tokio::time::Instant::now)), if due.is_some() => {}
            () = watches.hub.gone() => {}
        }
    }

    /// Reads everything. Returns whether it differs from what was read last.
    fn look(&mut self) -> bool {
        let Some(watches) = self.watches.clone() else {
            return false;
        };
        let mut differs = false;
        // A list that is not in says nothing of what is absent.
        if watches.all().all(HubWatch::listed) {
            let read = read::objects(&watches.kinds, &watches.namespaces, &self.class);
            let (mut objects, heartbeats) = read;
            if self.owners.judge(heartbeats, Instant::now()).is_some() {
                objects = Objects::default();
            }
            objects.values = self.follow_values(&watches.hub, &objects);
            if let (None, Some(reconcilers)) = (&self.objects, watches.kinds.get(&Kind::Reconciler))
            {
                self.served = read::serving(reconcilers);
            }
            differs |= self.objects.as_ref() != Some(&objects);
            self.objects = Some(objects);
        }
        let problem = watches.problem().or_else(|| self.owners.problem());
        differs |= problem != self.problem;
        self.problem = problem;
        differs
    }

    /// Watches what Reconcilers name, and reads it.
    fn follow_values(&mut self, hub: &Hub, objects: &Objects) -> BTreeMap<ValueSource, Values> {
        let present = objects.objects.iter().filter(|object| !object.is_deleting);
        let named: BTreeSet<ValueSource> = present.flat_map(|object| object.sources()).collect();
        self.values.retain(|source, _| named.contains(source));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for source in self.values.keys() {
            *counts.entry(&source.namespace).or_default() += 1;
        }
        let mut added = Vec::new();
        for source in named
            .iter()
            .filter(|source| !self.values.contains_key(source))
        {
            let count = counts.entry(&source.namespace).or_default();
            if *count < MOST_VALUES {
                *count += 1;
                added.push(source);
            }
        }
        self.values.extend(
            added
                .into_iter()
                .map(|source| (source.clone(), read::watch(hub, source))),
        );
        let values = named.into_iter().map(|source| {
            let values = match self.values.get(&source) {
                Some(watch) => read::values(watch, &source),
                None => Values::Unreadable(format!(
                    "the Reconcilers of this namespace name more than {MOST_VALUES} Secrets and ConfigMaps: name fewer"
                )),
            };
            (source, values)
        });
        values.collect()
    }
}
