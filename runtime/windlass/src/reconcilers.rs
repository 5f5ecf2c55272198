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
mod revoke;
mod rollback;
pub(crate) mod reloads;
mod reconciler;

use crate::app::rollback::RollbackCall;
use crate::config::kinds::{Origin, ReconcilerSpec, TenantSpec};
use crate::config::load::{Configuration, Document};
use crate::config::schema::Place;
use crate::guests::component::announced_if_slow;
use crate::guests::{Guests, LoadFailure, LoadRequest, Loaded, TenantPolicy};
use crate::reconcilers::reloads::{Reload, Reloads};
use crate::status::reconcilers::Statuses;
use file::File;
pub(crate) use file::{Sources, component, wanted};
use permits::TenantPermits;
use reconciler::{Desired, Inputs, Plan, Reconciler, Step, Task};
pub(crate) use records::Records;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::sleep_until;
use windlass_files::built_path;
use windlass_fleet::controller::Controller;
use windlass_fleet::{ControllerName, TenantName};

/// What the manager has to do.
pub(crate) enum Change {
    /// Adds a controller, or replaces the one of its name.
    Put(Box<Controller>),
    /// Removes a controller whose reconciler moves to another tenant. Its runs end before the next change of the reconciler.
    Move(TenantName, ControllerName),
    /// Removes a controller.
    Remove(TenantName, ControllerName),
}

/// The result of a background task.
enum Done {
    Read(Box<File>),
    Loaded(Result<Box<Loaded>, LoadFailure>),
    /// Its record is written, or why it is not.
    Recorded(Result<(), String>),
}

