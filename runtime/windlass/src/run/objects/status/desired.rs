//! What the status of an object is to be. Entry points: [`provider`], [`tenant`] and [`reconciler`].

use crate::app::App;
use crate::config::kinds::status::{
    Condition, KeyCounts, LastFailure, ProviderProblem, ProviderStatus, ReconcilerStatus as Status,
    TenantStatus,
};
use crate::config::objects::Verdict;
use crate::run::objects::owner;
use crate::status::reconcilers::ReconcilerStatus;
use std::collections::BTreeMap;
use windlass_fleet::manager::{ControllerStatus, ProviderStatus as Found};
use windlass_fleet::outcome::shortened;

/// Most problems of a Provider, and most bytes of a message.
const MOST_PROBLEMS: usize = 20;
const LONGEST: usize = 1024;

/// What the running program knows.
pub(super) struct Sources {
    controllers: BTreeMap<String, ControllerStatus>,
    providers: BTreeMap<String, Found>,
    reconcilers: BTreeMap<String, ReconcilerStatus>,
    owner: String,
    now: String,
}

impl Sources {
    pub(super) fn of(app: &App) -> Self {
        let controllers = app.manager.controllers().into_iter();
        let providers = app.manager.providers().into_iter();
        let now = jiff::Timestamp::now();
        Self {
            controllers: controllers.map(|of| (of.name.clone(), of)).collect(),
            providers: providers.map(|of| (of.name.clone(), of)).collect(),
            reconcilers: app.statuses.all(),
            owner: owner(app).to_string(),
            now: now.round(jiff::Unit::Second).unwrap_or(now).to_string(),
        }
    }
}

/// Whether something holds, why in a word, and why for people.
type Holds = (Option<bool>, &'static str, String);

const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);

/// The reason of a Reconciler whose rollback is in effect.
const ROLLED_BACK: &str = "RolledBack";

fn holds(reason: &'static str) -> Holds {
    (YES, reason, String::new())
}

fn accepted(verdict: &Verdict) -> Holds {
    match &verdict.refused {
        None => holds("Accepted"),
        Some(refused) => {
            let holds = if refused.is_unknown { None } else { NO };
            (holds, refused.reason, refused.message.clone())
        }
    }
}

fn condition(sources: &Sources, verdict: &Verdict, kind: &str, holds: Holds) -> Condition {
    let (holds, reason, message) = holds;
    let status = match holds {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: shortened(message, LONGEST),
        last_transition_time: sources.now.clone(),
        observed_generation: verdict.object.generation,
    }
}

/// A Reconciler's.
pub(super) fn reconciler(sources: &Sources, verdict: &Verdict) -> Status {
    let name = verdict.object.identity().name;
    let loaded = sources.reconcilers.get(&name);
    let controller = sources.controllers.get(&name).filter(|_| loaded.is_some());
    let accepted = accepted(verdict);
    let is_loaded = is_loaded(verdict, loaded);
    let ready = ready(&accepted, &is_loaded, controller);
    let count = |of: fn(&ControllerStatus) -> usize| number(controller.map_or(0, of));
    let failure = controller.and_then(|controller| {
        Some(LastFailure {
            message: shortened(controller.last_error.clone()?, LONGEST),
            blame: controller.last_blame.unwrap_or_default().to_owned(),
        })
    });
    let of = |kind, holds| condition(sources, verdict, kind, holds);
    let text = |of: fn(&ReconcilerStatus) -> &Option<String>| {
        loaded
            .and_then(|loaded| of(loaded).clone())
            .unwrap_or_default()
    };
    // While it does not run, what served last is what it can be rolled back to.
    let record = Some(&verdict.object.record.record).filter(|_| loaded.is_none());
    let last = record.and_then(|record| record.revision.as_ref().or(record.previous.as_ref()));
    let last_digest = last.map(|last| last.digest.to_string());
    let last_image = last.and_then(|last| last.image.clone());
    Status {
        observed_generation: verdict.object.generation,
        last_heartbeat_time: sources.now.clone(),
        owner: sources.owner.clone(),
        conditions: vec![
            of("Accepted", accepted),
            of("Loaded", is_loaded),
            of("Ready", ready),
        ],
        tenant: verdict.tenant.clone().unwrap_or_default(),
        revision: text(|of| &of.revision),
        image: text(|of| &of.image),
        previous_revision: last_digest.unwrap_or_else(|| text(|of| &of.previous)),
        previous_image: last_image.unwrap_or_else(|| text(|of| &of.previous_image)),
        // Written when it begins and ends: see `reconcilers::records`.
        rollback: None,
        clusters: count(|of| of.clusters),
        keys: KeyCounts {
            ready: count(|of| of.ready),
            running: count(|of| of.running),
            delayed: count(|of| of.delayed),
            backoff: count(|of| of.backoff),
            terminal: count(|of| of.terminal),
        },
        last_failure: failure,
    }
}

