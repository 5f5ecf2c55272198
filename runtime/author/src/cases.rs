//! The cases of `windlass test`: the first objects of a fleet, and what is done and expected then. Entry point: [`Case::all`].

mod compare;
mod fault;
mod file;
mod fleet;
mod http;
mod identity;
mod state;
mod steps;

pub use compare::{Difference, Mismatch, mismatches, shown};
pub use fault::{CallName, Effect, Fault};
pub use http::{HttpAnswer, HttpAnswers};
pub use state::{Noise, State};
pub use steps::{Pause, Place, Script};

use crate::seed::{Asked, Layout, Seed, unreadable};
use anyhow::{Context, Result, bail};
use fleet::objects;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use steps::Step;

/// The file of a project, or of a case, that has its documents.
pub const DOCUMENTS: &str = "windlass.yaml";

/// One test of `tests/`: a folder with what is expected in the end, or a file of steps.
#[derive(Debug, Clone)]
pub struct Case {
    /// The name of its folder, or of its file without the extension.
    pub name: String,
    /// The documents of its own, if it has some.
    configuration: Option<PathBuf>,
    first: First,
    /// Whether the fleet begins without clusters, besides the local one and workspaces.
    no_clusters: bool,
    /// Each with its place, in a file of steps.
    steps: Vec<(Option<Place>, Step)>,
    /// Faults under which it has to end as it does without.
    pub faults: Vec<Fault>,
    /// What servers that are no API servers answer.
    pub http: Vec<HttpAnswer>,
    /// The test whose steps it has, if a file has none of its own.
    of: Option<String>,
}

/// Where the first objects come from.
#[derive(Debug, Clone)]
enum First {
    /// The folder `seed`.
    Folder(PathBuf),
    /// The first steps of a file.
    Steps(Layout),
}

impl Case {
    /// The cases of a project, sorted: the folders of `tests` with `expect` or `absent` in them, and the files of steps. With `names`,
    /// only these.
    ///
    /// # Errors
    /// When there is no case, or no case of a given name, or one cannot be read.
    pub fn all(project: &Path, names: &[String]) -> Result<Vec<Self>> {
        let found = Self::found(project)?;
        if found.is_empty() {
            bail!(
                "{}: there is no test: make tests/NAME/seed with manifests, and tests/NAME/expect with the expected objects; or tests/NAME.yaml with steps",
                project.display()
            );
        }
        if let Some(missing) = names.iter().find(|name| !found.contains_key(*name)) {
            let found: Vec<String> = found.into_keys().collect();
            bail!(
                "there is no test {missing:?}: there are {}",
                found.join(", ")
            );
        }
        let wanted = |(name, _): &(String, PathBuf)| names.is_empty() || names.contains(name);
        let cases = found.clone().into_iter().filter(wanted);
        cases
            .map(|(name, path)| Self::of_path(name, &path)?.with_steps(&found))
            .collect()
    }

    /// Whether a project has cases.
    #[must_use]
    pub fn exist(project: &Path) -> bool {
        // A project in which two cases have one name has cases: `all` refuses them.
        Self::found(project).map_or(true, |found| !found.is_empty())
    }

