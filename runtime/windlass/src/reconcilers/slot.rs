//! One reconciler: what runs, what its document asks for, and what is being made of that. Entry point: [`Slot`].
//!
//! A slot does one thing after the other: its guest's file is looked at, then a change is prepared, unless just that is under way
//! already, and what is ready is taken. What is newer abandons what is being prepared, so that nothing old follows anything new.

use super::failed::Failed;
use super::file::File;
use super::narrowing::Narrowing;
use super::pin::{Choice, Pin};
use crate::app::rollback::{Asked, Refusal};
use crate::config::kinds::ReconcilerSpec;
use crate::config::load::Document;
use crate::guests::{Terms, Trouble};
use crate::status::reconcilers::{LastChange, ReconcilerStatus};
use crate::status::view::RollbackReply;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};
use tokio::task::{AbortHandle, Id};
use windlass_sandbox::Digest;

/// What a reconciler is made of: when this changes, it is made anew.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Recipe {
    pub(super) spec: ReconcilerSpec,
    pub(super) terms: Terms,
    guest: Digest,
}

impl Recipe {
    pub(super) fn tenant(&self) -> &str {
        self.spec.tenant()
    }

    pub(super) fn guest(&self) -> Digest {
        self.guest
    }
}

/// What the documents ask for.
#[derive(Clone)]
pub(super) struct Wish {
    pub(super) document: Document,
    pub(super) spec: ReconcilerSpec,
    pub(super) terms: Terms,
}

/// Something that is done aside; dropped, it is abandoned.
pub(super) struct Task(AbortHandle);

impl Task {
    pub(super) fn new(handle: AbortHandle) -> Self {
        Self(handle)
    }

