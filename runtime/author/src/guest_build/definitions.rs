//! The CustomResourceDefinitions that a guest's own types describe. Entry point: [`definitions`].
//!
//! In Rust the package has an example `crds` that prints them, in Go controller-gen makes them of markers. In the other languages the definitions
//! come first, and `windlass types` makes the types.

use super::source::Source;
use super::tool::Tool;
use super::{BuildError, Language, cargo, go, io_error};
use crate::seed::read_objects;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use windlass_files::{Problem, split};

/// The time for a project's tool, which may have to build much.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// The example of a package in Rust.
const EXAMPLE: &str = "crds";

/// The marker without which controller-gen knows no group.
const GROUP: &str = "+groupName=";

/// The program that makes definitions of Go's markers, and its version unless go.mod names one.
const CONTROLLER_GEN: &str = "sigs.k8s.io/controller-tools/cmd/controller-gen";
const CONTROLLER_GEN_VERSION: &str = "v0.23.0";

/// How many folders may lie in each other.
const DEEPEST: usize = 16;

/// Why there are no definitions.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionsError {
    /// The folder is no guest, or its tool failed.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The language has no way from types to definitions.
    #[error(
        "{folder}: in {language} definitions come first: write the CustomResourceDefinition, and windlass types FILE writes the types"
    )]
    DefinitionsFirst {
        /// The guest.
        folder: PathBuf,
        /// Its language.
        language: Language,
    },
    /// The project does not say that it has definitions.
    #[error(
        "{folder}: the guest describes no definitions: {remedy} (the recipe \"A CRD from your types\" shows both)"
    )]
    NotDescribed {
        /// The guest.
        folder: PathBuf,
        /// What to add.
        remedy: &'static str,
    },
    /// The tool takes too long.
    #[error("{0}: the definitions are not there after {limit} minutes: see what its tool waits for", limit = LONGEST.as_secs() / 60)]
    TooLong(PathBuf),
    /// The output is not what it should be.
    #[error("{folder}: what is printed for its definitions is not valid: {why}")]
    Output {
        /// The guest.
        folder: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// The definitions that the types in `folder` describe, sorted by name. Prints the command that it runs on standard error.
///
/// # Errors
/// When the language or the project has none, its tool fails, or prints something else.
pub async fn definitions(folder: &Path) -> Result<Vec<Json>, DefinitionsError> {
    let printed = tokio::time::timeout(LONGEST, tool(folder)?.output());
    let printed = printed
        .await
        .map_err(|_| DefinitionsError::TooLong(folder.to_owned()))?;
    read(&printed?).map_err(|why| DefinitionsError::Output {
        folder: folder.to_owned(),
        why,
    })
}

/// What prints the definitions.
fn tool(folder: &Path) -> Result<Tool, DefinitionsError> {
    let source = Source::of(folder)?;
    let language = source.language;
    let remedy = match language {
        Language::Rust if has_example(&source.guest)? => return Ok(of_rust(&source.guest)),
        Language::Go if has_marker(&source.package, 0) => return Ok(of_go(&source.package)?),
        Language::Rust => "write examples/crds.rs, which prints them as YAML or JSON",
        Language::Go => {
            "write +groupName=GROUP and +versionName=VERSION above the package of its types"
        }
        Language::JavaScript | Language::Python | Language::C => {
            return Err(DefinitionsError::DefinitionsFirst {
                folder: folder.to_owned(),
                language,
            });
        }
    };
    Err(DefinitionsError::NotDescribed {
        folder: folder.to_owned(),
        remedy,
    })
}

fn of_rust(folder: &Path) -> Tool {
    cargo::tool("cargo", folder, cargo::RUST).args(["run", "--quiet", "--example", EXAMPLE])
}

/// The version of go.mod is the project's own choice.
fn of_go(folder: &Path) -> Result<Tool, BuildError> {
    let file = folder.join(Language::Go.marker());
    let module = std::fs::read_to_string(&file).map_err(io_error(&file))?;
    let tool = go::go(folder).without_env("GOOS").without_env("GOARCH");
    let tool = if module.contains(CONTROLLER_GEN) {
        tool.args(["tool", "controller-gen"])
    } else {
        tool.arg("run")
            .arg(format!("{CONTROLLER_GEN}@{CONTROLLER_GEN_VERSION}"))
    };
    Ok(tool.args(["crd", "paths=./...", "output:crd:stdout"]))
}

/// The parts of Cargo.toml that matter here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Manifest {
    example: Vec<Example>,
}

#[derive(Deserialize)]
struct Example {
    name: String,
}

fn has_example(folder: &Path) -> Result<bool, BuildError> {
    let examples = folder.join("examples");
    let is_found = examples.join(format!("{EXAMPLE}.rs")).is_file()
        || examples.join(EXAMPLE).join("main.rs").is_file();
    if is_found {
        return Ok(true);
    }
    let manifest: Manifest = super::settings::read_toml(&folder.join("Cargo.toml"))?;
    Ok(manifest.example.iter().any(|one| one.name == EXAMPLE))
}

/// Whether a file of the module has the marker. A folder with a go.mod is another module.
fn has_marker(folder: &Path, depth: usize) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            let is_other = name.starts_with(['.', '_'])
                || name == "vendor"
                || path.join(Language::Go.marker()).is_file();
            return !is_other && depth < DEEPEST && has_marker(&path, depth + 1);
        }
        let is_marker = |line: &str| {
            let comment = line.trim_start().strip_prefix("//");
            comment.is_some_and(|comment| comment.trim_start().starts_with(GROUP))
        };
        name.ends_with(".go")
            && std::fs::read_to_string(&path).is_ok_and(|text| text.lines().any(is_marker))
    })
}

