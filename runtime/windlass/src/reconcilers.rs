//! Brings what runs in line with the documents and the guests on disk. Entry points: [`Reconcilers::follow`] and
//! [`Reconcilers::next`].
//!
//! Each reconciler is looked at, prepared and taken on its own, and none waits for another: only a tenant's own wait for each other
//! where they are many. Whatever cannot be brought in line keeps what ran before, and its status says why.

mod failed;
mod file;
mod lanes;
mod narrowing;
mod pin;
pub(crate) mod reloads;
mod slot;

use crate::app::rollback::{Asked, Refusal};
use crate::config::kinds::ReconcilerSpec;
use crate::config::load::{Configuration, Document};
use crate::dev::guest_build::built_path;
use crate::guests::{Guests, Order, Ready, Terms, Trouble};
use crate::reconcilers::reloads::{Reload, Reloads};
use crate::status::reconcilers::Statuses;
use file::File;
pub(crate) use file::component;
use lanes::Lanes;
use slot::{Plan, Recipe, Slot, Step, Task, Wish};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::{Id, JoinError, JoinSet};
use windlass_fleet::controller::Controller;
use windlass_fleet::{ControllerName, TenantName};

/// What the manager has to do.
pub(crate) enum Change {
    /// Adds a controller, or replaces the one of its name.
    Put(Box<Controller>),
    /// Takes a controller out whose reconciler is another tenant's from now on. What runs of it ends before the next change of
    /// the reconciler.
    Move(TenantName, ControllerName),
    /// Takes a controller out.
    Remove(TenantName, ControllerName),
}

/// The end of something that was done aside.
enum Done {
    Looked(File),
    Prepared(Result<Box<Ready>, Trouble>),
}

/// The reconcilers, as they run and as they should.
pub(crate) struct Reconcilers {
    guests: Guests,
    statuses: Arc<Statuses>,
    slots: BTreeMap<String, Slot>,
    /// What is done aside, by reconciler: a look and a preparation of each at most.
    tasks: JoinSet<(String, Done)>,
    lanes: Lanes,
    /// Tenants that have a document.
    tenants: BTreeSet<String>,
    reloads: Reloads,
    /// Reconcilers whose problem came up, changed or went since [`Reconcilers::tell`].
    news: BTreeSet<String>,
    /// Roll backs that were done since then, by reconciler.
    done: Vec<(String, Asked)>,
}

impl Reconcilers {
    /// None yet.
    pub(crate) fn new(guests: Guests, statuses: Arc<Statuses>, reloads: Reloads) -> Self {
        Self {
            guests,
            statuses,
            slots: BTreeMap::new(),
            tasks: JoinSet::new(),
            lanes: Lanes::default(),
            tenants: BTreeSet::new(),
            reloads,
            news: BTreeSet::new(),
            done: Vec::new(),
        }
    }

    /// What the documents' guests are read from: to be watched.
    pub(crate) fn guest_files(configuration: &Configuration) -> BTreeSet<PathBuf> {
        let path = |(document, spec): (&Document, &ReconcilerSpec)| {
            let path = document.resolve(&spec.guest.path);
            if path.is_dir() {
                built_path(&path)
            } else {
                path
            }
        };
        configuration.reconcilers().map(path).collect()
    }

    /// Begins to bring everything in line, and returns what the manager has to do at once. The rest comes of [`Self::next`], and
    /// so do the changes of files that have been noticed by now. Call it on a tokio runtime.
    pub(crate) fn follow(&mut self, configuration: &Configuration) -> Vec<Change> {
        let changes = self.removals(configuration);
        for (tenant, spec) in configuration.tenants() {
            if let Err(problem) = self.guests.set_tenant(&tenant.identity.name, spec) {
                tracing::error!(
                    tenant = tenant.identity.name,
                    problem,
                    "limits of the tenant are not in effect"
                );
            }
        }
        let tenants = configuration.tenants();
        let tenants = tenants.map(|(document, _)| document.identity.name.clone());
        self.tenants = tenants.collect();
        for (document, spec) in configuration.reconcilers() {
            let name = &document.identity.name;
            let wish = Wish {
                document: document.clone(),
                spec: spec.clone(),
                terms: terms(configuration, spec),
            };
            match self.slots.get_mut(name) {
                Some(slot) => slot.set_wish(wish),
                None => drop(self.slots.insert(name.clone(), Slot::new(wish))),
            }
            self.look(name);
            self.show(name);
        }
        self.keep_used();
        changes
    }

    /// Waits until something that [`Self::follow`] or [`Self::roll_back`] began has come to its end, and returns what the manager
    /// has to do for it, at once: a guest that was swapped serves already. What could not be brought in line is in its status, and
    /// is logged by [`Self::tell`].
    ///
    /// # Cancellation
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Vec<Change> {
        match self.tasks.join_next_with_id().await {
            None => std::future::pending().await,
            Some(Ok((id, (name, Done::Looked(file))))) => {
                self.looked(id, &name, file);
                Vec::new()
            }
            Some(Ok((id, (name, Done::Prepared(ready))))) => self.prepared(id, &name, ready),
            Some(Err(error)) => {
                self.broke(&error);
                Vec::new()
            }
        }
    }