    fn is(&self, id: Id) -> bool {
        self.0.id() == id
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A look at the guest's file.
struct Look {
    /// The file may have changed since it began, so that another has to follow.
    stale: bool,
    task: Task,
}

/// A change that is being prepared.
struct Preparing {
    recipe: Recipe,
    /// The roll back that is in effect if it succeeds.
    pin: Option<Pin>,
    /// Who waits for it.
    asked: Option<Asked>,
    task: Task,
}

/// A reconciler that a document asks for.
pub(super) struct Slot {
    wish: Wish,
    /// What runs.
    pub(super) running: Option<Recipe>,
    /// What is left to the controller of what it was loaded with.
    pub(super) narrowing: Narrowing,
    /// Whether what runs has less than it was loaded with: rights were withdrawn, and its reload is refused or has not come yet.
    pub(super) has_less: bool,
    /// The revision that served before the one that does. It is kept, compiled, to go back to.
    previous: Option<Digest>,
    /// The roll back that is in effect.
    pin: Option<Pin>,
    /// What was tried last and failed; none: the guest could not even be read.
    failed: Option<Failed<Option<Recipe>>>,
    /// What is wrong now.
    problem: Option<String>,
    /// The last change.
    changed: Option<LastChange>,
    /// When what is being done began, or was done last.
    began: Instant,
    looking: Option<Look>,
    preparing: Option<Preparing>,
    /// A roll back that is to be decided on at the end of a look.
    asked: Option<Asked>,
}

/// What a look at the file leads to.
pub(super) enum Step {
    /// Nothing is to be done.
    None,
    /// What runs is what is asked for.
    Settled(Option<Asked>),
    /// It cannot be.
    Refused(String),
    /// A roll back cannot be, so that what the documents ask for is to be looked at again.
    Again,
    /// This has to be prepared.
    Prepare(Box<Plan>),
}

/// A change that has to be prepared.
pub(super) struct Plan {
    pub(super) recipe: Recipe,
    /// Where the component is; none: one that is kept is meant.
    pub(super) path: Option<PathBuf>,
    pin: Option<Pin>,
    asked: Option<Asked>,
}

impl Slot {
    /// Nothing runs yet.
    pub(super) fn new(wish: Wish) -> Self {
        Self {
            wish,
            running: None,
            narrowing: Narrowing::default(),
            has_less: false,
            previous: None,
            pin: None,
            failed: None,
            problem: None,
            changed: None,
            began: Instant::now(),
            looking: None,
            preparing: None,
            asked: None,
        }
    }

    pub(super) fn wish(&self) -> &Wish {
        &self.wish
    }

    pub(super) fn set_wish(&mut self, wish: Wish) {
        self.wish = wish;
    }

    pub(super) fn running(&self) -> Option<&Recipe> {
        self.running.as_ref()
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Notes what is wrong, if anything is. `replaced`: what ran before was changed. Returns whether what is wrong changed.
    pub(super) fn settle(&mut self, problem: Option<String>, replaced: bool) -> bool {
        let is_news = self.problem != problem;
        if is_news || replaced {
            self.changed = Some(LastChange {
                at: SystemTime::now(),
                took: self.began.elapsed(),
            });
        }
        self.problem = problem;
        is_news
    }

    /// Whether something of it is being done.
    pub(super) fn is_busy(&self) -> bool {
        self.looking.is_some() || self.preparing.is_some()
    }

    /// When what failed for the host's own reasons is to be tried again.
    pub(super) fn due(&self) -> Option<Instant> {
        let failed = self.failed.as_ref().filter(|_| !self.is_busy());
        failed.and_then(Failed::due)
    }

    /// Whether a look has to begin now; one that has begun is followed by another.
    pub(super) fn wants_look(&mut self) -> bool {
        match &mut self.looking {
            Some(look) => look.stale = true,
            None => return true,
        }
        false
    }

    pub(super) fn looks(&mut self, task: Task) {
        if self.preparing.is_none() {
            self.began = Instant::now();
        }
        self.looking = Some(Look { stale: false, task });
    }

    /// Takes a roll back on, to be decided on at the end of a look.
    ///
    /// # Errors
    /// The one that is asked for, when another is under way.
    pub(super) fn ask(&mut self, asked: Asked) -> Result<(), Asked> {
        let preparing = self.preparing.as_ref();
        if self.asked.is_some() || preparing.is_some_and(|preparing| preparing.asked.is_some()) {
            return Err(asked);
        }
        self.asked = Some(asked);
        Ok(())
    }

    /// The end of a look, if it is the one that was begun last; and whether another has to follow.
    pub(super) fn looked(&mut self, id: Id) -> Option<bool> {
        let look = self.looking.take_if(|look| look.task.is(id))?;
        Some(look.stale)
    }

    /// The end of a preparation, if it is the one that was begun last, and of what the documents still ask for: what they asked for
    /// before comes to nothing, as the look that follows a change of them decides anew.
    pub(super) fn prepared(&mut self, id: Id) -> Option<Plan> {
        let done = self.preparing.take_if(|there| there.task.is(id))?;
        if done.recipe.spec != self.wish.spec || done.recipe.terms != self.wish.terms {
            self.asked = self.asked.take().or(done.asked);
            return None;
        }
        Some(Plan {
            recipe: done.recipe,
            path: None,
            pin: done.pin,
            asked: done.asked,
        })
    }

    /// What is to be done, now that the guest's file was looked at.
    pub(super) fn decide(&mut self, file: File) -> Step {
        let held = file.digest.as_ref().ok().copied();
        let under_way = self.preparing.as_ref();
        let mut pin = match under_way.filter(|preparing| preparing.asked.is_some()) {
            Some(preparing) => preparing.pin,
            None => self.pin,
        };
        let mut asked = None;
        if let Some(waiting) = self.asked.take()
            && let Some(request) = waiting.request()
        {
            match self.choice(held).take(request) {
                Ok(chosen) => (pin, asked) = (chosen, Some(waiting)),
                Err(problem) => {
                    let name = &self.wish.document.identity.name;
                    let refusal = Refusal::Impossible(format!("reconciler {name} {problem}"));
                    waiting.answer(Err(refusal));
                }
            }
        }
        let pin = pin.filter(|pin| pin.holds(held));
        let guest = match (pin, file.digest) {
            (Some(pin), _) => pin.to,
            (None, Ok(digest)) => digest,
            (None, Err(trouble)) => {
                let asked = asked.or_else(|| self.abandon());
                return self.fail(None, pin, asked, trouble);
            }
        };
        let recipe = Recipe {
            spec: self.wish.spec.clone(),
            terms: self.wish.terms.clone(),
            guest,
        };
        if let Some(preparing) = &mut self.preparing
            && preparing.recipe == recipe
        {
            preparing.pin = pin;
            preparing.asked = asked.or(preparing.asked.take());
            return Step::None;
        }
        if self.running.as_ref() == Some(&recipe) {
            let there = self.abandon();
            (self.pin, self.failed) = (pin, None);
            return Step::Settled(asked.or(there));
        }
        if let Some(failed) = &self.failed
            && asked.is_none()
            && failed.of.as_ref() == Some(&recipe)
            && !failed.is_due(Instant::now())
        {
            let problem = failed.problem.clone();
            if let Some(asked) = self.abandon() {
                asked.answer(Err(Refusal::Impossible(problem.clone())));
            }
            self.pin = pin;
            return Step::Refused(problem);
        }
        Step::Prepare(Box::new(Plan {
            recipe,
            path: pin.is_none().then_some(file.path),
            pin,
            asked,
        }))
    }

    /// Begins what was decided on, in place of what is under way.
    pub(super) fn prepares(&mut self, plan: Plan, task: Task) {
        let asked = plan.asked.or_else(|| self.abandon());
        self.preparing = Some(Preparing {
            recipe: plan.recipe,
            pin: plan.pin,
            asked,
            task,
        });
    }

    /// Notes that a change is in effect. Returns what ran before, and who waits for it.
    pub(super) fn take(&mut self, plan: Plan) -> (Option<Recipe>, Option<Asked>) {
        let guest = plan.recipe.guest;
        let before = self.running.replace(plan.recipe);
        let served = before.as_ref().map(|running| running.guest);
        self.previous = served.filter(|served| *served != guest).or(self.previous);
        (self.pin, self.failed) = (plan.pin, None);
        (self.narrowing, self.has_less) = (Narrowing::default(), false);
        (before, plan.asked)
    }

    /// Notes that a change cannot be, and says so.
    pub(super) fn refuse(&mut self, plan: Plan, trouble: Trouble) -> Step {
        self.fail(Some(plan.recipe), plan.pin, plan.asked, trouble)
    }

    /// Notes that the guest's file could not be looked at.
    pub(super) fn lost(&mut self, trouble: Trouble) -> Step {
        let asked = self.asked.take();
        self.fail(None, self.pin, asked, trouble)
    }

    /// A roll back that fails changes nothing, and what the documents ask for is looked at again.
    fn fail(
        &mut self,
        tried: Option<Recipe>,
        pin: Option<Pin>,
        asked: Option<Asked>,
        trouble: Trouble,
    ) -> Step {
        let Trouble { problem, may_pass } = trouble;
        let problem = self.wish.document.problem(problem).to_string();
        if let Some(asked) = asked {
            let name = &self.wish.document.identity.name;
            let refusal = format!(
                "reconciler {name} cannot serve that revision as things are, and goes on with what served: {problem}"
            );
            asked.answer(Err(Refusal::Impossible(refusal)));
            return Step::Again;
        }
        let failed = Failed::new(tried, problem.clone());
        self.failed = Some(match may_pass {
            true => failed.again_after(self.failed.as_ref(), Instant::now()),
            false => failed,
        });
        self.pin = pin;
        Step::Refused(problem)
    }

    /// Ends what is being prepared. Returns who waits for it.
    fn abandon(&mut self) -> Option<Asked> {
        self.preparing.take().and_then(|preparing| preparing.asked)
    }

    fn choice(&self, file: Option<Digest>) -> Choice {
        Choice {
            running: self.running.as_ref().map(|running| running.guest),
            previous: self.previous,
            file,
            pin: self.pin,
        }
    }

    pub(super) fn reply(&self) -> RollbackReply {
        let print = |digest: Option<Digest>| digest.map_or_else(String::new, |d| d.to_string());
        RollbackReply {
            reconciler: self.wish.document.identity.name.clone(),
            revision: print(self.running.as_ref().map(|running| running.guest)),
            previous: print(self.previous),
            rolled_back: self.pin.is_some(),
        }
    }

    /// The revisions that run, may be gone back to, or are on their way: three at most.
    pub(super) fn used(&self) -> impl Iterator<Item = Digest> {
        let running = self.running.as_ref().map(|recipe| recipe.guest);
        let next = self.preparing.as_ref().map(|next| next.recipe.guest);
        [running, self.previous, next].into_iter().flatten()
    }

    /// The tenants that it is or will be of.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &str> {
        let running = self.running.as_ref().map(Recipe::tenant);
        [Some(self.wish.spec.tenant()), running]
            .into_iter()
            .flatten()
    }

    pub(super) fn entry(&self) -> ReconcilerStatus {
        let Wish { document, spec, .. } = &self.wish;
        let running = self.running.as_ref();
        ReconcilerStatus {
            tenant: running.map_or(spec.tenant(), Recipe::tenant).to_owned(),
            guest: document.resolve(&spec.guest.path),
            revision: self.running.as_ref().map(|recipe| recipe.guest.to_string()),
            previous: self.previous.map(|digest| digest.to_string()),
            rolled_back: self.pin.is_some(),
            problem: self.problem.clone(),
            changed: self.changed,
            loading: self.preparing.is_some() || self.is_new(),
        }
    }

    /// Whether nothing is known of it yet.
    fn is_new(&self) -> bool {
        self.looking.is_some() && self.running.is_none() && self.problem.is_none()
    }
}
