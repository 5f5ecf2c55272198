//! The steps of a case: what is done to the fleet, and what is then expected of it. Entry points: [`read`] and [`Script::next`].
//!
//! A step waits until nothing is left to do, unless the step before changed the fleet too.

use super::compare::{self, Difference};
use super::fleet::{each, find};
use super::identity::Identity;
use crate::seed::{LOCAL, Layout, objects};
use crate::simulated::Simulated;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use windlass_files::{Interval, Problem, split};

/// Events are recorded in the background: how much later they may come.
const EVENTS_LATE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(200);

/// A file of steps.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct File {
    /// The clusters; by default those of a fleet without a seed.
    #[serde(default)]
    pub(super) clusters: Vec<String>,
    /// The documents, if not those of the project. Relative to the file.
    #[serde(default)]
    pub(super) configuration: Option<PathBuf>,
    steps: Vec<StepFields>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepFields {
    /// The clusters that it is about; by default all of the fleet.
    #[serde(default, rename = "in")]
    clusters: Vec<String>,
    #[serde(default)]
    apply: Option<Vec<Manifest>>,
    #[serde(default)]
    delete: Option<Vec<Manifest>>,
    #[serde(default)]
    patch_status: Option<Vec<Manifest>>,
    #[serde(default)]
    expect: Option<Vec<Manifest>>,
    #[serde(default)]
    absent: Option<Vec<Manifest>>,
    #[serde(default)]
    expect_events: Option<Vec<Manifest>>,
    #[serde(default)]
    wait: Option<Interval>,
}

/// A file of manifests, relative to the file of steps; or one object.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Manifest {
    File(PathBuf),
    Object(Json),
}

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
}

/// The steps that are left, and what was found.
#[derive(Debug, Default)]
pub struct Script {
    /// Each with its number; none in a case that is a folder.
    left: VecDeque<(Option<usize>, Step)>,
    /// How long Events were waited for, in all steps.
    waited: Duration,
    /// What differs from what was expected. The steps that follow a difference are left out.
    pub differences: Vec<Difference>,
    /// Why a step could not be done. No step follows.
    pub problem: Option<String>,
}