/// The definitions in a tool's output: documents of YAML, or values of JSON one after another.
fn read(text: &str) -> Result<Vec<Json>, String> {
    let mut definitions = documents(text)?;
    let mut names = BTreeSet::new();
    for one in &definitions {
        let name = match one["metadata"]["name"].as_str() {
            Some(name) if one["kind"] == "CustomResourceDefinition" => name,
            _ => {
                return Err(format!(
                    "there is a {} among it, which is no CustomResourceDefinition with a name",
                    one["kind"].as_str().unwrap_or("document")
                ));
            }
        };
        if !is_file_name(name) {
            return Err(format!("{name:?} is no name of a CustomResourceDefinition"));
        }
        if !names.insert(name) {
            return Err(format!(
                "{name} is there twice: merge its versions into one"
            ));
        }
    }
    if definitions.is_empty() {
        return Err("there is no CustomResourceDefinition in it".to_owned());
    }
    definitions.sort_by(|one, other| {
        let name = |it: &Json| it["metadata"]["name"].as_str().map(str::to_owned);
        name(one).cmp(&name(other))
    });
    Ok(definitions)
}

/// Whether a name is one of the API, and so can be a part of a file's name.
fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

fn documents(text: &str) -> Result<Vec<Json>, String> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    if let Ok(values) = values.collect::<Result<Vec<Json>, _>>() {
        let lists = values.into_iter().map(|value| match value {
            Json::Array(items) => items,
            mut list if list["kind"] == "List" => match list["items"].take() {
                Json::Array(items) => items,
                _ => Vec::new(),
            },
            one => vec![one],
        });
        return Ok(lists.flatten().collect());
    }
    let (mut objects, mut problems): (_, Vec<Problem>) = (Vec::new(), Vec::new());
    let file: Arc<str> = "standard output".into();
    for part in split(text) {
        read_objects(&file, &part, &mut objects, &mut problems);
    }
    match problems.first() {
        Some(problem) => Err(problem.to_string()),
        None => Ok(objects),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(name: &str) -> Json {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}})
    }

    #[test]
    fn definitions_are_yaml_or_json() {
        let (a, b) = (definition("as.x.dev"), definition("bs.x.dev"));
        let yaml = serde_saphyr::to_string_multiple(&[&b, &a]).unwrap();
        for text in [
            yaml,
            format!("{b}\n{a}\n"),
            json!([b, a]).to_string(),
            json!({"apiVersion": "v1", "kind": "List", "items": [b, a]}).to_string(),
        ] {
            assert_eq!(read(&text).unwrap(), [a.clone(), b.clone()], "{text}");
        }
    }

    #[test]
    fn other_output_is_refused() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let twice = format!("{0}{0}", definition("as.x.dev"));
        for (text, part) in [
            (String::new(), "no CustomResourceDefinition in it"),
            (map.to_string(), "a ConfigMap"),
            (twice, "as.x.dev is there twice"),
            (definition("../as").to_string(), "no name"),
            ("hello".to_owned(), "standard output:1:1"),
        ] {
            let said = read(&text).unwrap_err();
            assert!(said.contains(part), "{part} in {said}");
        }
    }

    #[test]
    fn a_project_says_that_it_has_definitions() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let has = || match tool(folder.path()) {
            Ok(_) => true,
            Err(DefinitionsError::NotDescribed { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        write("Cargo.toml", "[package]\nname = \"a\"\n");
        assert!(!has());
        write(
            "Cargo.toml",
            "[[example]]\nname = \"crds\"\npath = \"x.rs\"\n",
        );
        assert!(has());
        write("Cargo.toml", "");
        write("examples/crds.rs", "");
        assert!(has());
        std::fs::remove_file(folder.path().join("Cargo.toml")).unwrap();
        write("go.mod", "module a\n");
        write("sdk/go.mod", "module sdk\n");
        write("sdk/a.go", "// +groupName=x.dev\npackage a\n");
        write("main.go", "package main\n\nvar a = \"+groupName=x.dev\"\n");
        assert!(!has());
        write(
            "api/v1/a.go",
            "// Package v1.\n//\n// +groupName=x.dev\npackage v1\n",
        );
        assert!(has());
    }

    #[tokio::test]
    async fn a_language_without_a_way_is_told() {
        for (marker, part) in [
            ("package.json", "windlass types FILE"),
            ("pyproject.toml", "windlass types FILE"),
            ("guest.c", "windlass types FILE"),
            ("go.mod", "+groupName=GROUP"),
            ("Cargo.toml", "examples/crds.rs"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(marker), "").unwrap();
            let said = definitions(folder.path()).await.unwrap_err().to_string();
            assert!(said.contains(part), "{part} in {said}");
        }
    }

    #[test]
    fn the_version_of_the_project_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("go.mod");
        std::fs::write(&file, "module a\n").unwrap();
        let pinned = format!("go run {CONTROLLER_GEN}@{CONTROLLER_GEN_VERSION} crd");
        assert!(of_go(folder.path()).unwrap().line().starts_with(&pinned));
        std::fs::write(&file, format!("module a\n\ntool {CONTROLLER_GEN}\n")).unwrap();
        let own = "go tool controller-gen crd paths=./... output:crd:stdout";
        assert_eq!(of_go(folder.path()).unwrap().line(), own);
    }
}