/// The reconcilers: desired and applied.
pub(crate) struct Reconcilers {
    guests: Guests,
    sources: Sources,
    statuses: Arc<Statuses>,
    by_name: BTreeMap<String, Reconciler>,
    /// Background tasks, by reconciler: at most one that reads its file, one that loads its guest and one that writes its record.
    tasks: JoinSet<(String, Done)>,
    permits: TenantPermits,
    /// Tenants that have a document.
    tenants: BTreeSet<String>,
    reloads: Reloads,
    /// Reconcilers whose problem has changed since the last [`Reconcilers::report`].
    unreported: BTreeSet<String>,
    /// Rollbacks that succeeded since then, by reconciler, each with why the next process may not know of it.
    rolled_back: Vec<(String, RollbackCall, String)>,
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
            guests,
            sources,
            statuses,
            by_name: BTreeMap::new(),
            tasks: JoinSet::new(),
            permits: TenantPermits::default(),
            tenants: BTreeSet::new(),
            reloads,
            unreported: BTreeSet::new(),
            rolled_back: Vec::new(),
        }
    }

    /// The files of the guests that documents name, to be watched.
    pub(crate) fn guest_files(configuration: &Configuration) -> BTreeSet<PathBuf> {
        let path = |(document, spec): (&Document, &ReconcilerSpec)| {
            let path = document.resolve(spec.guest.path()?);
            Some(match path.is_dir() {
                true => built_path(&path),
                false => path,
            })
        };
        configuration.reconcilers().filter_map(path).collect()
    }

    /// Starts to apply the documents, and returns the changes that the manager has to make at once. [`Self::next`] returns the others.
    /// It also starts to read every guest's file again. Call it on a tokio runtime.
    pub(crate) fn follow(&mut self, configuration: &Configuration) -> Vec<Change> {
        let changes = self.removals(configuration);
        for (tenant, spec) in configuration.tenants() {
            if let Err(error) = self.guests.set_tenant(&tenant.identity.name, spec) {
                tracing::error!(
                    tenant = tenant.identity.name,
                    %error,
                    "limits of the tenant are not in effect"
                );
            }
        }
        let tenants = configuration.tenants();
        let tenants = tenants.map(|(document, _)| document.identity.name.clone());
        self.tenants = tenants.collect();
        for (document, spec) in configuration.reconcilers() {
            let name = &document.identity.name;
            let desired = Desired {
                document: document.clone(),
                spec: spec.clone(),
                policy: policy(configuration, document.origin, spec),
            };
            match self.by_name.get_mut(name) {
                Some(reconciler) => reconciler.set_desired(desired),
                None => {
                    let record = self.sources.records.read(document);
                    let new = Reconciler::new(desired, record);
                    self.by_name.insert(name.clone(), new);
                }
            }
            self.read(name);
            self.update_status(name);
        }
        self.drop_unused();
        changes
    }

    /// Waits until a task of [`Self::follow`] or [`Self::roll_back`] ends, or an image is due to be looked up again, and returns the changes that the manager has to make for it.
    /// Make them at once, because a replaced guest serves already. [`Self::report`] logs the failures.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Vec<Change> {
        let due = self
            .by_name
            .values()
            .filter_map(Reconciler::look_up_at)
            .min();
        let due = due.map(tokio::time::Instant::from_std);
        let ended = tokio::select! {
            ended = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => ended,
            () = sleep_until(due.unwrap_or_else(tokio::time::Instant::now)), if due.is_some() => {
                self.look_up_due();
                None
            }
            else => std::future::pending().await,
        };
        match ended {
            None => Vec::new(),
            Some(Ok((id, (name, Done::Read(file))))) => self.file_read(id, &name, *file),
            Some(Ok((id, (name, Done::Loaded(result))))) => self.loaded(id, &name, result),
            Some(Ok((id, (name, Done::Recorded(result))))) => {
                self.recorded(id, &name, result);
                Vec::new()
            }
            Some(Err(error)) => self.panicked(&error),
        }
    }

    /// Looks up the images that are due.
    fn look_up_due(&mut self) {
        let now = Instant::now();
        let is_due = |reconciler: &Reconciler| reconciler.look_up_at().is_some_and(|at| at <= now);
        let due = self
            .by_name
            .iter()
            .filter(|(_, reconciler)| is_due(reconciler));
        let due: Vec<String> = due.map(|(name, _)| name.clone()).collect();
        due.iter().for_each(|name| self.read(name));
    }

    /// Whether any task runs. If none does, [`Self::next`] waits for images that are due.
    pub(crate) fn is_busy(&self) -> bool {
        self.by_name.values().any(Reconciler::is_busy)
    }

    /// Starts to read a guest's file. If a task reads it already, the file is read once more after that.
    fn read(&mut self, name: &str) {
        let Some(reconciler) = self.by_name.get_mut(name) else {
            return;
        };
        if !reconciler.wants_reading() {
            return;
        }
        let (desired, before) = (reconciler.desired().clone(), reconciler.lookup());
        let pin = reconciler.pin();
        let permits = self.permits.reading(desired.spec.tenant());
        let sources = self.sources.clone();
        let (name, most) = (name.to_owned(), self.guests.largest_component());
        let task = self.tasks.spawn(async move {
            let _permit = permits.acquire().await;
            let file = File::read(desired, sources, before, pin, most).await;
            (name, Done::Read(Box::new(file)))
        });
        reconciler.begin_reading(Task::new(task));
    }

    fn file_read(&mut self, id: Id, name: &str, mut file: File) -> Vec<Change> {
        let Some(reconciler) = self.by_name.get_mut(name) else {
            return Vec::new();
        };
        let Some(stale) = reconciler.finish_reading(id) else {
            return Vec::new();
        };
        // The document may name another file by now.
        if stale && file.has_moved(reconciler.desired()) {
            self.read(name);
            return Vec::new();
        }
        reconciler.set_lookup(file.lookup.take());
        let step = reconciler.decide(file);
        let changes = self.step(name, step);
        if stale {
            self.read(name);
        }
        self.update_status(name);
        changes
    }

    fn step(&mut self, name: &str, step: Step) -> Vec<Change> {
        match step {
            Step::None => {}
            Step::Settled(call) => self.settled(name, call, false),
            Step::Refused(problem) => self.refused(name, problem),
            Step::Stop(problem) => return self.stop(name, problem),
            Step::Again => self.read(name),
            Step::Load(plan) => self.load(name, *plan),
        }
        Vec::new()
    }

    fn load(&mut self, name: &str, plan: Plan) {
        let Inputs { spec, .. } = &plan.inputs;
        let Some(reconciler) = self.by_name.get(name) else {
            return;
        };
        let request = LoadRequest {
            name,
            spec,
            place: Place::of(&reconciler.desired().document),
            policy: &plan.inputs.policy,
            path: plan.path.as_deref(),
            digest: plan.inputs.guest(),
        };
        let load = self.guests.begin(request);
        let permits = self.permits.loading(spec.tenant());
        let (owner, guests) = (name.to_owned(), self.guests.clone());
        let task = self.tasks.spawn(async move {
            let loading = async {
                let _permit = permits.acquire().await;
                guests.load(load?).await.map(Box::new)
            };
            let began = Instant::now();
            let mut is_slow = false;
            let say = || {
                is_slow = true;
                tracing::info!(reconciler = owner, "the guest is being compiled");
            };
            let loaded = announced_if_slow(loading, say).await;
            if is_slow && loaded.is_ok() {
                let seconds = began.elapsed().as_secs_f64();
                tracing::info!(reconciler = owner, seconds, "the guest is compiled");
            }
            (owner, Done::Loaded(loaded))
        });
        if let Some(reconciler) = self.by_name.get_mut(name) {
            reconciler.begin_loading(plan, Task::new(task));
        }
    }

    fn loaded(
        &mut self,
        id: Id,
        name: &str,
        result: Result<Box<Loaded>, LoadFailure>,
    ) -> Vec<Change> {
        let Some(reconciler) = self.by_name.get_mut(name) else {
            return Vec::new();
        };
        let Some(plan) = reconciler.finish_loading(id) else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        match result {
            Ok(loaded) => {
                let (tenant, path) = (plan.inputs.tenant().to_owned(), plan.path.clone());
                let (before, call) = reconciler.apply(plan);
                let controller = self.guests.serve(name, *loaded);
                let replaced = before.is_some();
                if let Some(before) = before {
                    if before.tenant() != tenant {
                        self.reloads.forget(before.tenant(), name);
                        let left = owner(name, &before);
                        changes.extend(left.map(|(tenant, name)| Change::Move(tenant, name)));
                    }
                    if call.is_none() {
                        self.reloads.count(&tenant, name, Reload::Taken);
                    }
                }
                changes.push(Change::Put(Box::new(controller)));
                self.keep_component(name, path);
                self.settled(name, call, replaced);
            }
            Err(failure) => {
                let step = reconciler.load_failed(plan, failure);
                changes.extend(self.step(name, step));
            }
        }
        self.drop_unused();
        self.update_status(name);
        changes
    }

    /// Handles a task that panicked. A cancelled task needs nothing.
    fn panicked(&mut self, error: &JoinError) -> Vec<Change> {
        let mut changes = Vec::new();
        if error.is_cancelled() {
            return changes;
        }
        let names: Vec<String> = self.by_name.keys().cloned().collect();
        for name in names {
            let Some(reconciler) = self.by_name.get_mut(&name) else {
                continue;
            };
            let failure = LoadFailure::transient(format!("the host failed while loading: {error}"));
            let step = match reconciler.finish_loading(error.id()) {
                Some(plan) => reconciler.load_failed(plan, failure),
                None if reconciler.finish_reading(error.id()).is_some() => {
                    reconciler.read_failed(failure)
                }
                None => continue,
            };
            changes.extend(self.step(&name, step));
            self.update_status(&name);
        }
        changes
    }

    /// Notes that a reconciler is as its document or a rollback asks.
    fn settled(&mut self, name: &str, call: Option<RollbackCall>, replaced: bool) {
        let Some(reconciler) = self.by_name.get_mut(name) else {
            return;
        };
        let replaced = replaced || call.is_some();
        if call.is_some() {
            let tenant = reconciler.applied().map_or("", Inputs::tenant);
            self.reloads.count(tenant, name, Reload::Taken);
            let reply = reconciler.reply(String::new());
            tracing::info!(
                reconciler = name,
                revision = reply.revision,
                previous = reply.previous,
                rolled_back = reply.rolled_back,
                "reconciler rolled back or rollback undone"
            );
        }
        if reconciler.settle(None, replaced) {
            self.unreported.insert(name.to_owned());
        }
        self.keep_record(name, call);
    }

    /// Notes that a reconciler cannot be as its document asks.
    fn refused(&mut self, name: &str, problem: String) {
        let Some(reconciler) = self.by_name.get_mut(name) else {
            return;
        };
        let problem = reconciler.describe_problem(&problem);
        if !reconciler.settle(Some(problem), false) {
            return;
        }
        self.unreported.insert(name.to_owned());
        if let Some(running) = reconciler.applied() {
            self.reloads.count(running.tenant(), name, Reload::Refused);
        }
    }

    fn update_status(&self, name: &str) {
        if let Some(reconciler) = self.by_name.get(name) {
            self.statuses.set(name, reconciler.status());
        }
    }

    /// Drops compiled components and tenants that no reconciler uses or can be rolled back to.
    fn drop_unused(&mut self) {
        let used = self.by_name.values().flat_map(Reconciler::used).collect();
        self.guests.keep(&used);
        let documents = self.tenants.iter().map(String::as_str).collect();
        let used = self
            .by_name
            .values()
            .flat_map(Reconciler::tenants)
            .collect();
        self.guests.keep_tenants(&documents, &used);
        self.permits.keep(&used);
    }

    /// Logs the problems that appeared and disappeared since the last report, and answers the rollbacks that succeeded.
    pub(crate) fn report(&mut self) {
        for (name, call, note) in std::mem::take(&mut self.rolled_back) {
            if let Some(reconciler) = self.by_name.get(&name) {
                call.answer(Ok(reconciler.reply(note)));
            }
        }
        for name in std::mem::take(&mut self.unreported) {
            let Some(reconciler) = self.by_name.get(&name) else {
                continue;
            };
            let serves = reconciler.applied().is_some();
            match reconciler.problem() {
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

    /// When to call [`Reconcilers::follow`] again, because a failure may have passed by then.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.by_name.values().filter_map(Reconciler::due).min()
    }

    /// The number of reconcilers that serve.
    pub(crate) fn running(&self) -> usize {
        self.by_name
            .values()
            .filter(|reconciler| reconciler.applied().is_some())
            .count()
    }

    /// Whether a process in which nothing serves yet waits: for a guest of a registry, or for an operator who ends a rollback.
    pub(crate) fn may_come_later(&self) -> bool {
        let is_awaited = |of: &Reconciler| {
            of.desired().spec.guest.image.is_some() || of.history.asked().is_some()
        };
        self.by_name.values().any(is_awaited)
    }

    /// The problems of all reconcilers.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.by_name
            .values()
            .filter_map(|reconciler| reconciler.problem().map(str::to_owned))
            .collect()
    }

    fn removals(&mut self, configuration: &Configuration) -> Vec<Change> {
        let wanted: BTreeSet<&str> = configuration
            .reconcilers()
            .map(|(document, _)| document.identity.name.as_str())
            .collect();
        let gone: Vec<String> = self
            .by_name
            .keys()
            .filter(|name| !wanted.contains(name.as_str()))
            .cloned()
            .collect();
        let mut changes = Vec::new();
        for name in gone {
            self.statuses.remove(&name);
            self.guests.remove(&name);
            let reconciler = self.by_name.remove(&name);
            let running = reconciler.as_ref().and_then(Reconciler::applied);
            if let Some(inputs) = running {
                self.reloads.forget(inputs.tenant(), &name);
            }
            let owner = running.and_then(|inputs| owner(&name, inputs));
            changes.extend(owner.map(|(tenant, name)| Change::Remove(tenant, name)));
        }
        changes
    }
}

/// The policy of a reconciler's tenant; the default without a document.
fn policy(configuration: &Configuration, origin: Origin, spec: &ReconcilerSpec) -> TenantPolicy {
    let tenant = configuration.tenant(spec.tenant());
    let tenant = tenant.map(|(_, spec)| TenantPolicy::of(spec, origin));
    tenant.unwrap_or_else(|| TenantPolicy::of(&TenantSpec::default(), origin))
}

/// The tenant and the name of a reconciler. None cannot happen: the names of a document are checked.
fn owner(name: &str, inputs: &Inputs) -> Option<(TenantName, ControllerName)> {
    Some((
        TenantName::new(inputs.tenant()).ok()?,
        ControllerName::new(name).ok()?,
    ))
}
