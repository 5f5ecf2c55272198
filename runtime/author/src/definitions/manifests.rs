//! The definitions in a project's manifests. Entry points: [`Manifest::all`] and [`write()`].
//!
//! They stand in the project's own folder, in `crds`, in `seed` and in `tests`, each as a document of its own. Other documents of a file stay
//! byte for byte.

use super::{differences, name, walk};
use serde_json::Value as Json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_files::{Node, Part, replace, split};

/// The folder of definitions that stand nowhere yet.
const FOLDER: &str = "crds";

/// The folders of manifests.
const FOLDERS: [&str; 3] = [FOLDER, "seed", "tests"];

/// The extensions of manifests.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

const KIND: &str = "CustomResourceDefinition";

/// Why manifests cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file with a definition is not valid.
    #[error("{0}")]
    Invalid(String),
    /// A definition cannot be turned into text.
    #[error("{name} cannot be written as text")]
    Text {
        /// The definition.
        name: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file could not be read or written.
    #[error("{path} cannot be read or written")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A definition in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The file.
    pub file: PathBuf,
    /// The document.
    pub document: Json,
    /// The document with its fields in the order of the text.
    pub(super) node: Node,
}

impl Manifest {
    /// The definitions in the manifests of `folder`, sorted by file.
    ///
    /// # Errors
    /// When a file that has definitions cannot be read, or is not valid.
    pub fn all(folder: &Path) -> Result<Vec<Self>, ManifestError> {
        let mut all = Vec::new();
        for file in files(folder) {
            let text = read(&file)?;
            for (_, document, node) in documents(&file, &text)? {
                let file = file.clone();
                all.push(Self {
                    file,
                    document,
                    node,
                });
            }
        }
        Ok(all)
    }
}

/// Puts definitions into the manifests of `folder`, in place of those of the same names; those that are not there get files in `crds`. What is
/// equal is not written. Returns the files that it wrote.
///
/// # Errors
/// When a file cannot be read or written.
pub fn write(folder: &Path, definitions: &[Json]) -> Result<Vec<PathBuf>, ManifestError> {
    let present = Manifest::all(folder)?;
    let mut written = Vec::new();
    for file in files(folder) {
        let text = read(&file)?;
        let new = replaced(&file, &text, definitions)?;
        if new != text {
            replace(&file, &new).map_err(io_error(&file))?;
            written.push(file);
        }
    }
    for definition in definitions {
        let is_there = |one: &Manifest| name(&one.document) == name(definition);
        if !present.iter().any(is_there) {
            let crds = walk::short(folder.join(FOLDER));
            std::fs::create_dir_all(&crds).map_err(io_error(&crds))?;
            let file = crds.join(format!("{}.yaml", name(definition)));
            // Not over a file that is no manifest of it, such as a List.
            let text = yaml(definition)?;
            let new = std::fs::File::create_new(&file);
            new.and_then(|mut new| new.write_all(text.as_bytes()))
                .map_err(io_error(&file))?;
            written.push(file);
        }
    }
    Ok(written)
}

/// The manifests of `folder` that may have definitions.
fn files(folder: &Path) -> Vec<PathBuf> {
    let own = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let own = own.map(|entry| entry.path()).filter(|path| {
        let extension = path.extension().unwrap_or_default();
        path.is_file() && EXTENSIONS.iter().any(|one| extension == *one)
    });
    let mut files: Vec<PathBuf> = own.map(walk::short).collect();
    files.sort();
    for below in FOLDERS {
        files.extend(walk::files(&folder.join(below), &EXTENSIONS));
    }
    files
}

fn read(file: &Path) -> Result<String, ManifestError> {
    std::fs::read_to_string(file).map_err(io_error(file))
}

/// The definitions in a text, each with its document. A document without the kind's name is not parsed: it may be a file of steps, or another
/// tool's.
fn documents<'a>(file: &Path, text: &'a str) -> Result<Vec<(Part<'a>, Json, Node)>, ManifestError> {
    let shown: Arc<str> = file.to_string_lossy().into();
    let mut found = Vec::new();
    for part in split(text)
        .into_iter()
        .filter(|part| part.text.contains(KIND))
    {
        let node = part.parse(&shown);
        let node = node.map_err(|problem| ManifestError::Invalid(problem.to_string()))?;
        let document: Json = node.decode().unwrap_or_default();
        if document["kind"] == KIND {
            found.push((part, document, node));
        }
    }
    Ok(found)
}

/// The text with the specs of these definitions where it has others. Metadata stays.
fn replaced(file: &Path, text: &str, definitions: &[Json]) -> Result<String, ManifestError> {
    let mut new = String::new();
    let mut copied = 0;
    for (part, mut document, _) in documents(file, text)? {
        let same = definitions.iter().find(|one| name(one) == name(&document));
        let Some(definition) = same.filter(|one| !differences(one, &document).is_empty()) else {
            continue;
        };
        document["spec"] = definition["spec"].clone();
        let lines = text.split_inclusive('\n').take(part.lines_before as usize);
        let start: usize = lines.map(str::len).sum();
        new.push_str(&text[copied..start]);
        if file.extension().is_some_and(|end| end == "json") {
            new.push_str(&(json(&document)? + "\n"));
        } else {
            new.push_str(&head(part.text));
            new.push_str(&yaml(&document)?);
        }
        copied = start + part.text.len();
    }
    new.push_str(&text[copied..]);
    Ok(new)
}

