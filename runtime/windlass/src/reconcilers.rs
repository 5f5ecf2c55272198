//! Brings what runs in line with the documents and the guests on disk. Entry points: [`Reconcilers::follow`] and
//! [`Reconcilers::next`].
//!
//! Each reconciler is read, loaded and replaced on its own. It waits only for others of the same tenant, while many are loaded at once.
//! If a change of a reconciler fails, the last good revision keeps serving, and the reconciler's status says why.

mod archive;
mod failed;
mod file;
mod history;
mod permits;
mod records;
pub(crate) mod reloads;
mod environment;
mod reconciler;

use crate::app::rollback::{Refusal, RollbackCall};
use crate::config::kinds::Origin;
use crate::config::load::Configuration;
use crate::guests::{Desired, Guests};
use crate::reconcilers::reloads::Reloads;
use crate::status::reconcilers::Statuses;
pub(crate) use environment::Change;
use environment::{Done, Environment};
pub(crate) use file::{Sources, component, wanted};
use reconciler::Reconciler;
pub(crate) use records::Records;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::Id;
use tokio::time::sleep_until;
use windlass_files::built_path;

/// The reconcilers: desired and serving.
pub(crate) struct Reconcilers {
    by_name: BTreeMap<String, Reconciler>,
    /// Tenants that have a document.
    tenants: BTreeSet<String>,
    environment: Environment,
}

impl Reconcilers {
    /// Without any reconciler.
    pub(crate) fn new(
        guests: Guests,
        sources: Sources,
        statuses: Arc<Statuses>,
        reloads: Reloads,
    ) -> Self {
        Self {
            by_name: BTreeMap::new(),
            tenants: BTreeSet::new(),
            environment: Environment::new(guests, sources, statuses, reloads),
        }
    }

    /// The files of the guests that documents name, to be watched.
    pub(crate) fn guest_files(configuration: &Configuration) -> BTreeSet<PathBuf> {
        let named = configuration.reconcilers();
        let named = named.filter_map(|(document, spec)| Some(document.resolve(spec.guest.path()?)));
        let file = |path: PathBuf| {
            if path.is_dir() {
                built_path(&path)
            } else {
                path
            }
        };
        named.map(file).collect()
    }

    /// Starts to apply the documents, and returns the changes that the manager has to make at once. [`Self::next`] returns the others.
    /// It also starts to read every guest's file again. Call it on a tokio runtime.
    pub(crate) fn follow(&mut self, configuration: &Configuration) -> Vec<Change> {
        let desired = configuration.reconcilers();
        let desired = desired.map(|(document, spec)| Desired::of(configuration, document, spec));
        let desired: Vec<Arc<Desired>> = desired.map(Arc::new).collect();
        // A revocation waits for nothing.
        for desired in &desired {
            if let Some(reconciler) = self.by_name.get_mut(desired.name()) {
                reconciler.revoke(&mut self.environment, desired, configuration);
            }
        }
        self.keep(&desired);
        self.set_tenants(configuration);
        for desired in desired {
            let records = &self.environment.sources.records;
            let reconciler = match self.by_name.entry(desired.name().to_owned()) {
                Entry::Occupied(entry) => {
                    let reconciler = entry.into_mut();
                    reconciler.set_desired(desired);
                    reconciler
                }
                Entry::Vacant(entry) => {
                    let record = records.read(&desired.document);
                    entry.insert(Reconciler::new(desired, record))
                }
            };
            reconciler.read(&mut self.environment);
            reconciler.show(&self.environment);
        }
        self.drop_unused();
        std::mem::take(&mut self.environment.changes)
    }

    /// Ends the reconcilers that are not desired.
    fn keep(&mut self, desired: &[Arc<Desired>]) {
        let wanted: BTreeSet<&str> = desired.iter().map(|desired| desired.name()).collect();
        let gone = |name: &String, _: &mut Reconciler| !wanted.contains(name.as_str());
        for (name, mut reconciler) in self.by_name.extract_if(.., gone) {
            reconciler.stop(&mut self.environment);
            self.environment.statuses.remove(&name);
        }
    }

    fn set_tenants(&mut self, configuration: &Configuration) {
        self.tenants.clear();
        for (document, spec) in configuration.tenants() {
            let tenant = &document.identity.name;
            if let Err(error) = self.environment.guests.set_tenant(tenant, spec) {
                tracing::error!(tenant, %error, "limits of the tenant are not in effect");
            }
            self.tenants.insert(tenant.clone());
        }
    }

