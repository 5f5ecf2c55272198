//! The SDK in a project. Entry points: `write` and [`upgrade`].
//!
//! A file beside it has the version and the digest of each of its files, so that an upgrade overwrites nothing that an author has changed.

use super::Lang;
use super::rust;
use crate::embedded;
use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The folder of the SDK in a project.
pub(super) const SDK: &str = "sdk";
/// The file with version and digests in it; `sha256sum --check` reads it too.
const SUMS: &str = "windlass.sha256";
/// The beginning of its first line, before the version.
const VERSION: &str = "# windlass ";

/// The parts of an SDK that a project does not need: folders, endings, files.
const OWN_FOLDERS: [&str; 2] = ["test/", "tests/"];
const OWN_ENDS: [&str; 1] = ["_test.go"];
const OWN_FILES: [&str; 3] = [".clang-format", "Makefile", "bindings"];

impl Lang {
    /// The folder of its SDK.
    fn sdk(self) -> &'static str {
        match self {
            Self::Rust => "guest-sdk/rust",
            Self::Typescript | Self::Javascript => "guest-sdk/js",
            Self::Python => "guest-sdk/python",
            Self::Go => "guest-sdk/go",
            Self::C => "guest-sdk/c",
        }
    }
}

/// How an SDK was changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The version before; none: it is not known.
    pub from: Option<String>,
    /// The version now.
    pub to: &'static str,
    /// Files that are new or others now, and those that are gone.
    pub changed: usize,
}

/// Writes the SDK into a project that has none.
pub(super) fn write(folder: &Path, lang: Lang) -> Result<()> {
    let files = files(lang)?;
    for (path, bytes) in &files {
        put(&folder.join(SDK).join(path), bytes)?;
    }
    put(&folder.join(SDK).join(SUMS), sums(&files).as_bytes())
}

/// Replaces the SDK of a project by that of this program. With `force` also files that an author has changed.
///
/// # Errors
/// When there is no SDK of `windlass new`, a file of it was changed, or one cannot be written.
pub fn upgrade(folder: &Path, lang: Lang, force: bool) -> Result<Upgrade> {
    let sdk = folder.join(SDK);
    if !sdk.is_dir() {
        bail!(
            "{}: there is no folder {SDK}, which windlass new makes: this guest has its SDK from elsewhere",
            folder.display()
        );
    }
    let noted = std::fs::read_to_string(sdk.join(SUMS)).ok();
    if noted.is_none() && !force {
        bail!(
            "{}: nothing says which of its files are the SDK's: with --force the new ones are written over them",
            sdk.display()
        );
    }
    let before = Noted::read(noted.as_deref().unwrap_or_default());
    let is_changed = |(path, digest): (&String, &String)| {
        let bytes = std::fs::read(sdk.join(path)).ok();
        bytes.is_some_and(|bytes| self::digest(&bytes) != *digest)
    };
    let own = before.digests.iter().filter(|one| is_changed(*one));
    let own = own.map(|(path, _)| path.as_str());
    let files = files(lang)?;
    let is_in_the_way = |(path, bytes): &&(String, Cow<'static, [u8]>)| {
        let there = std::fs::read(sdk.join(path)).ok();
        !before.digests.contains_key(path) && there.is_some_and(|there| there != **bytes)
    };
    let in_the_way = files.iter().filter(is_in_the_way);
    let own: Vec<&str> = own
        .chain(in_the_way.map(|(path, _)| path.as_str()))
        .collect();
    if !own.is_empty() && !force {
        bail!(
            "{}: these files are not as windlass wrote them: {}: with --force the upgrade overwrites them",
            sdk.display(),
            own.join(", ")
        );
    }
    let mut changed = 0;
    for path in before.digests.keys().filter(|path| is_inside(path)) {
        let stays = files.iter().any(|(there, _)| there == path);
        if !stays && std::fs::remove_file(sdk.join(path)).is_ok() {
            changed += 1;
        }
    }
    for (path, bytes) in &files {
        let path = sdk.join(path);
        if std::fs::read(&path).ok().as_deref() != Some(bytes) {
            put(&path, bytes)?;
            changed += 1;
        }
    }
    put(&sdk.join(SUMS), sums(&files).as_bytes())?;
    Ok(Upgrade {
        from: before.version,
        to: env!("CARGO_PKG_VERSION"),
        changed,
    })
}

/// What the file beside an SDK says.
#[derive(Default)]
struct Noted {
    version: Option<String>,
    digests: BTreeMap<String, String>,
}

impl Noted {
    fn read(text: &str) -> Self {
        let mut noted = Self::default();
        for line in text.lines() {
            match (line.strip_prefix(VERSION), line.split_once("  ")) {
                (Some(version), _) => noted.version = Some(version.to_owned()),
                (None, Some((digest, path))) => {
                    noted.digests.insert(path.to_owned(), digest.to_owned());
                }
                _ => {}
            }
        }
        noted
    }
}

