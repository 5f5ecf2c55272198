//! Reads a file of steps. Entry point: [`read`].

use super::fault::Fault;
use super::http::HttpAnswer;
use super::steps::{Joins, Place, Step};
use crate::seed::{LOCAL, Layout, objects};
use crate::simulated::{Description, Failure};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_files::{Interval, Problem, Value, split};

/// A file of steps.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct File {
    /// The clusters; by default those of a fleet without a seed. An empty list is none.
    #[serde(default)]
    pub(super) clusters: Option<Vec<String>>,
    /// The documents, if not those of the project. Relative to the file.
    #[serde(default)]
    pub(super) configuration: Option<PathBuf>,
    /// The test whose steps these are, if the file has none of its own.
    #[serde(default)]
    pub(super) case: Option<String>,
    /// Faults under which the steps have to end as they do without.
    #[serde(default)]
    pub(super) faults: Vec<Fault>,
    /// What servers that are no API servers answer.
    #[serde(default)]
    pub(super) http: Vec<HttpAnswer>,
    #[serde(default)]
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
    #[serde(default)]
    join: Option<BTreeMap<String, Joining>>,
    #[serde(default)]
    leave: Option<Vec<String>>,
    /// A label without a value is removed.
    #[serde(default)]
    label: Option<BTreeMap<String, BTreeMap<String, Option<String>>>>,
    #[serde(default)]
    fail: Option<BTreeMap<String, Failure>>,
    #[serde(default)]
    heal: Option<Vec<String>>,
    #[serde(default)]
    clock: Option<Interval>,
}

/// A cluster that joins.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Joining {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    properties: BTreeMap<String, String>,
    #[serde(default)]
    objects: Vec<Manifest>,
}

/// A file of manifests, relative to the file of steps; or one object.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Manifest {
    File(PathBuf),
    Object(Json),
}

/// Reads a file of steps. Objects that the first steps apply come first in the result: they are there when the fleet starts.
///
/// # Errors
/// With file and line, for what cannot be read, and for a step that does not say one thing.
pub(super) fn read(path: &Path) -> Result<(File, Vec<(Place, Step)>)> {
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
    let lines = match node.get("steps").map(|steps| &steps.value) {
        Some(Value::List(items)) => items.iter().map(|item| item.at.line).collect(),
        _ => Vec::new(),
    };
    let places = lines.into_iter().zip(1..).map(|(line, number)| Place {
        number,
        line,
        file: name.clone(),
    });
    let steps: Result<Vec<_>> = fields
        .into_iter()
        .zip(places)
        .map(|(fields, place)| {
            let step = fields.step(folder).with_context(|| place.to_string())?;
            Ok((place, step))
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
            join,
            leave,
            label,
            fail,
            heal,
            clock,
        } = self;
        let names_clusters = [
            join.is_some(),
            leave.is_some(),
            label.is_some(),
            fail.is_some(),
            heal.is_some(),
        ];
        if !clusters.is_empty() && names_clusters.contains(&true) {
            bail!("its clusters are those that it names itself: leave out `in`");
        }
        let layout = |manifests| layout(manifests, &clusters, folder);
        let said = [
            apply.map(|manifests| Ok(Step::Apply(layout(manifests)?))),
            delete.map(|manifests| Ok(Step::Delete(layout(manifests)?))),
            patch_status.map(|manifests| Ok(Step::PatchStatus(layout(manifests)?))),
            expect.map(|manifests| Ok(Step::Expect(layout(manifests)?))),
            absent.map(|manifests| Ok(Step::Absent(layout(manifests)?))),
            expect_events.map(|manifests| Ok(Step::ExpectEvents(layout(manifests)?))),
            wait.map(|wait| Ok(Step::Wait(wait.0))),
            join.map(|clusters| Ok(Step::Join(joining(clusters, folder)?))),
            leave.map(|clusters| Ok(Step::Leave(clusters))),
            label.map(|clusters| Ok(Step::Label(clusters))),
            fail.map(|clusters| Ok(Step::Fail(clusters))),
            heal.map(|clusters| Ok(Step::Heal(clusters))),
            clock.map(|by| Ok(Step::Clock(by.0))),
        ];
        let mut said: Vec<Step> = said.into_iter().flatten().collect::<Result<_>>()?;
        let number = said.len();
        match (said.pop(), number) {
            (Some(step), 1) => Ok(step),
            _ => bail!(
                "it says {number} things: write one of apply, delete, patchStatus, expect, absent, expectEvents, wait, join, leave, label, fail, heal and clock, and a step for each"
            ),
        }
    }
}

/// Whether this names a workspace of kcp.
fn is_workspace(name: &str) -> bool {
    name == "root" || name.starts_with("root:")
}

fn joining(clusters: BTreeMap<String, Joining>, folder: &Path) -> Result<BTreeMap<String, Joins>> {
    let joins = clusters.into_iter().map(|(name, joining)| {
        if name == LOCAL || is_workspace(&name) {
            bail!("{name} is no cluster of the fleet's Providers, which join and leave");
        }
        let Joining {
            labels,
            properties,
            objects,
        } = joining;
        let description = Description { labels, properties };
        let objects = objects_of(objects, folder)?;
        Ok((
            name,
            Joins {
                objects,
                description,
            },
        ))
    });
    joins.collect()
}

fn objects_of(manifests: Vec<Manifest>, folder: &Path) -> Result<Vec<Json>> {
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
    Ok(all)
}

/// Objects for clusters; for all of the fleet if none is named.
fn layout(manifests: Vec<Manifest>, clusters: &[String], folder: &Path) -> Result<Layout> {
    let all = objects_of(manifests, folder)?;
    let mut layout = Layout::default();
    if clusters.is_empty() {
        layout.everywhere = all;
        return Ok(layout);
    }
    for cluster in clusters {
        match &**cluster {
            LOCAL => layout.local = Some(all.clone()),
            path if is_workspace(path) => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn parse(text: &str) -> Result<(File, Vec<(Place, Step)>)> {
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
        assert_eq!(file.clusters.unwrap(), ["eu"]);
        let [
            (_, Step::Apply(all)),
            (_, Step::Expect(some)),
            (at, Step::Wait(time)),
        ] = &*steps
        else {
            panic!("{steps:?}");
        };
        assert_eq!(all.everywhere[0]["metadata"]["name"], "a");
        let x = vec![json!({"kind": "X"})];
        assert_eq!(some.clusters["eu"], x);
        assert_eq!(some.local.as_ref(), Some(&x));
        assert_eq!(some.workspaces.as_ref().unwrap()["root:blue"], x);
        assert_eq!(*time, Duration::from_secs(3));
        assert!(at.to_string().ends_with("grows.yaml:6: step 3"), "{at}");
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
            (
                "steps:\n- join: {eu: {}}\n- {leave: [eu], in: [us]}\n",
                "grows.yaml:3: step 2: its clusters are those that it names",
            ),
            ("steps:\n- join: {local: {}}\n", "local is no cluster"),
            ("steps:\n- fail: {eu: badly}\n", "grows.yaml:2"),
            ("steps: []\n---\nsteps: []\n", "one document"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