    /// Whether something is being done: then [`Self::next`] comes to an end.
    pub(crate) fn is_busy(&self) -> bool {
        self.slots.values().any(Slot::is_busy)
    }

    /// Begins to go back to a revision that is kept, or forward again, under the documents as they are now. The answer comes in
    /// the course of [`Self::next`] and [`Self::tell`].
    pub(crate) fn roll_back(&mut self, asked: Asked) {
        let Some(request) = asked.request() else {
            return;
        };
        let name = request.reconciler.clone();
        let Some(slot) = self.slots.get_mut(&name) else {
            let message = format!("there is no reconciler {name:?}: see windlass get reconcilers");
            return asked.answer(Err(Refusal::Unknown(message)));
        };
        match slot.ask(asked) {
            Ok(()) => self.look(&name),
            Err(asked) => {
                let message = format!("reconciler {name} is being rolled back already: try again");
                asked.answer(Err(Refusal::Busy(message)));
            }
        }
    }

    /// Begins to look at a guest's file, or has another look follow the one that is under way.
    fn look(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        if !slot.wants_look() {
            return;
        }
        let Wish { document, spec, .. } = slot.wish().clone();
        let lane = self.lanes.looking(spec.tenant());
        let (name, most) = (name.to_owned(), self.guests.largest_component());
        let task = self.tasks.spawn(async move {
            let _place = lane.acquire().await;
            let file = File::look(document, spec, most).await;
            (name, Done::Looked(file))
        });
        slot.looks(Task::new(task));
    }