/// Whether the guest serves as the object asks.
fn is_loaded(verdict: &Verdict, loaded: Option<&ReconcilerStatus>) -> Holds {
    let Some(loaded) = loaded else {
        return (NO, "NotRunning", "it does not run".to_owned());
    };
    let loading = |message: &str| (None, "Loading", message.to_owned());
    match (&loaded.revision, &loaded.problem) {
        _ if verdict.refused.is_some() => {
            let message = "an earlier version of this object is in effect".to_owned();
            (NO, "EarlierVersion", message)
        }
        (None, Some(problem)) => (NO, "Refused", problem.clone()),
        (Some(_), Some(problem)) => (NO, "ServesEarlier", problem.clone()),
        (None, None) => loading("its guest is being loaded"),
        (Some(_), None) if loaded.loading.is_some() => loading("a newer version is being loaded"),
        (Some(revision), None) if loaded.rolled_back => {
            let message = format!(
                "it is rolled back: {revision} serves, until its guest is another one or windlass rollback --undo"
            );
            (NO, ROLLED_BACK, message)
        }
        (Some(_), None) => holds("Loaded"),
    }
}

/// Whether it reconciles as the object asks.
fn ready(accepted: &Holds, loaded: &Holds, controller: Option<&ControllerStatus>) -> Holds {
    let is_rolled_back = loaded.1 == ROLLED_BACK;
    let stops = |of: &&Holds| of.0 != YES && of.1 != ROLLED_BACK;
    if let Some(not) = [accepted, loaded].into_iter().find(stops) {
        return not.clone();
    }
    let Some(controller) = controller else {
        return (None, "Starting", "it is being started".to_owned());
    };
    match controller.problems.first() {
        Some(problem) => (NO, "WatchFails", problem.clone()),
        // As an operator asked, though not as the object does.
        None if is_rolled_back => (YES, ROLLED_BACK, loaded.2.clone()),
        None => holds("Reconciling"),
    }
}

/// A Tenant's.
pub(super) fn tenant(sources: &Sources, verdict: &Verdict) -> TenantStatus {
    let name = &verdict.object.name;
    let accepted = accepted(verdict);
    let holding = &verdict.holding;
    let ready = match (accepted.0, &holding.refused, &holding.kept) {
        (YES, Some(refused), _) => (NO, "NamespaceTaken", refused.refused()),
        (YES, None, Some(kept)) => (YES, "InEffect", kept.kept()),
        (YES, None, None) => holds("InEffect"),
        _ => accepted.clone(),
    };
    let own = sources.reconcilers.values().filter(|of| of.tenant == *name);
    TenantStatus {
        observed_generation: verdict.object.generation,
        last_heartbeat_time: sources.now.clone(),
        owner: sources.owner.clone(),
        conditions: vec![
            condition(sources, verdict, "Accepted", accepted),
            condition(sources, verdict, "Ready", ready),
        ],
        namespaces: number(holding.namespaces),
        reconcilers: number(own.count()),
    }
}

/// A Provider's.
pub(super) fn provider(sources: &Sources, verdict: &Verdict) -> ProviderStatus {
    let accepted = accepted(verdict);
    // A Provider in a file has the name: what it found is not this one's.
    let in_file = accepted.1 == "DefinedInFile";
    let found = sources.providers.get(&verdict.object.name);
    let found = found.filter(|_| !in_file);
    let ready = match (accepted.0, found) {
        (YES, Some(found)) => match found.problems.first() {
            Some(problem) => {
                let message = format!("{}: {}", problem.subject, problem.message);
                (NO, "HasProblems", message)
            }
            None if found.last_listed.is_some() => holds("Listed"),
            None => (None, "Listing", "its source is being read".to_owned()),
        },
        (YES, None) => (None, "Starting", "it is being started".to_owned()),
        _ => accepted.clone(),
    };
    let problems = found.into_iter().flat_map(|found| &found.problems);
    let problems = problems.take(MOST_PROBLEMS).map(|problem| ProviderProblem {
        subject: shortened(problem.subject.clone(), LONGEST),
        message: shortened(problem.message.clone(), LONGEST),
    });
    let count = |of: fn(&Found) -> usize| number(found.map_or(0, of));
    ProviderStatus {
        observed_generation: verdict.object.generation,
        last_heartbeat_time: sources.now.clone(),
        owner: sources.owner.clone(),
        conditions: vec![
            condition(sources, verdict, "Accepted", accepted),
            condition(sources, verdict, "Ready", ready),
        ],
        found: count(|of| of.found),
        engaged: count(|of| of.engaged),
        refused: count(|of| of.refused),
        problems: problems.collect(),
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
