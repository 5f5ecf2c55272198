//! Files of `windlass types` that are not what it would write now. Entry point: [`stale`].

use super::{Manifest, walk};
use crate::types::{Language, MARK, Types, write};
use std::path::{Path, PathBuf};

/// The extensions of the languages that have types.
const EXTENSIONS: [(&str, Language); 5] = [
    ("ts", Language::Typescript),
    ("py", Language::Python),
    ("go", Language::Go),
    ("rs", Language::Rust),
    ("h", Language::C),
];

/// A file that is not what its definition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The file of types.
    pub file: PathBuf,
    /// Its language.
    pub language: Language,
    /// The file with the definition.
    pub definition: PathBuf,
    /// The version to ask for, if it is not the one that is stored.
    pub version: Option<String>,
}

/// How many files of types have a definition here, and those of them that are stale.
pub fn stale(folder: &Path, manifests: &[Manifest]) -> (usize, Vec<Stale>) {
    let mut compared = 0;
    let mut stale = Vec::new();
    let extensions = EXTENSIONS.map(|(extension, _)| extension);
    for file in walk::files(folder, &extensions) {
        let Some((text, language)) = types(&file) else {
            continue;
        };
        let named = file.file_name().unwrap_or_default();
        let found = manifests.iter().find_map(|manifest| {
            let (types, version) = current(manifest, &text, language)?;
            (named == types.file.as_str()).then_some((manifest, types, version))
        });
        let Some((manifest, types, version)) = found else {
            continue;
        };
        compared += 1;
        if letters(&text) != letters(&types.text) {
            stale.push(Stale {
                file,
                language,
                definition: manifest.file.clone(),
                version,
            });
        }
    }
    (compared, stale)
}

/// The text of a file that `windlass types` has written, and its language.
fn types(file: &Path) -> Option<(String, Language)> {
    let extension = file.extension()?;
    let (_, language) = EXTENSIONS.iter().find(|(one, _)| extension == *one)?;
    let text = std::fs::read_to_string(file).ok()?;
    let is_ours = text.lines().next().is_some_and(|line| line.contains(MARK));
    is_ours.then_some((text, *language))
}

/// The types of the version that a text is for, and that version unless it is stored. A version that is gone is replaced by the one that is
/// stored.
fn current(manifest: &Manifest, text: &str, language: Language) -> Option<(Types, Option<String>)> {
    let spec = &manifest.document["spec"];
    let group = spec["group"].as_str()?;
    text.contains(&format!("{group}/")).then_some(())?;
    // The name of a version is the beginning of others' names.
    let is_named = |name: &str| {
        ['"', '\'', '/', ' ']
            .iter()
            .any(|end| text.contains(&format!("{group}/{name}{end}")))
    };
    let mut versions = spec["versions"].as_array()?.iter();
    let named = versions.find(|one| one["name"].as_str().is_some_and(is_named));
    let other = named.filter(|one| one["storage"] != true);
    let version = other.and_then(|one| one["name"].as_str());
    let types = write(&manifest.document, version, language).ok()?;
    Some((types, version.map(str::to_owned)))
}

/// A text without what formatters of code change.
fn letters(text: &str) -> String {
    let is_layout =
        |c: &char| c.is_whitespace() || [',', ';', '"', '\'', '(', ')', '|'].contains(c);
    text.chars().filter(|c| !is_layout(c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};
    use std::fs;

    fn manifest(field: &str) -> Manifest {
        let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "properties": {
            "host": {"type": field, "description": "Where it is."}}}}});
        let version = |name: &str, storage: bool| json!({"name": name, "storage": storage, "schema": {"openAPIV3Schema": schema}});
        let document: Json = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "sites.x.dev"}, "spec": {"group": "x.dev", "names": {"kind": "Site"},
            "versions": [version("v1alpha1", false), version("v1", true)]}});
        Manifest {
            file: PathBuf::from("crds/sites.x.dev.yaml"),
            document,
        }
    }

    #[test]
    fn a_file_is_stale_when_its_definition_says_something_else() {
        for (_, language) in EXTENSIONS {
            let folder = tempfile::tempdir().unwrap();
            let (old, new) = (manifest("string"), manifest("integer"));
            let types = write(&old.document, Some("v1alpha1"), language).unwrap();
            let file = folder.path().join("src").join(&types.file);
            fs::create_dir(folder.path().join("src")).unwrap();
            fs::write(&file, &types.text).unwrap();
            let (compared, found) = stale(folder.path(), std::slice::from_ref(&old));
            assert_eq!((compared, found), (1, Vec::new()));
            let (_, found) = stale(folder.path(), &[new]);
            let expected = Stale {
                file,
                language,
                definition: old.file,
                version: Some("v1alpha1".to_owned()),
            };
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn layout_and_other_files_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let all = [manifest("string")];
        let types = write(&all[0].document, None, Language::Typescript).unwrap();
        let file = folder.path().join(&types.file);
        fs::write(&file, types.text.replace("  ", "\t").replace('\'', "\"")).unwrap();
        assert_eq!(stale(folder.path(), &all), (1, Vec::new()));
        fs::write(&file, "export interface Site {} // x.dev/v1\n").unwrap();
        assert_eq!(stale(folder.path(), &all), (0, Vec::new()));
        fs::write(&file, types.text.replace("x.dev/v1", "y.dev/v1")).unwrap();
        assert_eq!(stale(folder.path(), &all), (0, Vec::new()));
    }

    #[test]
    fn a_version_that_is_gone_is_replaced_by_the_one_that_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = manifest("string");
        let types = write(&manifest.document, Some("v1alpha1"), Language::Go).unwrap();
        fs::write(folder.path().join(&types.file), types.text).unwrap();
        manifest.document["spec"]["versions"]
            .as_array_mut()
            .unwrap()
            .remove(0);
        let (_, found) = stale(folder.path(), &[manifest]);
        assert_eq!(found[0].version, None);
    }
}
