//! The steps of a case: what is done to the fleet, and what is then expected of it. Entry point: [`Script::next`].
//!
//! A step waits until nothing is left to do, unless the step before changed the fleet too.

use super::compare::{self, Difference};
use super::fleet::{each, find};
use super::identity::Identity;
use crate::seed::{Layout, ordered};
use crate::simulated::{Description, Failure, Simulated};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Events are recorded in the background: how much later they may come.
const EVENTS_LATE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(200);

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Apply(Layout),
    Delete(Layout),
    /// Merges the status of each object into that of the one that is there, as the controller of its kind would do.
    PatchStatus(Layout),
    /// The objects exist, with at least these fields.
    Expect(Layout),
    Absent(Layout),
    /// For each one there is an Event with at least these fields.
    ExpectEvents(Layout),
    Wait(Duration),
    Join(BTreeMap<String, Joins>),
    Leave(Vec<String>),
    /// Labels of clusters; those without a value are removed.
    Label(BTreeMap<String, BTreeMap<String, Option<String>>>),
    Fail(BTreeMap<String, Failure>),
    Heal(Vec<String>),
    Clock(Duration),
}

/// What a cluster has that joins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Joins {
    pub(super) objects: Vec<Json>,
    pub(super) description: Description,
}

/// Where a step stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Place {
    /// The file.
    pub(super) file: Arc<str>,
    /// The line, from 1.
    pub(super) line: u32,
    /// Which step of the file it is, from 1.
    pub(super) number: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, number } = self;
        write!(f, "{file}:{line}: step {number}")
    }
}

/// What is to happen before a script goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// Time that passes.
    pub wait: Duration,
    /// How far the fleet's clock moves forward before that.
    pub clock: Duration,
}

/// The steps that are left, and what was found.
#[derive(Debug, Default)]
pub struct Script {
    /// Each with its place; none in a case that is a folder.
    left: VecDeque<(Option<Place>, Step)>,
    /// The first objects of all clusters, which those have too that join.
    everywhere: Vec<Json>,
    /// Whether only the changes are made, and nothing is expected.
    is_unchecked: bool,
    /// How long Events were waited for, in all steps.
    waited: Duration,
    /// What differs from what was expected. The steps that follow a difference are left out.
    pub differences: Vec<Difference>,
    /// Why a step could not be done. No step follows.
    pub problem: Option<String>,
}

impl Step {
    /// The objects of the step by cluster; none: it only waits.
    pub(super) fn layout(&self) -> Option<&Layout> {
        match self {
            Self::Apply(layout)
            | Self::Delete(layout)
            | Self::PatchStatus(layout)
            | Self::Expect(layout)
            | Self::Absent(layout)
            | Self::ExpectEvents(layout) => Some(layout),
            _ => None,
        }
    }

    /// The clusters that the step takes for members of the fleet.
    pub(super) fn members(&self) -> Vec<&String> {
        match self {
            Self::Leave(names) | Self::Heal(names) => names.iter().collect(),
            Self::Label(labels) => labels.keys().collect(),
            Self::Fail(failures) => failures.keys().collect(),
            step => step
                .layout()
                .iter()
                .flat_map(|layout| layout.clusters.keys())
                .collect(),
        }
    }

    /// Whether it compares, and changes nothing.
    pub(super) fn expects(&self) -> bool {
        matches!(
            self,
            Self::Expect(_) | Self::Absent(_) | Self::ExpectEvents(_)
        )
    }

    fn compare(&self, fleet: &Simulated) -> Result<Vec<Difference>> {
        let mut differences = Vec::new();
        for (cluster, object) in each(self.layout(), fleet) {
            match self {
                Self::Expect(_) => {
                    let found = find(fleet, &cluster, &object)?;
                    compare::present(&cluster, &object, found.as_ref(), &mut differences);
                }
                Self::Absent(_) if find(fleet, &cluster, &object)?.is_some() => {
                    differences.push(compare::unwanted(&cluster, &object));
                }
                Self::ExpectEvents(_) => {
                    let server = fleet.cluster(&cluster).context("the cluster is gone")?;
                    let events = server.list("v1", "Event", "")?;
                    if !events.iter().any(|event| compare::has(event, &object)) {
                        differences.push(compare::no_event(&cluster, &object, &events));
                    }
                }
                _ => {}
            }
        }
        Ok(differences)
    }

