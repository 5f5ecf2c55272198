//! The first objects of the in-memory fleet of `dev` and `test`. Entry points: [`Seed::of`] and [`Layout::read`].

use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_files::{Node, Part, Problem, Value, split};

/// The folder of the local cluster's manifests.
pub const LOCAL: &str = "local";

/// The folder of the manifests of a kcp: its own are for the workspace `root`, those of a folder in it for the workspace of its name
/// below that, and so on.
const KCP: &str = "kcp";

/// The path of the workspace that all others are below.
const ROOT: &str = "root";

/// The clusters of a fleet without folders.
const DEFAULT_CLUSTERS: [&str; 3] = ["alpha", "beta", "gamma"];

/// Clusters and their first objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seed {
    /// The fleet's clusters by name, each with its objects in the order in which they are created.
    pub(crate) clusters: BTreeMap<String, Vec<Json>>,
    /// The local cluster's objects, if `seed/local` exists.
    pub(crate) local: Option<Vec<Json>>,
    /// The objects of a kcp's workspaces by path, in the order of files, if there is a kcp.
    pub(crate) workspaces: Option<Workspaces>,
    /// Whether no Provider finds clusters, so that none can join.
    pub(crate) closed: bool,
}

/// What documents ask for beside the objects of a seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// A local cluster.
    pub local: bool,
    /// A kcp, for a Provider of workspaces.
    pub kcp: bool,
    /// No cluster but the local one and workspaces.
    pub no_clusters: bool,
}

/// Objects by the path of their workspace.
pub(crate) type Workspaces = BTreeMap<String, Vec<Json>>;

impl Seed {
    /// Whether there is a kcp with workspaces.
    #[must_use]
    pub fn has_workspaces(&self) -> bool {
        self.workspaces.is_some()
    }

    /// Reads the manifests of `folder`, which may be absent. Those in it go to each of the fleet's clusters, those in a
    /// subfolder to the cluster of its name, those in `local` to the local cluster, those in `kcp` to workspaces.
    /// CustomResourceDefinitions come first, then Namespaces, then the rest in the order of files.
    ///
    /// # Errors
    /// Lists every manifest that cannot be read.
    pub(crate) fn read(folder: &Path) -> Result<Self, Vec<Problem>> {
        Ok(Self::from(Layout::read(folder)?))
    }

    /// The manifests of `folder`, which may be absent, in the order in which they are created, with what the documents ask for.
    ///
    /// # Errors
    /// Lists every manifest that cannot be read, in one message. Also when there are workspaces, and no document uses them.
    pub fn of(folder: &Path, asked: Asked) -> anyhow::Result<Self> {
        let seed = Self::read(folder).map_err(|problems| unreadable("the seed", &problems))?;
        seed.suited(asked)
    }

    /// With what the documents ask for: an empty local cluster and an empty kcp unless the seed has one, and no other cluster if they have
    /// no other.
    ///
    /// # Errors
    /// When there are workspaces, and no document uses them.
    pub(crate) fn suited(mut self, asked: Asked) -> anyhow::Result<Self> {
        if asked.kcp {
            self.workspaces.get_or_insert_default();
        } else if self.workspaces.is_some() {
            anyhow::bail!(
                "the folder {KCP} is for the workspaces of a Provider of kind kcp, and there is none: rename the folder, or add the Provider"
            );
        }
        if asked.local {
            self.local.get_or_insert_default();
        }
        if asked.no_clusters {
            self.closed = true;
            self.clusters.clear();
        }
        Ok(self)
    }
}

impl From<Layout> for Seed {
    fn from(layout: Layout) -> Self {
        let Layout {
            everywhere,
            mut clusters,
            local,
            workspaces,
        } = layout;
        if clusters.is_empty() {
            clusters = DEFAULT_CLUSTERS
                .map(|name| (name.to_owned(), Vec::new()))
                .into();
        }
        for own in clusters.values_mut() {
            *own = ordered(everywhere.iter().chain(own.iter()).cloned().collect());
        }
        Self {
            clusters,
            local: local.map(ordered),
            workspaces,
            closed: false,
        }
    }
}

/// Manifests by cluster, as a folder has them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layout {
    /// Of the folder itself: for each of the fleet's clusters.
    pub everywhere: Vec<Json>,
    /// Of its subfolders: for the cluster of each one's name.
    pub clusters: BTreeMap<String, Vec<Json>>,
    /// Of the subfolder `local`, if there is one.
    pub local: Option<Vec<Json>>,
    /// Of the subfolder `kcp`, if there is one.
    pub workspaces: Option<Workspaces>,
}

impl Layout {
    /// Adds the objects of another one after its own.
    pub(crate) fn add(&mut self, other: Self) {
        self.everywhere.extend(other.everywhere);
        for (name, objects) in other.clusters {
            self.clusters.entry(name).or_default().extend(objects);
        }
        if let Some(objects) = other.local {
            self.local.get_or_insert_default().extend(objects);
        }
        for (path, objects) in other.workspaces.into_iter().flatten() {
            let workspaces = self.workspaces.get_or_insert_default();
            workspaces.entry(path).or_default().extend(objects);
        }
    }