    /// The paths of the cases, by name.
    fn found(project: &Path) -> Result<BTreeMap<String, PathBuf>> {
        let tests = project.join("tests");
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(&tests).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_folder = path.join("expect").is_dir() || path.join("absent").is_dir();
            let is_file = path
                .extension()
                .is_some_and(|end| end == "yaml" || end == "yml");
            let Some(name) = path.file_stem().filter(|_| is_folder || is_file) else {
                continue;
            };
            let name = if is_folder {
                entry.file_name().to_string_lossy().into_owned()
            } else {
                name.to_string_lossy().into_owned()
            };
            if let Some(other) = found.insert(name.clone(), path.clone()) {
                bail!(
                    "{} and {} are both the test {name}: rename one",
                    other.display(),
                    path.display()
                );
            }
        }
        Ok(found)
    }

    fn of_path(name: String, path: &Path) -> Result<Self> {
        if path.is_dir() {
            Self::of_folder(name, path)
        } else {
            Self::of_file(name, path)
        }
    }

    /// With the steps of the test that it names, if it names one of these.
    fn with_steps(self, tests: &BTreeMap<String, PathBuf>) -> Result<Self> {
        let Some(of) = &self.of else {
            return Ok(self);
        };
        let Some(path) = tests.get(of) else {
            bail!(
                "test {}: there is no test {of:?}, whose steps it asks for by `case`",
                self.name
            );
        };
        let other = Self::of_path(of.clone(), path)?;
        if other.of.is_some() {
            bail!(
                "test {}: the test {of} has no steps of its own: name the one that has them in `case`",
                self.name
            );
        }
        Ok(Self {
            name: self.name,
            faults: self.faults,
            of: self.of,
            ..other
        })
    }

    fn of_folder(name: String, folder: &Path) -> Result<Self> {
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
        let own = folder.join(DOCUMENTS);
        Ok(Self {
            name,
            configuration: own.is_file().then_some(own),
            no_clusters: false,
            first: First::Folder(folder.join("seed")),
            steps: vec![(None, Step::Expect(expect)), (None, Step::Absent(absent))],
            faults: Vec::new(),
            http: HttpAnswer::of_folder(folder)?,
            of: None,
        })
    }

    fn of_file(name: String, path: &Path) -> Result<Self> {
        let (file, steps) = file::read(path)?;
        if let Some(of) = file.case {
            return Self::of_faults(name, path, of, file.faults, &steps);
        }
        if !steps.iter().any(|(_, step)| step.expects()) {
            bail!(
                "{}: it expects nothing: add a step expect, absent or expectEvents",
                path.display()
            );
        }
        let mut first = Layout::default();
        let none = file.clusters.as_ref().is_some_and(Vec::is_empty);
        for cluster in file.clusters.into_iter().flatten() {
            first.clusters.insert(cluster, Vec::new());
        }
        let mut steps = steps.into_iter().peekable();
        let applies = |(_, step): &(Place, Step)| matches!(step, Step::Apply(_));
        while let Some((_, Step::Apply(layout))) = steps.next_if(applies) {
            first.add(layout);
        }
        let placed = steps.map(|(place, step)| (Some(place), step));
        let folder = path.parent().unwrap_or(Path::new("."));
        Ok(Self {
            name,
            configuration: file.configuration.map(|own| folder.join(own)),
            no_clusters: none && first.clusters.is_empty(),
            first: First::Steps(first),
            steps: placed.collect(),
            faults: file.faults,
            http: file.http,
            of: None,
        })
    }

    /// A file that has faults for the steps of another test.
    fn of_faults(
        name: String,
        path: &Path,
        of: String,
        faults: Vec<Fault>,
        steps: &[(Place, Step)],
    ) -> Result<Self> {
        if faults.is_empty() || !steps.is_empty() {
            bail!(
                "{}: with `case`, which is the test whose steps it has, write `faults` and no steps",
                path.display()
            );
        }
        Ok(Self {
            name,
            configuration: None,
            first: First::Steps(Layout::default()),
            no_clusters: false,
            steps: Vec::new(),
            faults,
            http: Vec::new(),
            of: Some(of),
        })
    }

    /// The test that has its steps: itself, unless it is one of faults alone.
    #[must_use]
    pub fn steps_of(&self) -> &str {
        self.of.as_deref().unwrap_or(&self.name)
    }

    /// The configuration file: the case's own, else the project's.
    pub fn configuration(&self, project: &Path) -> PathBuf {
        let own = self.configuration.clone();
        own.unwrap_or_else(|| project.join(DOCUMENTS))
    }

    /// The first objects of the fleet. There is a local cluster if a step is about it, or if the documents ask for it.
    ///
    /// # Errors
    /// When the seed cannot be read, or a step is about a cluster that is not there.
    pub fn seed(&self, asked: Asked) -> Result<Seed> {
        let seed = match &self.first {
            First::Folder(folder) => Seed::of(folder, asked),
            First::Steps(layout) => Seed::from(layout.clone()).suited(asked),
        };
        let mut seed = seed.with_context(|| format!("test {}", self.name))?;
        if self.no_clusters {
            seed.clusters.clear();
        }
        // Those that have left are looked at too.
        let mut known: BTreeSet<&String> = seed.clusters.keys().collect();
        for (place, step) in &self.steps {
            if step.layout().is_some_and(|layout| layout.local.is_some()) {
                seed.local.get_or_insert_default();
            }
            if let Step::Join(clusters) = step {
                known.extend(clusters.keys());
            }
            for cluster in step.members() {
                if !known.contains(cluster) {
                    let clusters: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
                    let place = place.as_ref().map(|place| format!("{place}: "));
                    bail!(
                        "{}test {} names the cluster {cluster:?} in a step, which is not one for it: there are {}",
                        place.unwrap_or_default(),
                        self.name,
                        clusters.join(", ")
                    );
                }
            }
        }
        Ok(seed)
    }

    /// What is done and expected once the first objects are reconciled.
    pub fn script(&self) -> Script {
        let everywhere = match &self.first {
            First::Steps(layout) => layout.everywhere.clone(),
            // Such a case has no steps in which a cluster joins.
            First::Folder(_) => Vec::new(),
        };
        Script::new(self.steps.clone(), everywhere)
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
        write(
            project.path(),
            "tests/c.yaml",
            "steps: [{absent: [{kind: X}]}]",
        );
        let names = |only: &[String]| {
            let cases = Case::all(project.path(), only).unwrap();
            cases.into_iter().map(|case| case.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["a", "b", "c"]);
        assert_eq!(names(&["b".to_owned()]), ["b"]);
        let said = Case::all(project.path(), &["d".to_owned()])
            .unwrap_err()
            .to_string();
        assert!(said.contains("\"d\"") && said.contains("a, b, c"), "{said}");
    }

    #[test]
    fn nothing_is_expected_of_a_cluster_that_is_not_there() {
        let project = tempfile::tempdir().unwrap();
        write(project.path(), "tests/a/seed/eu/a.yaml", MAP);
        write(project.path(), "tests/a/expect/us/a.yaml", MAP);
        let case = Case::all(project.path(), &[]).unwrap().remove(0);
        let said = case.seed(Asked::default()).unwrap_err().to_string();
        assert!(
            said.contains("\"us\"") && said.contains("there are eu"),
            "{said}"
        );
    }

    #[test]
    fn an_empty_list_of_clusters_is_none_and_no_list_is_the_usual_ones() {
        let project = tempfile::tempdir().unwrap();
        for (clusters, count) in [("", 3), ("clusters: []\n", 0), ("clusters: [eu]\n", 1)] {
            let text = format!("{clusters}steps: [{{absent: [{{kind: X}}]}}]");
            write(project.path(), "tests/a.yaml", &text);
            let case = Case::all(project.path(), &[]).unwrap().remove(0);
            let seed = case.seed(Asked::default()).unwrap();
            assert_eq!(seed.clusters.len(), count, "{clusters}");
            assert!(!seed.closed, "others may join");
        }
    }

    #[test]
    fn a_local_cluster_comes_with_what_is_expected_of_it() {
        let project = tempfile::tempdir().unwrap();
        write(project.path(), "tests/a/expect/local/a.yaml", MAP);
        let case = Case::all(project.path(), &[]).unwrap().remove(0);
        assert_eq!(case.seed(Asked::default()).unwrap().local, Some(Vec::new()));
        assert_eq!(
            case.configuration(project.path()),
            project.path().join("windlass.yaml")
        );
        write(project.path(), "tests/a/windlass.yaml", "");
        let case = Case::all(project.path(), &[]).unwrap().remove(0);
        assert_eq!(
            case.configuration(project.path()),
            project.path().join("tests/a/windlass.yaml")
        );
    }
}