    /// Changes the fleet, or the objects in it.
    fn change(&self, everywhere: &[Json], fleet: &Simulated) -> Result<()> {
        match self {
            Self::Join(clusters) => clusters.iter().try_for_each(|(name, joins)| {
                let objects = everywhere.iter().chain(&joins.objects).cloned();
                let objects = ordered(objects.collect());
                fleet.join(name, &objects, joins.description.clone())
            }),
            Self::Leave(names) => names.iter().try_for_each(|name| fleet.leave(name)),
            Self::Label(clusters) => {
                let mut clusters = clusters.iter();
                clusters.try_for_each(|(name, labels)| fleet.label(name, labels))
            }
            Self::Fail(clusters) => {
                let mut clusters = clusters.iter();
                clusters.try_for_each(|(name, failure)| fleet.fail(name, *failure))
            }
            Self::Heal(names) => names.iter().try_for_each(|name| fleet.heal(name)),
            Self::Clock(by) => {
                fleet.advance(*by);
                Ok(())
            }
            _ => {
                self.change_objects(fleet)?;
                fleet.settle_workspaces();
                Ok(())
            }
        }
    }

    fn change_objects(&self, fleet: &Simulated) -> Result<()> {
        for (cluster, object) in each(self.layout(), fleet) {
            let server = fleet.cluster(&cluster).context("the cluster is gone")?;
            let Identity {
                version,
                kind,
                name,
                ..
            } = Identity::of(&object);
            let what = || format!("cluster {cluster}: {kind} {name}");
            if matches!(self, Self::Apply(_)) {
                server.apply(object.clone()).with_context(what)?;
                continue;
            }
            let Some(there) = find(fleet, &cluster, &object)? else {
                bail!("{}: it is not there", what());
            };
            let namespace = Identity::of(&there).namespace;
            match self {
                Self::Delete(_) => server
                    .delete(&version, &kind, &namespace, &name)
                    .with_context(what)?,
                _ => {
                    let patch = json!({"status": object["status"]});
                    server
                        .merge_status(&version, &kind, &namespace, &name, &patch)
                        .with_context(what)
                        .map(drop)?;
                }
            }
        }
        Ok(())
    }
}

impl Script {
    /// Steps, each with its place, for a fleet whose clusters have all begun with some objects.
    pub(super) fn new(steps: Vec<(Option<Place>, Step)>, everywhere: Vec<Json>) -> Self {
        Self {
            left: steps.into(),
            everywhere,
            ..Self::default()
        }
    }

    /// The same changes at the same points, without what is expected of them: for runs under faults.
    #[must_use]
    pub fn unchecked(self) -> Self {
        Self {
            is_unchecked: true,
            ..self
        }
    }

    /// Goes on, now that nothing is left to do. Some: the fleet was changed, or time has to pass: call it again after this, once nothing
    /// is left to do. None: nothing follows.
    pub fn next(&mut self, fleet: &Simulated) -> Option<Pause> {
        match self.go_on(fleet) {
            Ok(next) => next,
            Err(error) => {
                self.problem = Some(format!("{error:#}"));
                None
            }
        }
    }

    fn go_on(&mut self, fleet: &Simulated) -> Result<Option<Pause>> {
        let (mut is_changed, mut pause) = (false, Pause::default());
        while let Some((place, step)) = self.left.front() {
            let called = |place: &Place| place.to_string();
            let context = || {
                place
                    .as_ref()
                    .map_or_else(|| "the expected objects".to_owned(), called)
            };
            if step.expects() && is_changed {
                break;
            }
            if !step.expects() && !self.differences.is_empty() {
                return Ok(None);
            }
            if let Step::Clock(by) = step {
                // A change of its own: else what was applied before would have the later time, or the time of others would be another one.
                if is_changed {
                    break;
                }
                pause.clock = *by;
                step.change(&self.everywhere, fleet).with_context(context)?;
                self.left.pop_front();
                return Ok(Some(pause));
            }
            if let Step::Wait(time) = step {
                pause.wait = *time;
                self.left.pop_front();
                return Ok(Some(pause));
            }
            if step.expects() && self.is_unchecked {
                // Only its point in time counts.
            } else if step.expects() {
                let mut found = step.compare(fleet).with_context(context)?;
                let are_late = matches!(step, Step::ExpectEvents(_)) && !found.is_empty();
                if are_late && self.waited < EVENTS_LATE {
                    self.waited += LOOK;
                    pause.wait = LOOK;
                    return Ok(Some(pause));
                }
                found.iter_mut().for_each(|one| one.step.clone_from(place));
                self.differences.extend(found);
            } else {
                step.change(&self.everywhere, fleet).with_context(context)?;
                is_changed = true;
            }
            self.left.pop_front();
        }
        Ok(is_changed.then_some(pause))
    }
}