    /// Waits until a task of [`Self::follow`] or [`Self::roll_back`] ends, or something is due to be tried again, and returns the changes that
    /// the manager has to make for it. Make them at once, because a replaced guest serves already. [`Self::report`] logs the failures.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Vec<Change> {
        let due = self.by_name.values().filter_map(Reconciler::due).min();
        let due = due.map(tokio::time::Instant::from_std);
        let tasks = &mut self.environment.tasks;
        tokio::select! {
            // A task that was cancelled needs nothing.
            ended = tasks.join_next_with_id(), if !tasks.is_empty() => if let Some(Ok(ended)) = ended {
                self.ended(ended);
            },
            () = sleep_until(due.unwrap_or_else(tokio::time::Instant::now)), if due.is_some() => {
                self.try_again();
            }
            else => std::future::pending().await,
        }
        std::mem::take(&mut self.environment.changes)
    }

    fn ended(&mut self, (id, (name, done)): (Id, (String, Done))) {
        let Some(reconciler) = self.by_name.get_mut(&name) else {
            return;
        };
        let is_prepared = matches!(done, Done::Prepared(_));
        reconciler.ended(&mut self.environment, id, done);
        if is_prepared || !self.environment.changes.is_empty() {
            self.drop_unused();
        }
    }

    fn try_again(&mut self) {
        let now = Instant::now();
        for reconciler in self.by_name.values_mut() {
            if reconciler.due().is_some_and(|at| at <= now) {
                reconciler.try_again(&mut self.environment);
            }
        }
    }

    /// Whether any task runs. If none does, [`Self::next`] waits for what is due.
    pub(crate) fn is_busy(&self) -> bool {
        self.by_name.values().any(Reconciler::is_busy)
    }

    /// Starts to roll a reconciler back, or to undo that, under the current documents. [`Self::next`] and [`Self::report`] answer the call.
    pub(crate) fn roll_back(&mut self, call: RollbackCall) {
        let Some(request) = call.request() else {
            return;
        };
        let name = request.reconciler.clone();
        let Some(reconciler) = self.by_name.get_mut(&name) else {
            let message = format!("there is no reconciler {name:?}: see windlass get reconcilers");
            return call.answer(Err(Refusal::Unknown(message)));
        };
        // Only the process that leads writes it on the object, from which the others have it.
        let is_object = reconciler.desired.document.origin == Origin::Cluster;
        if is_object && !self.environment.sources.records.leads() {
            let message = "another process leads: ask that one".to_owned();
            return call.answer(Err(Refusal::Busy(message)));
        }
        match reconciler.accept(call) {
            Ok(()) => reconciler.read(&mut self.environment),
            Err(call) => {
                let message = format!("reconciler {name} is being rolled back already: try again");
                call.answer(Err(Refusal::Busy(message)));
            }
        }
    }

    /// Drops compiled components and tenants that no reconciler uses or can be rolled back to.
    fn drop_unused(&mut self) {
        let used = self.by_name.values().flat_map(Reconciler::used).collect();
        self.environment.guests.keep(&used);
        let documents = self.tenants.iter().map(String::as_str).collect();
        let used = self
            .by_name
            .values()
            .flat_map(Reconciler::tenants)
            .collect();
        self.environment.guests.keep_tenants(&documents, &used);
        self.environment.permits.keep(&used);
    }

    /// Logs the problems that appeared and disappeared since the last report, and answers the rollbacks that succeeded.
    pub(crate) fn report(&mut self) {
        for (name, call, note) in std::mem::take(&mut self.environment.rolled_back) {
            if let Some(reconciler) = self.by_name.get(&name) {
                call.answer(Ok(reconciler.reply(note)));
            }
        }
        for name in std::mem::take(&mut self.environment.unreported) {
            let Some(reconciler) = self.by_name.get(&name) else {
                continue;
            };
            let serves = reconciler.serving.is_some();
            match &reconciler.problem {
                Some(problem) if serves => tracing::error!(
                    reconciler = name,
                    problem,
                    "the change is not in effect, the last good revision serves with no more than it grants"
                ),
                Some(problem) => {
                    tracing::error!(reconciler = name, problem, "reconciler not started")
                }
                None => tracing::info!(reconciler = name, "reconciler is as its document asks"),
            }
        }
    }

    /// The number of reconcilers that serve.
    pub(crate) fn running(&self) -> usize {
        self.by_name
            .values()
            .filter(|reconciler| reconciler.serving.is_some())
            .count()
    }

    /// Whether a process in which nothing serves yet waits: for a guest of a registry, or for an operator who ends a rollback.
    pub(crate) fn may_come_later(&self) -> bool {
        let is_awaited =
            |of: &Reconciler| of.desired.spec.guest.image.is_some() || of.history.asked().is_some();
        self.by_name.values().any(is_awaited)
    }

    /// The problems of all reconcilers.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.by_name
            .values()
            .filter_map(|reconciler| reconciler.problem.clone())
            .collect()
    }
}
