//! Brings what runs in line with the documents and the guests on disk. Entry point: [`Reconcilers::changes`].
//!
//! Whatever cannot be brought in line keeps what ran before, and the board says why.

mod failed;
mod narrowing;
mod pin;

use crate::board::{Board, Changed, Entry};
use crate::guest_build::{built, built_path};
use crate::guests::{Digest, Guests, Order, Terms, Trouble};
use crate::kinds::{Bytes, ReconcilerSpec};
use crate::load::{Configuration, Document};
use crate::reloads::{Reload, Reloads};
use crate::rollback::Refusal;
use crate::view::{RollbackReply, RollbackRequest};
use failed::Failed;
use narrowing::Narrowing;
use pin::{Choice, Pin};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use tokio::io::AsyncReadExt;
use windlass_fleet::controller::Controller;
use windlass_fleet::{ControllerName, TenantName};

/// What a reconciler is made of: when this changes, it is made anew.
#[derive(Debug, Clone, PartialEq)]
struct Recipe {
    spec: ReconcilerSpec,
    terms: Terms,
    guest: Digest,
}

impl Recipe {
    fn tenant(&self) -> String {
        self.spec.tenant().to_owned()
    }
}

/// A reconciler that a document asks for.
#[derive(Default)]
struct Slot {
    /// What runs.
    running: Option<Recipe>,
    /// The revision that served before the one that does. It is kept, compiled, to go back to.
    previous: Option<Digest>,
    /// What is left to the controller of what it was loaded with.
    narrowing: Narrowing,
    /// Whether what runs has less than it was loaded with: rights were withdrawn, and its reload is refused or has not come yet.
    has_less: bool,
    /// The roll back that is in effect.
    pin: Option<Pin>,
    /// What was tried last and failed; none: the guest could not even be read.
    failed: Option<Failed<Option<Recipe>>>,
    /// What is wrong now.
    problem: Option<String>,
    /// The last change.
    changed: Option<Changed>,
}

/// What the manager has to do.
pub(crate) enum Change {
    /// Adds a controller, or replaces the one of its name.
    Put(Box<Controller>),
    /// Takes a controller out whose reconciler is another tenant's from now on. What runs of it ends before the next change.
    Move(TenantName, ControllerName),
    /// Takes a controller out.
    Remove(TenantName, ControllerName),
}

/// The reconcilers, as they run and as they should.
pub(crate) struct Reconcilers {
    guests: Guests,
    board: Arc<Board>,
    slots: BTreeMap<String, Slot>,
    reloads: Reloads,
    /// Reconcilers whose problem came up, changed or went since [`Reconcilers::tell`].
    news: BTreeSet<String>,
}