/// Whether a path stays in its folder.
fn is_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn sums(files: &[(String, Cow<'static, [u8]>)]) -> String {
    let mut text = format!("{VERSION}{}\n", env!("CARGO_PKG_VERSION"));
    for (path, bytes) in files {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{}  {path}", digest(bytes));
    }
    text
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files of the SDK, with the contract.
fn files(lang: Lang) -> Result<Vec<(String, Cow<'static, [u8]>)>> {
    let mut files = Vec::new();
    for (path, bytes) in embedded::below(lang.sdk()).filter(|(path, _)| is_for_projects(path)) {
        let bytes = match (lang, path) {
            (Lang::Rust, "Cargo.toml") => Cow::Owned(rust::manifest(bytes)?.into_bytes()),
            _ => Cow::Borrowed(bytes),
        };
        files.push((path.to_owned(), bytes));
    }
    for (path, bytes) in embedded::below("wit") {
        let path = format!("wit/{path}");
        if !files.iter().any(|(there, _)| *there == path) {
            files.push((path, Cow::Borrowed(bytes)));
        }
    }
    Ok(files)
}

fn is_for_projects(path: &str) -> bool {
    !OWN_FOLDERS.iter().any(|folder| path.starts_with(folder))
        && !OWN_ENDS.iter().any(|end| path.ends_with(end))
        && !OWN_FILES.contains(&path)
}

/// Writes a file, and the folders that it is in.
pub(super) fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        std::fs::create_dir_all(path.parent().map_or(PathBuf::new(), Path::to_owned))?;
        std::fs::write(path, bytes)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(lang: Lang) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), lang).unwrap();
        folder
    }

    #[test]
    fn an_upgrade_replaces_old_files_and_leaves_others() {
        let project = project(Lang::Go);
        let sdk = project.path().join(SDK);
        let same = upgrade(project.path(), Lang::Go, false).unwrap();
        assert_eq!((same.from.as_deref(), same.changed), (Some(same.to), 0));

        // As an older program wrote it: with another file, and one that is not there yet.
        let sums = std::fs::read_to_string(sdk.join(SUMS)).unwrap();
        let sums = sums.replace(VERSION, "# windlass 0.0.9 of ");
        let old = format!("{sums}{}  old.go\n", digest(b"old"));
        std::fs::write(
            sdk.join(SUMS),
            old.replace("# windlass 0.0.9 of 0.1.0", "# windlass 0.0.9"),
        )
        .unwrap();
        std::fs::write(sdk.join("old.go"), "old").unwrap();
        std::fs::write(sdk.join("notes.txt"), "the author's").unwrap();
        std::fs::remove_file(sdk.join("typed.go")).unwrap();
        let done = upgrade(project.path(), Lang::Go, false).unwrap();
        assert_eq!((done.from.as_deref(), done.changed), (Some("0.0.9"), 2));
        assert!(!sdk.join("old.go").exists() && sdk.join("typed.go").is_file());
        assert!(sdk.join("notes.txt").is_file());
    }

    #[test]
    fn what_an_author_changed_is_only_undone_by_force() {
        let project = project(Lang::Rust);
        let file = project.path().join("sdk/src/lib.rs");
        std::fs::write(&file, "mine").unwrap();
        let said = upgrade(project.path(), Lang::Rust, false).unwrap_err();
        assert!(said.to_string().contains("src/lib.rs"), "{said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
        assert_eq!(
            upgrade(project.path(), Lang::Rust, true).unwrap().changed,
            1
        );
        // A file of the author's is where the new SDK has one of its own.
        let sums = project.path().join("sdk").join(SUMS);
        let noted = std::fs::read_to_string(&sums).unwrap();
        let others = noted.lines().filter(|line| !line.ends_with("  src/lib.rs"));
        let others = others.collect::<Vec<_>>().join("\n");
        std::fs::write(&sums, others).unwrap();
        std::fs::write(&file, "mine").unwrap();
        let said = upgrade(project.path(), Lang::Rust, false).unwrap_err();
        assert!(said.to_string().contains("src/lib.rs"), "{said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
        std::fs::remove_file(&sums).unwrap();
        let said = upgrade(project.path(), Lang::Rust, false).unwrap_err();
        assert!(said.to_string().contains("--force"), "{said}");
        let none = tempfile::tempdir().unwrap();
        let said = upgrade(none.path(), Lang::Rust, true).unwrap_err();
        assert!(
            said.to_string().contains("there is no folder sdk"),
            "{said}"
        );
    }

    #[test]
    fn a_project_has_of_its_sdk_what_it_is_built_and_tested_with() {
        assert!(is_for_projects("src/lib.rs") && is_for_projects("testing/windlass_test.c"));
        for own in ["tests/test_script.py", "windlass_test.go", "Makefile"] {
            assert!(!is_for_projects(own), "{own}");
        }
    }
}
