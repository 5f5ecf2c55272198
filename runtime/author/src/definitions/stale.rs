//! Files of `windlass types` that are not what it would write now. Entry point: [`stale`].

use super::{Manifest, walk};
use crate::types::{Header, Kind, Language, defined, write};
use std::path::{Path, PathBuf};

/// The extensions of the languages that have types.
const EXTENSIONS: [(&str, Language); 6] = [
    ("ts", Language::Typescript),
    ("py", Language::Python),
    ("pyi", Language::Python),
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
        let found = manifests.iter().find_map(|manifest| {
            let (current, version) = current(manifest, &text, &file, language)?;
            Some((manifest, current, version))
        });
        let Some((manifest, current, version)) = found else {
            continue;
        };
        compared += 1;
        if letters(&text) != letters(&current) {
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

/// The text of a file that `windlass types` has written of a definition, and its language.
fn types(file: &Path) -> Option<(String, Language)> {
    let extension = file.extension()?;
    let (_, language) = EXTENSIONS.iter().find(|(one, _)| extension == *one)?;
    let text = std::fs::read_to_string(file).ok()?;
    let header = Header::read(text.lines().next()?)?;
    (!header.is_of_schemas).then_some((text, *language))
}

/// What `windlass types` would write into a file now, of the version that its text is for, and that version unless it is stored. A version that is
/// gone is replaced by the one that is stored. Beside a kind of the same name the file has its group in its name.
fn current(
    manifest: &Manifest,
    text: &str,
    file: &Path,
    language: Language,
) -> Option<(String, Option<String>)> {
    let (group, kind) = defined(&manifest.node)?;
    Header::read(text)?.is_of(text, group, kind).then_some(())?;
    // The name of a version is the beginning of others' names.
    let is_named = |name: &str| {
        ['"', '\'', '/', ' ']
            .iter()
            .any(|end| text.contains(&format!("{group}/{name}{end}")))
    };
    let mut versions = manifest.document["spec"]["versions"].as_array()?.iter();
    let named = versions.find(|one| one["name"].as_str().is_some_and(is_named));
    let other = named.filter(|one| one["storage"] != true);
    let version = other.and_then(|one| one["name"].as_str());
    let kind = Kind::of_definition(&manifest.node, version).ok()?;
    let named = file.file_name().unwrap_or_default();
    let ways = [false, true].map(|is_grouped| write(&kind, language, is_grouped));
    let mut files = ways.into_iter().flat_map(|types| types.files);
    let (_, current) = files.find(|(name, _)| named == name.as_str())?;
    Some((current, version.map(str::to_owned)))
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
    use crate::types::Types;
    use serde_json::{Value as Json, json};
    use std::fs;
    use windlass_files::Node;

    fn manifest(field: &str) -> Manifest {
        let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "properties": {
            "host": {"type": field, "description": "Where it is."}}}}});
        let version = |name: &str, storage: bool| json!({"name": name, "storage": storage, "schema": {"openAPIV3Schema": schema}});
        let document: Json = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "sites.x.dev"}, "spec": {"group": "x.dev", "names": {"kind": "Site"},
            "versions": [version("v1alpha1", false), version("v1", true)]}});
        Manifest {
            file: PathBuf::from("crds/sites.x.dev.yaml"),
            node: Node::of(&document),
            document,
        }
    }

    fn types_of(
        manifest: &Manifest,
        version: Option<&str>,
        language: Language,
        is_grouped: bool,
    ) -> Types {
        let kind = Kind::of_definition(&manifest.node, version).unwrap();
        write(&kind, language, is_grouped)
    }

    #[test]
    fn a_file_is_stale_when_its_definition_says_something_else() {
        for (extension, language) in EXTENSIONS {
            for is_grouped in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let (old, new) = (manifest("string"), manifest("integer"));
                let types = types_of(&old, Some("v1alpha1"), language, is_grouped);
                let of_extension = |(name, _): &&(String, String)| name.ends_with(extension);
                let (name, text) = types.files.iter().rfind(of_extension).unwrap();
                let file = folder.path().join("src").join(name);
                fs::create_dir(folder.path().join("src")).unwrap();
                fs::write(&file, text).unwrap();
                let (compared, found) = stale(folder.path(), std::slice::from_ref(&old));
                assert_eq!((compared, found), (1, Vec::new()));
                let (_, found) = stale(folder.path(), &[new]);
                let expected = Stale {
                    file,
                    language,
                    definition: old.file,
                    version: Some("v1alpha1".to_owned()),
                };
                // The module in Python says nothing of fields.
                assert_eq!(
                    found,
                    Vec::from_iter((extension != "py").then_some(expected))
                );
            }
        }
    }

    #[test]
    fn kinds_of_one_name_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let (one, mut other) = (manifest("string"), manifest("string"));
        other.document["spec"]["group"] = "y.dev".into();
        other.node = Node::of(&other.document);
        for (manifest, is_grouped) in [(&one, false), (&other, true)] {
            let types = types_of(manifest, None, Language::Go, is_grouped);
            let (name, text) = &types.files[0];
            fs::write(folder.path().join(name), text).unwrap();
        }
        let both = [one, other];
        assert_eq!(stale(folder.path(), &both), (2, Vec::new()));
        let changed = manifest("integer");
        let [_, other] = both;
        let (compared, found) = stale(folder.path(), &[changed, other]);
        let files: Vec<PathBuf> = found.into_iter().map(|one| one.file).collect();
        assert_eq!((compared, files), (2, vec![folder.path().join("site.go")]));
    }

    #[test]
    fn layout_and_other_files_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let all = [manifest("string")];
        let types = types_of(&all[0], None, Language::Typescript, false);
        let (name, text) = &types.files[0];
        let file = folder.path().join(name);
        fs::write(&file, text.replace("  ", "\t").replace('\'', "\"")).unwrap();
        assert_eq!(stale(folder.path(), &all), (1, Vec::new()));
        fs::write(&file, "export interface Site {} // x.dev/v1\n").unwrap();
        assert_eq!(stale(folder.path(), &all), (0, Vec::new()));
        fs::write(&file, text.replace("x.dev/v1", "y.dev/v1")).unwrap();
        assert_eq!(stale(folder.path(), &all), (0, Vec::new()));
    }

    #[test]
    fn a_version_that_is_gone_is_replaced_by_the_one_that_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = manifest("string");
        let types = types_of(&manifest, Some("v1alpha1"), Language::Go, false);
        let (name, text) = &types.files[0];
        fs::write(folder.path().join(name), text).unwrap();
        manifest.document["spec"]["versions"]
            .as_array_mut()
            .unwrap()
            .remove(0);
        manifest.node = Node::of(&manifest.document);
        let (_, found) = stale(folder.path(), &[manifest]);
        assert_eq!(found[0].version, None);
    }
}