impl Reconcilers {
    /// None yet.
    pub(crate) fn new(guests: Guests, board: Arc<Board>, reloads: Reloads) -> Self {
        Self {
            guests,
            board,
            slots: BTreeMap::new(),
            reloads,
            news: BTreeSet::new(),
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

    /// Brings everything in line and returns what the manager has to do for it. What could not be is on the board, and is
    /// logged by [`Reconcilers::tell`].
    pub(crate) async fn changes(&mut self, configuration: &Configuration) -> Vec<Change> {
        let mut changes = self.removals(configuration);
        for (tenant, spec) in configuration.tenants() {
            if let Err(problem) = self.guests.set_tenant(&tenant.identity.name, spec) {
                tracing::error!(
                    tenant = tenant.identity.name,
                    problem,
                    "limits of the tenant are not in effect"
                );
            }
        }
        for (document, spec) in configuration.reconcilers() {
            let name = &document.identity.name;
            let terms = terms(configuration, spec);
            let mut slot = self.slots.remove(name).unwrap_or_default();
            let served = slot.running.as_ref().map(Recipe::tenant);
            let began = Instant::now();
            let outcome = slot.update(&mut self.guests, document, spec, terms).await;
            let problem = outcome.as_ref().err().map(|problem| slot.told(problem));
            if let Some(before) = &served {
                let news = problem.is_some() && slot.problem != problem;
                self.count(name, before, &outcome, news);
            }
            let is_new = outcome.as_ref().is_ok_and(|changes| !changes.is_empty());
            if slot.settle(problem, is_new && served.is_some(), began) {
                self.news.insert(name.clone());
            }
            self.board.set(name, slot.entry(document, spec));
            self.slots.insert(name.clone(), slot);
            changes.extend(outcome.unwrap_or_default());
        }
        self.keep_used();
        let documents = configuration.tenants();
        let documents = documents.map(|(document, _)| document.identity.name.as_str());
        let used = configuration.reconcilers().map(|(_, spec)| spec.tenant());
        self.guests
            .keep_tenants(&documents.collect(), &used.collect());
        changes
    }

    /// Goes back to a revision that is kept, or forward again, under the documents as they are now. Returns what serves then,
    /// and what the manager has to do for it.
    ///
    /// # Errors
    /// Why not: what served goes on.
    pub(crate) async fn roll_back(
        &mut self,
        configuration: &Configuration,
        request: &RollbackRequest,
    ) -> Result<(RollbackReply, Vec<Change>), Refusal> {
        let name = &request.reconciler;
        let asked = configuration
            .reconcilers()
            .find(|(document, _)| document.identity.name == *name);
        let (Some((document, spec)), Some(mut slot)) = (asked, self.slots.remove(name)) else {
            let message = format!("there is no reconciler {name:?}: see windlass get reconcilers");
            return Err(Refusal::Unknown(message));
        };
        let terms = terms(configuration, spec);
        let guests = &mut self.guests;
        let outcome = slot.roll_back(guests, document, spec, terms, request);
        let began = Instant::now();
        let outcome = outcome.await;
        if outcome.is_ok() {
            slot.settle(None, true, began);
            self.reloads.count(spec.tenant(), name, Reload::Taken);
        }
        self.board.set(name, slot.entry(document, spec));
        let reply = slot.reply(name);
        self.slots.insert(name.clone(), slot);
        self.keep_used();
        let changes = outcome
            .map_err(|problem| Refusal::Impossible(format!("reconciler {name} {problem}")))?;
        tracing::info!(
            reconciler = name,
            revision = reply.revision,
            previous = reply.previous,
            rolled_back = reply.rolled_back,
            "another revision serves, as was asked for"
        );
        Ok((reply, changes))
    }

    /// Forgets compiled components that no reconciler runs or could go back to.
    fn keep_used(&mut self) {
        let used = self.slots.values().flat_map(Slot::used).collect();
        self.guests.keep(&used);
    }

    /// Counts a change of a reconciler that ran before for a tenant. `refused`: it was refused, and not for the same reason before.
    fn count(
        &self,
        name: &str,
        before: &str,
        outcome: &Result<Vec<Change>, String>,
        refused: bool,
    ) {
        match outcome {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => {
                if changes
                    .iter()
                    .any(|change| matches!(change, Change::Move(..)))
                {
                    self.reloads.forget(before, name);
                }
                if let Some(Change::Put(controller)) = changes.last() {
                    let tenant = controller.tenant().as_str();
                    self.reloads.count(tenant, name, Reload::Taken);
                }
            }
            Err(_) if refused => self.reloads.count(before, name, Reload::Refused),
            Err(_) => {}
        }
    }

    /// Logs what became wrong since the last time, and what no longer is.
    pub(crate) fn tell(&mut self) {
        for name in std::mem::take(&mut self.news) {
            let Some(slot) = self.slots.get(&name) else {
                continue;
            };
            let serves = slot.running.is_some();
            match &slot.problem {
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

    /// When something that failed for the host's own reasons is to be tried again, by [`Reconcilers::changes`].
    pub(crate) fn due(&self) -> Option<Instant> {
        let failed = self.slots.values().filter_map(|slot| slot.failed.as_ref());
        failed.filter_map(Failed::due).min()
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.slots
            .values()
            .filter(|slot| slot.running.is_some())
            .count()
    }

    /// What is wrong, by reconciler.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.slots
            .values()
            .filter_map(|slot| slot.problem.clone())
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
            self.board.remove(&name);
            self.guests.remove(&name);
            let running = self.slots.remove(&name).and_then(|slot| slot.running);
            if let Some(recipe) = &running {
                self.reloads.forget(recipe.spec.tenant(), &name);
            }
            let owner = running.and_then(|recipe| owner(&name, &recipe));
            changes.extend(owner.map(|(tenant, name)| Change::Remove(tenant, name)));
        }
        changes
    }
}

impl Slot {
    /// What has to change; an error leaves everything as it is.
    async fn update(
        &mut self,
        guests: &mut Guests,
        document: &Document,
        spec: &ReconcilerSpec,
        terms: Terms,
    ) -> Result<Vec<Change>, String> {
        let File { path, content } = File::read(document, spec, guests.largest_component()).await;
        let held = content.as_ref().ok().map(|bytes| Digest::of(bytes));
        self.pin = self.pin.filter(|pin| pin.holds(held));
        let (digest, bytes) = match (self.pin, content) {
            (Some(pin), _) => (pin.to, None),
            (None, Ok(bytes)) => (Digest::of(&bytes), Some(bytes)),
            (None, Err(trouble)) => return Err(self.fail(None, document, trouble)),
        };
        let recipe = Recipe {
            spec: spec.clone(),
            terms,
            guest: digest,
        };
        if self.running.as_ref() == Some(&recipe) {
            self.failed = None;
            return Ok(Vec::new());
        }
        if let Some(failed) = &self.failed
            && failed.of.as_ref() == Some(&recipe)
            && !failed.is_due(Instant::now())
        {
            return Err(failed.problem.clone());
        }
        let name = &document.identity.name;
        let order = Order {
            name,
            spec,
            terms: &recipe.terms,
            path: &path,
            bytes,
            digest: recipe.guest,
        };
        match guests.controller(order).await {
            Ok(controller) => {
                let moved = self
                    .running
                    .as_ref()
                    .filter(|running| running.spec.tenant() != spec.tenant());
                let mut changes: Vec<Change> = moved
                    .and_then(|running| owner(name, running))
                    .map(|(tenant, name)| Change::Move(tenant, name))
                    .into_iter()
                    .collect();
                changes.push(Change::Put(Box::new(controller)));
                let before = self.running.as_ref().map(|running| running.guest);
                self.previous = before.filter(|before| *before != digest).or(self.previous);
                (self.running, self.failed) = (Some(recipe), None);
                (self.narrowing, self.has_less) = (Narrowing::default(), false);
                Ok(changes)
            }
            Err(trouble) => Err(self.fail(Some(recipe), document, trouble)),
        }
    }

    /// Notes what is wrong, if anything is. `replaced`: what ran before was changed. Returns whether what is wrong changed.
    fn settle(&mut self, problem: Option<String>, replaced: bool, began: Instant) -> bool {
        let is_news = self.problem != problem;
        if is_news || replaced {
            self.changed = Some(Changed {
                at: SystemTime::now(),
                took: began.elapsed(),
            });
        }
        self.problem = problem;
        is_news
    }

    /// Notes that this was tried in vain, and says so.
    fn fail(&mut self, tried: Option<Recipe>, document: &Document, trouble: Trouble) -> String {
        let Trouble { problem, may_pass } = trouble;
        let problem = document.problem(problem).to_string();
        let failed = Failed::new(tried, problem.clone());
        self.failed = Some(match may_pass {
            true => failed.again_after(self.failed.as_ref(), Instant::now()),
            false => failed,
        });
        problem
    }

    /// Serves another revision that is kept, or what the file holds again.
    async fn roll_back(
        &mut self,
        guests: &mut Guests,
        document: &Document,
        spec: &ReconcilerSpec,
        terms: Terms,
        request: &RollbackRequest,
    ) -> Result<Vec<Change>, String> {
        let content = File::read(document, spec, guests.largest_component())
            .await
            .content;
        let choice = Choice {
            running: self.running.as_ref().map(|running| running.guest),
            previous: self.previous,
            file: content.ok().map(|bytes| Digest::of(&bytes)),
            pin: self.pin,
        };
        let pin = choice.take(request)?;
        let before = (self.pin, self.failed.take());
        self.pin = pin;
        let changes = self.update(guests, document, spec, terms).await;
        changes.map_err(|problem| {
            (self.pin, self.failed) = before;
            format!(
                "cannot serve that revision as things are, and goes on with what served: {problem}"
            )
        })
    }

    fn reply(&self, name: &str) -> RollbackReply {
        let print = |digest: Option<Digest>| digest.map_or_else(String::new, |d| d.to_string());
        RollbackReply {
            reconciler: name.to_owned(),
            revision: print(self.running.as_ref().map(|running| running.guest)),
            previous: print(self.previous),
            rolled_back: self.pin.is_some(),
        }
    }

    /// The revisions that run or may be gone back to: two at most.
    fn used(&self) -> impl Iterator<Item = Digest> {
        let running = self.running.as_ref().map(|recipe| recipe.guest);
        [running, self.previous].into_iter().flatten()
    }

    fn entry(&self, document: &Document, spec: &ReconcilerSpec) -> Entry {
        Entry {
            tenant: (self.running.as_ref())
                .map_or_else(|| spec.tenant().to_owned(), Recipe::tenant),
            guest: document.resolve(&spec.guest.path),
            revision: self.running.as_ref().map(|recipe| recipe.guest.to_string()),
            previous: self.previous.map(|digest| digest.to_string()),
            rolled_back: self.pin.is_some(),
            problem: self.problem.clone(),
            changed: self.changed,
        }
    }
}

/// What the document of a reconciler's tenant says, if there is one.
fn terms(configuration: &Configuration, spec: &ReconcilerSpec) -> Terms {
    let tenant = configuration.tenant(spec.tenant());
    tenant.map_or_else(Terms::default, |(_, tenant)| Terms::of(tenant))
}

/// What a guest is read from, and what was found there.
struct File {
    path: PathBuf,
    content: Result<Vec<u8>, Trouble>,
}

impl File {
    async fn read(document: &Document, spec: &ReconcilerSpec, most: usize) -> Self {
        let (path, content) = match component(document, spec) {
            Ok(path) => {
                let content = read(&path, most).await;
                (path, content)
            }
            Err(problem) => (document.resolve(&spec.guest.path), Err(problem.into())),
        };
        Self { path, content }
    }
}

/// Names of a checked document are names of the engine.
fn owner(name: &str, recipe: &Recipe) -> Option<(TenantName, ControllerName)> {
    Some((
        TenantName::new(recipe.spec.tenant()).ok()?,
        ControllerName::new(name).ok()?,
    ))
}

/// The component that a document means: its file, or what was built in its folder.
///
/// # Errors
/// When it was not built, with what to do.
pub(crate) fn component(document: &Document, spec: &ReconcilerSpec) -> Result<PathBuf, String> {
    let path = document.resolve(&spec.guest.path);
    if !path.is_dir() {
        return Ok(path);
    }
    built(&path).ok_or_else(|| {
        format!(
            "{} is a source folder that was not built yet: run windlass build {}",
            path.display(),
            path.display()
        )
    })
}

/// The component's bytes; of one that is too large no more than it takes to say so.
async fn read(path: &Path, most: usize) -> Result<Vec<u8>, Trouble> {
    let bytes = async {
        let mut bytes = Vec::new();
        let file = tokio::fs::File::open(path).await?;
        let size = file.metadata().await?.len();
        if usize::try_from(size).is_ok_and(|size| size <= most) {
            // It may grow while it is read.
            file.take(most as u64 + 1).read_to_end(&mut bytes).await?;
        }
        Ok::<_, std::io::Error>((bytes, size))
    };
    match bytes.await {
        Ok((bytes, size)) if size <= most as u64 && bytes.len() <= most => Ok(bytes),
        Ok((_, size)) => Err(format!(
            "{} has {}: at most {} are loaded",
            path.display(),
            Bytes(size),
            Bytes(most as u64)
        )
        .into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("{}: no such file: check spec.guest.path", path.display()).into())
        }
        Err(error) => Err(Trouble {
            problem: format!("{}: the guest cannot be read: {error}", path.display()),
            may_pass: true,
        }),
    }
}