    /// Reads a folder, which may be absent.
    ///
    /// # Errors
    /// Lists every manifest that cannot be read.
    pub fn read(folder: &Path) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let (files, folders) = entries(folder, &mut problems);
        let mut layout = Self {
            everywhere: objects(&files, &mut problems),
            ..Self::default()
        };
        for subfolder in folders {
            let name = subfolder
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            if name == KCP {
                let workspaces = layout.workspaces.get_or_insert_default();
                read_workspace(&subfolder, ROOT, 0, workspaces, &mut problems);
                continue;
            }
            let (files, nested) = entries(&subfolder, &mut problems);
            for folder in nested {
                let file: Arc<str> = folder.to_string_lossy().into();
                problems.push(Problem::of_file(
                    &file,
                    "folders in a cluster's folder are not read: move the manifests up",
                ));
            }
            let own = objects(&files, &mut problems);
            if name == LOCAL {
                layout.local = Some(own);
            } else {
                layout.clusters.insert(name, own);
            }
        }
        if problems.is_empty() {
            Ok(layout)
        } else {
            Err(problems)
        }
    }
}

/// How many folders of workspaces may lie in each other.
const DEEPEST: usize = 16;

/// Reads the folder of a workspace, and those of the workspaces below it. A folder without manifests and with folders in it is only
/// the way to these.
fn read_workspace(
    folder: &Path,
    path: &str,
    depth: usize,
    workspaces: &mut Workspaces,
    problems: &mut Vec<Problem>,
) {
    let (files, below) = entries(folder, problems);
    if depth == DEEPEST {
        let file: Arc<str> = folder.to_string_lossy().into();
        problems.push(Problem::of_file(
            &file,
            format!("the folder is {DEEPEST} workspaces deep: move it up"),
        ));
        return;
    }
    if !files.is_empty() || below.is_empty() {
        workspaces.insert(path.to_owned(), objects(&files, problems));
    }
    for folder in below {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let path = format!("{path}:{name}");
        read_workspace(&folder, &path, depth + 1, workspaces, problems);
    }
}

/// All problems of manifests in one error.
pub fn unreadable(what: &str, problems: &[Problem]) -> anyhow::Error {
    let said: Vec<String> = problems
        .iter()
        .map(|problem| format!("\n  {problem}"))
        .collect();
    anyhow::anyhow!("{what} cannot be read{}", said.concat())
}

/// The manifests and the subfolders of a folder, each sorted. A folder that does not exist has none.
fn entries(folder: &Path, problems: &mut Vec<Problem>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let name: Arc<str> = folder.to_string_lossy().into();
    let listing = match std::fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return (Vec::new(), Vec::new());
        }
        Err(error) => {
            problems.push(Problem::of_file(
                &name,
                format!("cannot list the folder: {error}"),
            ));
            return (Vec::new(), Vec::new());
        }
    };
    let visible = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| !name.to_string_lossy().starts_with('.'))
    };
    let mut paths: Vec<PathBuf> = listing
        .flatten()
        .map(|entry| entry.path())
        .filter(visible)
        .collect();
    paths.sort();
    let (folders, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    let manifest = |path: &PathBuf| {
        path.extension()
            .is_some_and(|e| e == "yaml" || e == "yml" || e == "json")
    };
    (files.into_iter().filter(manifest).collect(), folders)
}

/// The objects in files.
pub fn objects(files: &[PathBuf], problems: &mut Vec<Problem>) -> Vec<Json> {
    let mut objects = Vec::new();
    for path in files {
        let file: Arc<str> = path.to_string_lossy().into();
        match std::fs::read_to_string(path) {
            Ok(text) => {
                for part in split(&text) {
                    read_objects(&file, &part, &mut objects, problems);
                }
            }
            Err(error) => {
                problems.push(Problem::of_file(&file, format!("cannot be read: {error}")))
            }
        }
    }
    objects
}

/// The documents of files with their fields in the order of the text; those of a list, one by one.
///
/// # Errors
/// The first file that cannot be read.
pub fn documents(files: &[PathBuf]) -> Result<Vec<Node>, Problem> {
    let mut documents = Vec::new();
    for path in files {
        let file: Arc<str> = path.to_string_lossy().into();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Problem::of_file(&file, format!("cannot be read: {error}")))?;
        for part in split(&text) {
            documents.extend(listed(part.parse(&file)?));
        }
    }
    Ok(documents)
}

/// A document, or those of a list.
fn listed(document: Node) -> Vec<Node> {
    let is_list = document.get("kind").and_then(Node::as_text) == Some("List");
    let items = document.get("items").filter(|_| is_list);
    match items.map(|items| &items.value) {
        Some(Value::List(items)) => items.clone(),
        _ => vec![document],
    }
}