    fn looked(&mut self, id: Id, name: &str, file: File) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        let Some(stale) = slot.looked(id) else {
            return;
        };
        // One that is at another place by now is not what was looked at.
        let moved = component(&slot.wish().document, &slot.wish().spec);
        if stale && moved.is_ok_and(|path| path != file.path) {
            return self.look(name);
        }
        let step = slot.decide(file);
        self.step(name, step);
        if stale {
            self.look(name);
        }
        self.show(name);
    }

    fn step(&mut self, name: &str, step: Step) {
        match step {
            Step::None => {}
            Step::Settled(asked) => self.settled(name, asked, false),
            Step::Refused(problem) => self.refused(name, problem),
            Step::Again => self.look(name),
            Step::Prepare(plan) => self.prepare(name, *plan),
        }
    }

    fn prepare(&mut self, name: &str, plan: Plan) {
        let Recipe { spec, .. } = &plan.recipe;
        let order = Order {
            name,
            spec,
            terms: &plan.recipe.terms,
            path: plan.path.as_deref(),
            digest: plan.recipe.guest(),
        };
        let making = self.guests.order(order);
        let lane = self.lanes.preparing(spec.tenant());
        let (owner, guests) = (name.to_owned(), self.guests.clone());
        let task = self.tasks.spawn(async move {
            let ready = async {
                let _place = lane.acquire().await;
                guests.prepare(making?).await.map(Box::new)
            };
            (owner, Done::Prepared(ready.await))
        });
        if let Some(slot) = self.slots.get_mut(name) {
            slot.prepares(plan, Task::new(task));
        }
    }

    fn prepared(&mut self, id: Id, name: &str, ready: Result<Box<Ready>, Trouble>) -> Vec<Change> {
        let Some(slot) = self.slots.get_mut(name) else {
            return Vec::new();
        };
        let Some(plan) = slot.prepared(id) else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        match ready {
            Ok(ready) => {
                let tenant = plan.recipe.tenant().to_owned();
                let (before, asked) = slot.take(plan);
                let controller = self.guests.serve(name, *ready);
                let replaced = before.is_some();
                if let Some(before) = before {
                    if before.tenant() != tenant {
                        self.reloads.forget(before.tenant(), name);
                        let left = owner(name, &before);
                        changes.extend(left.map(|(tenant, name)| Change::Move(tenant, name)));
                    }
                    if asked.is_none() {
                        self.reloads.count(&tenant, name, Reload::Taken);
                    }
                }
                changes.push(Change::Put(Box::new(controller)));
                self.settled(name, asked, replaced);
            }
            Err(trouble) => {
                let step = slot.refuse(plan, trouble);
                self.step(name, step);
            }
        }
        self.keep_used();
        self.show(name);
        changes
    }

    /// Something that was done aside has panicked, unless it was abandoned.
    fn broke(&mut self, error: &JoinError) {
        if error.is_cancelled() {
            return;
        }
        let names: Vec<String> = self.slots.keys().cloned().collect();
        for name in names {
            let Some(slot) = self.slots.get_mut(&name) else {
                continue;
            };
            let trouble = Trouble {
                problem: format!("the host failed while loading: {error}"),
                may_pass: true,
            };
            let step = match slot.prepared(error.id()) {
                Some(plan) => slot.refuse(plan, trouble),
                None if slot.looked(error.id()).is_some() => slot.lost(trouble),
                None => continue,
            };
            self.step(&name, step);
            self.show(&name);
        }
    }

    /// Notes that a reconciler is as it was asked for.
    fn settled(&mut self, name: &str, asked: Option<Asked>, replaced: bool) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        let replaced = replaced || asked.is_some();
        if let Some(asked) = asked {
            let tenant = slot.running().map_or("", Recipe::tenant);
            self.reloads.count(tenant, name, Reload::Taken);
            let reply = slot.reply();
            tracing::info!(
                reconciler = name,
                revision = reply.revision,
                previous = reply.previous,
                rolled_back = reply.rolled_back,
                "another revision serves, as was asked for"
            );
            self.done.push((name.to_owned(), asked));
        }
        if slot.settle(None, replaced) {
            self.news.insert(name.to_owned());
        }
    }

    /// Notes that a reconciler cannot be as its document asks.
    fn refused(&mut self, name: &str, problem: String) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        let problem = slot.told(&problem);
        if !slot.settle(Some(problem), false) {
            return;
        }
        self.news.insert(name.to_owned());
        if let Some(running) = slot.running() {
            self.reloads.count(running.tenant(), name, Reload::Refused);
        }
    }

    fn show(&self, name: &str) {
        if let Some(slot) = self.slots.get(name) {
            self.statuses.set(name, slot.entry());
        }
    }

    /// Forgets compiled components that no reconciler runs, waits for or could go back to, and tenants that nobody is of.
    fn keep_used(&mut self) {
        let used = self.slots.values().flat_map(Slot::used).collect();
        self.guests.keep(&used);
        let documents = self.tenants.iter().map(String::as_str).collect();
        let used = self.slots.values().flat_map(Slot::tenants).collect();
        self.guests.keep_tenants(&documents, &used);
        self.lanes.keep(&used);
    }

    /// Logs what became wrong since the last time, and what no longer is, and answers who waited for what was done.
    pub(crate) fn tell(&mut self) {
        for (name, asked) in std::mem::take(&mut self.done) {
            if let Some(slot) = self.slots.get(&name) {
                asked.answer(Ok(slot.reply()));
            }
        }
        for name in std::mem::take(&mut self.news) {
            let Some(slot) = self.slots.get(&name) else {
                continue;
            };
            let serves = slot.running().is_some();
            match slot.problem() {
                Some(problem) if serves => tracing::error!(
                    reconciler = name,
                    problem,
                    "the change is not in effect, what ran before goes on with no more than it grants"
                ),
                Some(problem) => {
                    tracing::error!(reconciler = name, problem, "reconciler not started")
                }
                None => tracing::info!(reconciler = name, "reconciler is as its document asks"),
            }
        }
    }

    /// When something that failed for the host's own reasons is to be tried again, by [`Reconcilers::follow`].
    pub(crate) fn due(&self) -> Option<Instant> {
        self.slots.values().filter_map(Slot::due).min()
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.slots
            .values()
            .filter(|slot| slot.running().is_some())
            .count()
    }

    /// What is wrong, by reconciler.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.slots
            .values()
            .filter_map(|slot| slot.problem().map(str::to_owned))
            .collect()
    }

    fn removals(&mut self, configuration: &Configuration) -> Vec<Change> {
        let wanted: BTreeSet<&str> = configuration
            .reconcilers()
            .map(|(document, _)| document.identity.name.as_str())
            .collect();
        let gone: Vec<String> = self
            .slots
            .keys()
            .filter(|name| !wanted.contains(name.as_str()))
            .cloned()
            .collect();
        let mut changes = Vec::new();
        for name in gone {
            self.statuses.remove(&name);
            self.guests.remove(&name);
            let slot = self.slots.remove(&name);
            let running = slot.as_ref().and_then(Slot::running);
            if let Some(recipe) = running {
                self.reloads.forget(recipe.tenant(), &name);
            }
            let owner = running.and_then(|recipe| owner(&name, recipe));
            changes.extend(owner.map(|(tenant, name)| Change::Remove(tenant, name)));
        }
        changes
    }
}

/// What the document of a reconciler's tenant says, if there is one.
fn terms(configuration: &Configuration, spec: &ReconcilerSpec) -> Terms {
    let tenant = configuration.tenant(spec.tenant());
    tenant.map_or_else(Terms::default, |(_, tenant)| Terms::of(tenant))
}

/// Names of a checked document are names of the engine.
fn owner(name: &str, recipe: &Recipe) -> Option<(TenantName, ControllerName)> {
    Some((
        TenantName::new(recipe.tenant()).ok()?,
        ControllerName::new(name).ok()?,
    ))
}