/// The marker of a document and the comments before its content.
fn head(text: &str) -> String {
    let is_comment = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let mut head = String::new();
    for line in text.split_inclusive('\n') {
        match line.strip_prefix("---") {
            // Content may stand behind the marker.
            Some(rest) if head.is_empty() && !is_comment(rest) => return "---\n".to_owned(),
            Some(_) => head.push_str(line),
            None if is_comment(line) => head.push_str(line),
            None => break,
        }
    }
    head
}

fn yaml(document: &Json) -> Result<String, ManifestError> {
    let text = serde_saphyr::to_string(document).map_err(|error| unwritable(document, error))?;
    Ok(text.trim_end().to_owned() + "\n")
}

fn json(document: &Json) -> Result<String, ManifestError> {
    serde_json::to_string_pretty(document).map_err(|error| unwritable(document, error))
}

fn unwritable(
    document: &Json,
    source: impl std::error::Error + Send + Sync + 'static,
) -> ManifestError {
    ManifestError::Text {
        name: name(document).to_owned(),
        source: Box::new(source),
    }
}

fn io_error(path: &Path) -> impl Fn(std::io::Error) -> ManifestError + use<> {
    let path = path.to_owned();
    move |source| ManifestError::Io {
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    fn definition(kind: &str, field: &str) -> Json {
        let schema = json!({"type": "object", "properties": {"a": {"type": field}}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": KIND, "metadata": {"name": format!("{kind}s.x.dev")},
            "spec": {"group": "x.dev", "names": {"kind": kind, "plural": format!("{kind}s")}, "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        })
    }

    fn text_of(definition: &Json) -> String {
        yaml(definition).unwrap()
    }

    #[test]
    fn only_the_document_that_differs_is_replaced() {
        let (old, new) = (definition("A", "string"), definition("A", "integer"));
        let before = "# Ours.\n\napiVersion: v1\nkind: Namespace # odd   spaces\nmetadata: {name: a}\n--- # the kind\n# It says much.\n";
        let after = "---\n# more\nkind:   ConfigMap\n...\n";
        let text = format!("{before}{}{after}", text_of(&old));
        let file = Path::new("a.yaml");
        let replaced = |definitions: &[Json]| replaced(file, &text, definitions).unwrap();
        assert_eq!(replaced(std::slice::from_ref(&old)), text);
        assert_eq!(replaced(&[definition("B", "string")]), text);
        assert_eq!(
            replaced(std::slice::from_ref(&new)),
            format!("{before}{}{after}", text_of(&new))
        );
    }

    #[test]
    fn metadata_of_the_file_stays() {
        let (mut old, new) = (definition("A", "string"), definition("A", "integer"));
        old["metadata"]["labels"] = json!({"team": "a"});
        let said = replaced(
            Path::new("a.json"),
            &old.to_string(),
            std::slice::from_ref(&new),
        );
        let said: Json = serde_json::from_str(&said.unwrap()).unwrap();
        assert_eq!(said["metadata"], old["metadata"]);
        assert_eq!(said["spec"], new["spec"]);
    }

    #[test]
    fn a_definition_is_written_where_it_stands_or_into_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |file: &str| folder.path().join(file);
        let (a, b) = (definition("A", "string"), definition("B", "string"));
        fs::create_dir(path("elsewhere")).unwrap();
        fs::write(path("elsewhere/a.yaml"), text_of(&a)).unwrap();
        std::os::unix::fs::symlink("elsewhere", path("seed")).unwrap();
        fs::write(
            path("steps.yaml"),
            "- apply: {kind: CustomResourceDefinition}\n",
        )
        .unwrap();
        let (new, both) = (definition("A", "integer"), [definition("A", "integer"), b]);
        let written = write(folder.path(), &both).unwrap();
        assert_eq!(written, [path("seed/a.yaml"), path("crds/Bs.x.dev.yaml")]);
        assert_eq!(
            fs::read_to_string(path("elsewhere/a.yaml")).unwrap(),
            text_of(&new)
        );
        assert!(write(folder.path(), &both).unwrap().is_empty());
        let all = Manifest::all(folder.path()).unwrap();
        let names: Vec<&str> = all.iter().map(|one| name(&one.document)).collect();
        assert_eq!(names, ["Bs.x.dev", "As.x.dev"]);
    }

    #[test]
    fn a_definition_that_cannot_be_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("a.yaml"),
            "kind: CustomResourceDefinition\nx: [\n",
        )
        .unwrap();
        let said = Manifest::all(folder.path()).unwrap_err().to_string();
        assert!(said.contains("a.yaml:"), "{said}");
        fs::write(folder.path().join("a.yaml"), "kind: ConfigMap\nx: [\n").unwrap();
        assert_eq!(Manifest::all(folder.path()).unwrap(), []);
    }
}
