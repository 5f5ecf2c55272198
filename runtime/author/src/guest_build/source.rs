//! Finds the package that a guest's source is a part of. Entry point: [`Source::of`].

use super::language::Language;
use super::settings::{Settings, read_toml};
use super::{BuildError, io_error, npm, python};
use serde::Deserialize;
use std::path::{Component, Path, PathBuf};

/// The header of the SDK for C, in the folder of a package.
const C_HEADER: &str = "sdk/include/windlass.h";

/// The source of a guest. Several guests may be folders of one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) language: Language,
    /// Where its code begins.
    pub(super) guest: PathBuf,
    /// Where its dependencies and its SDK are: the guest's own folder, or one above.
    pub(super) package: PathBuf,
}

impl Source {
    /// The source of the guest in `folder`, with absolute paths. A folder without a package of its own is a part of the package around it.
    ///
    /// # Errors
    /// When there is no guest, or several; the error lists the markers.
    pub(super) fn of(folder: &Path) -> Result<Self, BuildError> {
        let own = match Language::of(folder) {
            Err(none @ BuildError::NoGuest(_)) => Err(none),
            own => Ok(own?),
        };
        let asked = absolute(folder).map_err(io_error(folder))?;
        let real = asked.canonicalize().map_err(io_error(folder))?;
        let language = own.as_ref().ok().copied();
        // Above the path that was asked for, and where that is a link, above what it leads to. Cargo and Go follow links.
        let keeps_links = |language| !matches!(language, Language::Rust | Language::Go);
        for path in [&asked, &real] {
            if let Some(found) = Self::below(language, path)?
                && (path == &real || keeps_links(found.language))
            {
                return Ok(found);
            }
        }
        own.map(|language| Self {
            language,
            package: asked.clone(),
            guest: asked,
        })
    }

    /// The guest at this path, if there is what it needs: the SDK in C, or a package around a folder without a language of its own.
    fn below(language: Option<Language>, guest: &Path) -> Result<Option<Self>, BuildError> {
        let found = match language {
            Some(Language::C) => with_c_sdk(guest).map(|package| (Language::C, package)),
            Some(Language::Rust) => Some((Language::Rust, workspace(guest))),
            Some(language) => Some((language, guest)),
            None => around(guest)?,
        };
        Ok(found.map(|(language, package)| Self {
            language,
            guest: guest.to_owned(),
            package: package.to_owned(),
        }))
    }

    /// Whether the package has the guest in a folder below it.
    pub(super) fn is_part(&self) -> bool {
        self.guest != self.package
    }
}

/// An absolute path whose ancestors are the folders above. A link stays a link, unless `..` follows it: tools are looked for above the path
/// that was asked for.
fn absolute(folder: &Path) -> std::io::Result<PathBuf> {
    let absolute = std::path::absolute(folder)?;
    let parts: Vec<Component> = absolute.components().collect();
    let last_up = parts.iter().rposition(|part| *part == Component::ParentDir);
    let (up, rest) = parts.split_at(last_up.map_or(0, |at| at + 1));
    if up.is_empty() {
        return Ok(absolute);
    }
    let up = up.iter().collect::<PathBuf>().canonicalize()?;
    Ok(up.join(rest.iter().collect::<PathBuf>()))
}

