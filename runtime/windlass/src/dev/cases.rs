//! The cases of `windlass test`: the first objects of a fleet, and the expected ones. Entry point: [`Case::all`].

mod compare;

pub(crate) use compare::Difference;

use crate::config::load::Configuration;
use crate::dev::seed::{LOCAL, Layout, Seed, unreadable};
use crate::dev::simulated::Simulated;
use anyhow::{Context, Result, bail};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One folder of `tests/`.
#[derive(Debug)]
pub(crate) struct Case {
    /// The name of its folder.
    pub(crate) name: String,
    /// `tests/NAME`.
    pub(crate) folder: PathBuf,
    /// The objects that must exist, with at least these fields.
    expect: Layout,
    /// The objects that must not exist.
    absent: Layout,
}

impl Case {
    /// The cases of a project, sorted: the folders of `tests` with `expect` or `absent` in them. With `names`, only these.
    ///
    /// # Errors
    /// When there is no case, or no case of a given name, or a manifest cannot be read.
    pub(crate) fn all(project: &Path, names: &[String]) -> Result<Vec<Self>> {
        let tests = project.join("tests");
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(&tests).into_iter().flatten().flatten() {
            let folder = entry.path();
            if folder.join("expect").is_dir() || folder.join("absent").is_dir() {
                found.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
        if found.is_empty() {
            bail!(
                "{}: there is no test: make tests/NAME/seed with manifests, and tests/NAME/expect with the expected objects",
                project.display()
            );
        }
        if let Some(missing) = names.iter().find(|name| !found.contains(*name)) {
            let found: Vec<String> = found.into_iter().collect();
            bail!(
                "there is no test {missing:?}: there are {}",
                found.join(", ")
            );
        }
        let wanted = |name: &String| names.is_empty() || names.contains(name);
        let cases = found.into_iter().filter(wanted);
        cases.map(|name| Self::read(name, &tests)).collect()
    }

    fn read(name: String, tests: &Path) -> Result<Self> {
        let folder = tests.join(&name);
        let layout = |part: &str| {
            Layout::read(&folder.join(part))
                .map_err(|problems| unreadable(&format!("test {name}"), &problems))
        };
        let (expect, absent) = (layout("expect")?, layout("absent")?);
        if objects(&expect).chain(objects(&absent)).next().is_none() {
            bail!(
                "test {name} expects nothing: put manifests into {}/expect",
                folder.display()
            );
        }
        Ok(Self {
            name,
            folder,
            expect,
            absent,
        })
    }

    /// The configuration file: the case's own, else the project's.
    pub(crate) fn configuration(&self, project: &Path) -> PathBuf {
        let own = self.folder.join("windlass.yaml");
        if own.is_file() {
            own
        } else {
            project.join("windlass.yaml")
        }
    }

    /// The first objects of the fleet. There is a local cluster if the case expects objects in it, or if the documents use it.
    pub(crate) fn seed(&self, configuration: &Configuration) -> Result<Seed> {
        let mut seed = Seed::of(&self.folder.join("seed"), configuration)
            .with_context(|| format!("test {}", self.name))?;
        if self.expect.local.is_some() || self.absent.local.is_some() {
            seed.local.get_or_insert_default();
        }
        let named = self
            .expect
            .clusters
            .keys()
            .chain(self.absent.clusters.keys());
        for cluster in named {
            if !seed.clusters.contains_key(cluster) {
                let clusters: Vec<&str> = seed.clusters.keys().map(String::as_str).collect();
                bail!(
                    "test {} expects something of cluster {cluster:?}, which its seed does not have: it has {}",
                    self.name,
                    clusters.join(", ")
                );
            }
        }
        Ok(seed)
    }

    /// The differences between the fleet and the expected objects.
    ///
    /// # Errors
    /// When a cluster does not serve the kind of an expected object.
    pub(crate) fn differences(&self, fleet: &Simulated) -> Result<Vec<Difference>> {
        let mut differences = Vec::new();
        for (cluster, object) in each(&self.expect, fleet) {
            let found = find(fleet, &cluster, &object)?;
            compare::present(&cluster, &object, found.as_ref(), &mut differences);
        }
        for (cluster, object) in each(&self.absent, fleet) {
            if find(fleet, &cluster, &object)?.is_some() {
                differences.push(compare::unwanted(&cluster, &object));
            }
        }
        Ok(differences)
    }
}

fn objects(layout: &Layout) -> impl Iterator<Item = &Json> {
    let own = layout.clusters.values().flatten();
    let workspaces = layout.workspaces.iter().flatten();
    layout
        .everywhere
        .iter()
        .chain(own)
        .chain(layout.local.iter().flatten())
        .chain(workspaces.flat_map(|(_, objects)| objects))
}

/// Every object with its cluster.
fn each(layout: &Layout, fleet: &Simulated) -> Vec<(String, Json)> {
    let mut all = Vec::new();
    for name in fleet.names() {
        let own = layout.clusters.get(&name).into_iter().flatten();
        let objects = layout.everywhere.iter().chain(own).cloned();
        all.extend(objects.map(|object| (name.clone(), object)));
    }
    let local = layout.local.iter().flatten().cloned();
    all.extend(local.map(|object| (LOCAL.to_owned(), object)));
    for (path, objects) in layout.workspaces.iter().flatten() {
        let objects = objects.iter().cloned();
        all.extend(objects.map(|object| (path.clone(), object)));
    }
    all
}

/// The cluster's object of that kind and name. Without a namespace, the object of a namespaced kind is in `default`.
fn find(fleet: &Simulated, cluster: &str, object: &Json) -> Result<Option<Json>> {
    let server = fleet
        .cluster(cluster)
        .with_context(|| format!("cluster {cluster} is not served"))?;
    let text = |field: &Json| field.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (version, kind, name) = (
        text(&object["apiVersion"]),
        text(&object["kind"]),
        text(&metadata["name"]),
    );
    if name.is_empty() {
        bail!("an expected {kind} has no metadata.name");
    }
    let get = |namespace: &str| {
        server
            .get(&version, &kind, namespace, &name)
            .with_context(|| format!("cluster {cluster}: {kind} {name} is expected"))
    };
    let namespace = text(&metadata["namespace"]);
    match get(&namespace)? {
        None if namespace.is_empty() => get("default"),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

    #[test]
    fn cases_are_the_folders_that_expect_something() {
        let project = tempfile::tempdir().unwrap();
        let said = Case::all(project.path(), &[]).unwrap_err().to_string();
        assert!(said.contains("tests/NAME/expect"), "{said}");
        write(project.path(), "tests/b/expect/a.yaml", MAP);
        write(project.path(), "tests/a/absent/a.yaml", MAP);
        write(project.path(), "tests/common/helper.rs", "");
        let names = |only: &[String]| {
            let cases = Case::all(project.path(), only).unwrap();
            cases.into_iter().map(|case| case.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["a", "b"]);
        assert_eq!(names(&["b".to_owned()]), ["b"]);
        let said = Case::all(project.path(), &["c".to_owned()])
            .unwrap_err()
            .to_string();
        assert!(said.contains("\"c\"") && said.contains("a, b"), "{said}");
    }

    #[test]
    fn nothing_is_expected_of_a_cluster_that_is_not_there() {
        let project = tempfile::tempdir().unwrap();
        write(project.path(), "tests/a/seed/eu/a.yaml", MAP);
        write(project.path(), "tests/a/expect/us/a.yaml", MAP);
        let case = Case::all(project.path(), &[]).unwrap().remove(0);
        let said = case
            .seed(&Configuration::default())
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("\"us\"") && said.contains("it has eu"),
            "{said}"
        );
    }

    #[test]
    fn a_local_cluster_comes_with_what_is_expected_of_it() {
        let project = tempfile::tempdir().unwrap();
        write(project.path(), "tests/a/expect/local/a.yaml", MAP);
        let case = Case::all(project.path(), &[]).unwrap().remove(0);
        assert_eq!(
            case.seed(&Configuration::default()).unwrap().local,
            Some(Vec::new())
        );
        assert_eq!(
            case.configuration(project.path()),
            project.path().join("windlass.yaml")
        );
        write(project.path(), "tests/a/windlass.yaml", "");
        assert_eq!(
            case.configuration(project.path()),
            case.folder.join("windlass.yaml")
        );
    }
}