/// Reads a file of steps. Objects that the first steps apply come first in the result: they are there when the fleet starts.
///
/// # Errors
/// With file and line, for what cannot be read, and for a step that does not say one thing.
pub(super) fn read(path: &Path) -> Result<(File, Vec<Step>)> {
    let name: Arc<str> = path.to_string_lossy().into();
    let text = std::fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
    let mut parts = split(&text).into_iter();
    let (Some(part), None) = (parts.next(), parts.next()) else {
        bail!("{name}: write one document, with a list `steps`");
    };
    let node = part.parse(&name).map_err(|it| anyhow::anyhow!("{it}"))?;
    let mut file: File = node.decode().map_err(|error| {
        let problem = Problem::at(
            &name,
            error.at.unwrap_or(node.at),
            error.message("the steps"),
        );
        anyhow::anyhow!("{problem}")
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let fields = std::mem::take(&mut file.steps);
    let steps: Result<Vec<Step>> = fields
        .into_iter()
        .zip(1..)
        .map(|(fields, number)| {
            let step = fields.step(folder);
            step.with_context(|| format!("{name}: step {number}"))
        })
        .collect();
    Ok((file, steps?))
}

impl StepFields {
    fn step(self, folder: &Path) -> Result<Step> {
        let Self {
            clusters,
            apply,
            delete,
            patch_status,
            expect,
            absent,
            expect_events,
            wait,
        } = self;
        let layout = |manifests| layout(manifests, &clusters, folder);
        let said = [
            apply.map(|manifests| Ok(Step::Apply(layout(manifests)?))),
            delete.map(|manifests| Ok(Step::Delete(layout(manifests)?))),
            patch_status.map(|manifests| Ok(Step::PatchStatus(layout(manifests)?))),
            expect.map(|manifests| Ok(Step::Expect(layout(manifests)?))),
            absent.map(|manifests| Ok(Step::Absent(layout(manifests)?))),
            expect_events.map(|manifests| Ok(Step::ExpectEvents(layout(manifests)?))),
            wait.map(|wait| Ok(Step::Wait(wait.0))),
        ];
        let mut said: Vec<Step> = said.into_iter().flatten().collect::<Result<_>>()?;
        let number = said.len();
        match (said.pop(), number) {
            (Some(step), 1) => Ok(step),
            _ => bail!(
                "it says {number} things: write one of apply, delete, patchStatus, expect, absent, expectEvents and wait, and a step for each"
            ),
        }
    }
}

/// Objects for clusters; for all of the fleet if none is named.
fn layout(manifests: Vec<Manifest>, clusters: &[String], folder: &Path) -> Result<Layout> {
    let mut all = Vec::new();
    for manifest in manifests {
        match manifest {
            Manifest::Object(object) => all.push(object),
            Manifest::File(path) => {
                let mut problems = Vec::new();
                all.extend(objects(&[folder.join(path)], &mut problems));
                if let Some(problem) = problems.first() {
                    bail!("{problem}");
                }
            }
        }
    }
    let mut layout = Layout::default();
    if clusters.is_empty() {
        layout.everywhere = all;
        return Ok(layout);
    }
    for cluster in clusters {
        match &**cluster {
            LOCAL => layout.local = Some(all.clone()),
            path if path.starts_with("root:") || path == "root" => {
                let workspaces = layout.workspaces.get_or_insert_default();
                workspaces.insert(path.to_owned(), all.clone());
            }
            name => {
                layout.clusters.insert(name.to_owned(), all.clone());
            }
        }
    }
    Ok(layout)
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
            Self::Wait(_) => None,
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

    fn change(&self, fleet: &Simulated) -> Result<()> {
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
    /// Steps, whose numbers begin with `first`; none: they have no numbers.
    pub(super) fn new(steps: Vec<Step>, first: Option<usize>) -> Self {
        let numbers = (0..).map(|after| first.map(|first| first + after));
        Self {
            left: numbers.zip(steps).collect(),
            ..Self::default()
        }
    }

    /// Goes on, now that nothing is left to do. Some: the fleet was changed, or time has to pass: call it again after this long, once nothing
    /// is left to do. None: nothing follows.
    pub fn next(&mut self, fleet: &Simulated) -> Option<Duration> {
        match self.go_on(fleet) {
            Ok(next) => next,
            Err(error) => {
                self.problem = Some(format!("{error:#}"));
                None
            }
        }
    }

    fn go_on(&mut self, fleet: &Simulated) -> Result<Option<Duration>> {
        let mut is_changed = false;
        while let Some((number, step)) = self.left.front() {
            let called = |number: usize| format!("step {number}");
            let context = || number.map_or_else(|| "the expected objects".to_owned(), called);
            if step.expects() && is_changed {
                break;
            }
            if !step.expects() && !self.differences.is_empty() {
                return Ok(None);
            }
            if let Step::Wait(time) = step {
                let time = *time;
                self.left.pop_front();
                return Ok(Some(time));
            }
            if step.expects() {
                let mut found = step.compare(fleet).with_context(context)?;
                let are_late = matches!(step, Step::ExpectEvents(_)) && !found.is_empty();
                if are_late && self.waited < EVENTS_LATE {
                    self.waited += LOOK;
                    return Ok(Some(LOOK));
                }
                found.iter_mut().for_each(|one| one.step = *number);
                self.differences.extend(found);
            } else {
                step.change(fleet).with_context(context)?;
                is_changed = true;
            }
            self.left.pop_front();
        }
        Ok(is_changed.then_some(Duration::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(File, Vec<Step>)> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("grows.yaml");
        std::fs::write(
            folder.path().join("a.yaml"),
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
        )?;
        std::fs::write(&path, text)?;
        read(&path)
    }

    #[test]
    fn a_step_is_for_all_clusters_or_for_those_that_it_names() {
        let text = "clusters: [eu]\nsteps:\n- apply: [a.yaml]\n- expect: [{kind: X}]\n  in: [eu, local, 'root:blue']\n- wait: 3s\n";
        let (file, steps) = parse(text).unwrap();
        assert_eq!(file.clusters, ["eu"]);
        let [Step::Apply(all), Step::Expect(some), Step::Wait(time)] = &*steps else {
            panic!("{steps:?}");
        };
        assert_eq!(all.everywhere[0]["metadata"]["name"], "a");
        let x = vec![json!({"kind": "X"})];
        assert_eq!(some.clusters["eu"], x);
        assert_eq!(some.local.as_ref(), Some(&x));
        assert_eq!(some.workspaces.as_ref().unwrap()["root:blue"], x);
        assert_eq!(*time, Duration::from_secs(3));
    }

    #[test]
    fn what_is_no_step_is_told_with_its_place() {
        for (text, part) in [
            ("steps:\n- aply: []\n", "grows.yaml:2:3"),
            ("steps:\n- {}\n", "step 1: it says 0 things"),
            (
                "steps:\n- wait: 1s\n- {wait: 1s, apply: []}\n",
                "step 2: it says 2 things",
            ),
            ("steps:\n- apply: [no-such.yaml]\n", "no-such.yaml"),
            ("steps: []\n---\nsteps: []\n", "one document"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