/// The nearest package around a folder, if a guest of its language begins in the folder.
fn around(folder: &Path) -> Result<Option<(Language, &Path)>, BuildError> {
    for above in folder.ancestors().skip(1) {
        match Language::of(above) {
            Ok(language) => {
                let begins = begins_in(language, folder)?;
                return Ok(begins.then_some((language, above)));
            }
            Err(BuildError::NoGuest(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether a folder has the file where guests of a language begin, or says where. In Rust and C that file marks a package of its own.
fn begins_in(language: Language, folder: &Path) -> Result<bool, BuildError> {
    let says = Settings::own(folder)?.entry.is_some();
    let has = |name: &str| folder.join(name).is_file();
    Ok(match language {
        Language::JavaScript => npm::ENTRIES.into_iter().any(has),
        Language::Python => says || has(&format!("{}.py", python::ENTRY)),
        Language::Go => says || has("main.go"),
        Language::Rust | Language::C => false,
    })
}

/// The parts of a Cargo.toml that matter here.
#[derive(Deserialize)]
struct Manifest {
    workspace: Option<Workspace>,
}

#[derive(Deserialize)]
struct Workspace {
    #[serde(default)]
    exclude: Vec<PathBuf>,
}

/// The workspace of a package of cargo, or the package itself.
fn workspace(guest: &Path) -> &Path {
    let root = guest.ancestors().find_map(|folder| {
        let manifest: Manifest = read_toml(&folder.join(Language::Rust.marker())).ok()?;
        Some((folder, manifest.workspace?))
    });
    match root {
        Some((folder, workspace)) => {
            let is_out = |out: &PathBuf| guest.starts_with(folder.join(out));
            let is_member = !workspace.exclude.iter().any(is_out);
            if is_member { folder } else { guest }
        }
        None => guest,
    }
}

/// The nearest folder with the SDK for C, from the guest's upwards. Without any, the compiler says what is missing.
fn with_c_sdk(guest: &Path) -> Option<&Path> {
    let mut folders = guest.ancestors();
    folders.find(|folder| folder.join(C_HEADER).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, name: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn a_folder_of_a_package_is_a_guest_where_code_begins_in_it() {
        for (marker, first) in [
            ("package.json", "backup/guest.ts"),
            ("pyproject.toml", "backup/guest.py"),
            ("go.mod", "backup/main.go"),
            (C_HEADER, "backup/guest.c"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let package = folder.path().canonicalize().unwrap();
            put(&package, marker);
            put(&package, first);
            put(&package, "docs/page.md");
            let source = Source::of(&package.join("backup")).unwrap();
            assert_eq!(source.package, package);
            assert!(source.is_part(), "{marker}");
            let crooked = package.join("docs/../backup");
            assert_eq!(Source::of(&crooked).unwrap(), source);
            let error = Source::of(&package.join("docs")).unwrap_err();
            assert!(matches!(error, BuildError::NoGuest(_)), "{error}");
            put(&package, "Cargo.toml");
            put(&package, "go.mod");
            let error = Source::of(&package.join("docs")).unwrap_err();
            assert!(matches!(error, BuildError::SeveralGuests { .. }), "{error}");
        }
    }

    #[test]
    fn a_link_to_a_package_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "elsewhere/package.json");
        std::fs::create_dir(folder.path().join("members")).unwrap();
        let link = folder.path().join("members/linked");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
        let source = Source::of(&link).unwrap();
        assert_eq!((&source.guest, &source.package), (&link, &link));
    }

    #[test]
    fn the_package_of_a_linked_folder_is_above_the_link_or_above_what_it_leads_to() {
        for (marker, first) in [("pyproject.toml", "guest.py"), (C_HEADER, "guest.c")] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            put(&root, &format!("package/{marker}"));
            put(&root, &format!("package/backup/{first}"));
            put(&root, "elsewhere/README.md");
            put(&root, &format!("alone/{first}"));
            let link = |from: &str, to: &str| {
                std::os::unix::fs::symlink(root.join(to), root.join(from)).unwrap();
                root.join(from)
            };
            let out = Source::of(&link("elsewhere/out", "package/backup")).unwrap();
            assert_eq!(out.package, root.join("package"), "{marker}");
            assert_eq!(out.guest, root.join("package/backup"));
            let inner = link("package/inner", "alone");
            let source = Source::of(&root.join("elsewhere/../package/inner")).unwrap();
            assert_eq!(
                (source.guest, source.package),
                (inner, root.join("package"))
            );
        }
    }

    #[test]
    fn the_package_of_a_linked_folder_in_go_is_where_go_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        put(&root, "package/go.mod");
        put(&root, "alone/main.go");
        let inner = root.join("package/inner");
        std::os::unix::fs::symlink(root.join("alone"), &inner).unwrap();
        let error = Source::of(&inner).unwrap_err();
        assert!(matches!(error, BuildError::NoGuest(_)), "{error}");
        put(&root, "alone/go.mod");
        assert_eq!(Source::of(&inner).unwrap().package, root.join("alone"));
    }

    #[test]
    fn a_member_of_a_workspace_of_cargo_is_a_part_of_it() {
        let workspace = tempfile::tempdir().unwrap();
        let manifest = |folder: &str, text: &str| {
            let folder = workspace.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("Cargo.toml"), text).unwrap();
            Source::of(&folder).unwrap().package
        };
        let whole = manifest("", "[workspace]\nexclude = [\"out\"]\n");
        let root = workspace.path().canonicalize().unwrap();
        assert_eq!(whole, root);
        let member = "[package]\nname = \"a\"\n";
        assert_eq!(manifest("a", member), root);
        assert_eq!(manifest("out/c", member), root.join("out/c"));
        let alone = manifest("b", &format!("{member}[workspace]\n"));
        assert_eq!(alone, root.join("b"));
    }

    #[test]
    fn a_folder_with_a_package_of_its_own_is_no_part_of_another() {
        let outer = tempfile::tempdir().unwrap();
        for name in ["package.json", "inner/go.mod", "inner/main.go"] {
            put(outer.path(), name);
        }
        let source = Source::of(&outer.path().join("inner")).unwrap();
        assert_eq!((source.language, source.is_part()), (Language::Go, false));
    }
}