/// The objects of a document: itself, or those of a list.
pub(crate) fn read_objects(
    file: &Arc<str>,
    part: &Part<'_>,
    objects: &mut Vec<Json>,
    problems: &mut Vec<Problem>,
) {
    let node = match part.parse(file) {
        Ok(node) => node,
        Err(problem) => {
            problems.push(problem);
            return;
        }
    };
    let at = node.at;
    let object: Json = match node.decode() {
        Ok(object) => object,
        Err(error) => {
            problems.push(Problem::at(
                file,
                error.at.unwrap_or(at),
                error.message("the manifest"),
            ));
            return;
        }
    };
    match (object["kind"].as_str(), &object["items"]) {
        (Some("List"), Json::Array(items)) => objects.extend(items.iter().cloned()),
        (Some(_), _) if object["apiVersion"].is_string() => objects.push(object),
        _ => problems.push(Problem::at(
            file,
            at,
            "this is no manifest: it needs apiVersion and kind",
        )),
    }
}

/// What other objects need comes first.
pub(crate) fn ordered(mut objects: Vec<Json>) -> Vec<Json> {
    objects.sort_by_key(|object| match object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    });
    objects
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(objects: &[Json]) -> Vec<&str> {
        objects
            .iter()
            .filter_map(|object| object["metadata"]["name"].as_str())
            .collect()
    }

    fn manifest(kind: &str, name: &str) -> String {
        format!("---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n")
    }

    #[test]
    fn without_folders_there_are_three_clusters_alike() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.yaml"), manifest("ConfigMap", "a")).unwrap();
        let seed = Seed::read(folder.path()).unwrap();
        assert_eq!(
            seed.clusters.keys().collect::<Vec<_>>(),
            ["alpha", "beta", "gamma"]
        );
        assert!(
            seed.clusters
                .values()
                .all(|objects| names(objects) == ["a"])
                && seed.local.is_none()
        );
        assert_eq!(
            Seed::read(&folder.path().join("nope"))
                .unwrap()
                .clusters
                .len(),
            3
        );
    }

    #[test]
    fn folders_are_clusters_and_what_others_need_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["eu", "us", "local"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(
            folder.path().join("all.yaml"),
            manifest("ConfigMap", "shared"),
        )
        .unwrap();
        let own = [
            manifest("Widget", "w"),
            manifest("Namespace", "n"),
            manifest("CustomResourceDefinition", "d"),
        ]
        .concat();
        fs::write(folder.path().join("eu/own.yaml"), own).unwrap();
        fs::write(
            folder.path().join("local/hub.yaml"),
            manifest("ConfigMap", "hub"),
        )
        .unwrap();
        let seed = Seed::read(folder.path()).unwrap();
        assert_eq!(names(&seed.clusters["eu"]), ["d", "n", "shared", "w"]);
        assert_eq!(names(&seed.clusters["us"]), ["shared"]);
        assert_eq!(names(seed.local.as_ref().unwrap()), ["hub"]);
    }

    #[test]
    fn folders_in_kcp_are_workspaces() {
        let folder = tempfile::tempdir().unwrap();
        for (file, name) in [
            ("kcp/provider/a.yaml", "export"),
            ("kcp/consumers/blue/a.yaml", "blue"),
            ("kcp/consumers/blue/deep/a.yaml", "deep"),
        ] {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, manifest("ConfigMap", name)).unwrap();
        }
        fs::create_dir(folder.path().join("kcp/empty")).unwrap();
        let seed = Seed::read(folder.path()).unwrap();
        let workspaces: Vec<(&str, Vec<&str>)> = seed
            .workspaces
            .iter()
            .flatten()
            .map(|(path, objects)| (path.as_str(), names(objects)))
            .collect();
        assert_eq!(
            workspaces,
            [
                ("root:consumers:blue", vec!["blue"]),
                ("root:consumers:blue:deep", vec!["deep"]),
                ("root:empty", vec![]),
                ("root:provider", vec!["export"]),
            ]
        );
        let none = Asked::default();
        let said = Seed::of(folder.path(), none).unwrap_err().to_string();
        assert!(said.contains("add the Provider"), "{said}");
    }

    #[test]
    fn a_list_stands_for_its_items_and_what_is_no_manifest_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n";
        fs::write(folder.path().join("a.yaml"), list).unwrap();
        assert_eq!(
            names(&Seed::read(folder.path()).unwrap().clusters["alpha"]),
            ["x"]
        );
        fs::write(folder.path().join("b.yaml"), "hello: world\n---\nx: [\n").unwrap();
        let problems = Seed::read(folder.path()).unwrap_err();
        assert_eq!(problems.len(), 2);
        assert!(
            problems[0]
                .to_string()
                .ends_with("b.yaml:1:1: this is no manifest: it needs apiVersion and kind")
        );
    }
}
