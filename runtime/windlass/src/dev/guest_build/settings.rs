//! What a guest's project says of how it is built. Entry point: [`Settings`].
//!
//! Python has it as `[tool.windlass]` in pyproject.toml, Go and C as `windlass.toml`. In Rust and JavaScript the code says all of
//! it; a package.json may say other than that.

use super::language::Language;
use super::{BuildError, io_error};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::path::Path;

/// The settings of Go and C, and where a language is chosen among several.
pub(super) const FILE: &str = "windlass.toml";

/// How a guest is built.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// The language, where the folder has markers of several.
    pub(super) language: Option<Language>,
    /// What the guest is given and what it offers.
    pub(super) world: World,
    /// Where its code begins, if not where the language's guests usually do.
    pub(super) entry: Option<String>,
}

/// A world of the contract: what a guest is given and what it offers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum World {
    /// It reconciles, each request in its own cluster.
    #[default]
    Reconcile,
    /// It reaches other clusters too.
    FleetReconcile,
    /// It maps events to requests with code.
    MappedReconcile,
    /// Both.
    MappedFleetReconcile,
}

impl World {
    /// Its name in `wit/`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reconcile => "reconcile",
            Self::FleetReconcile => "fleet-reconcile",
            Self::MappedReconcile => "mapped-reconcile",
            Self::MappedFleetReconcile => "mapped-fleet-reconcile",
        }
    }

    /// Whether its guests reach other clusters.
    pub(super) fn has_fleet(self) -> bool {
        matches!(self, Self::FleetReconcile | Self::MappedFleetReconcile)
    }

    /// Whether its guests map events to requests.
    pub(super) fn has_mapper(self) -> bool {
        matches!(self, Self::MappedReconcile | Self::MappedFleetReconcile)
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Settings {
    /// Those of the folder's windlass.toml for a guest in this language, which takes these; where the others have their place is told.
    ///
    /// # Errors
    /// When it cannot be read, or says what would do nothing.
    pub(super) fn of(
        folder: &Path,
        language: &str,
        taken: &[&str],
        instead: &str,
    ) -> Result<Self, BuildError> {
        let settings = Self::own(folder)?;
        if !folder.join(FILE).is_file() {
            return Ok(settings);
        }
        let table: toml::Table = read_toml(&folder.join(FILE))?;
        let idle = |key: &&String| *key != "language" && !taken.contains(&key.as_str());
        match table.keys().find(idle) {
            None => Ok(settings),
            Some(key) => Err(BuildError::Settings {
                path: folder.join(FILE),
                why: format!("{key} means nothing for a guest in {language}: {instead}"),
            }),
        }
    }

    /// Those of the folder's windlass.toml, which may be absent.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn own(folder: &Path) -> Result<Self, BuildError> {
        match folder.join(FILE).is_file() {
            true => read_toml(&folder.join(FILE)),
            false => Ok(Self::default()),
        }
    }
}

/// Refuses an entry that a tool would read as a flag.
///
/// # Errors
/// When it is one, with the file that has it.
pub(super) fn check_entry(entry: &str, file: &Path) -> Result<(), BuildError> {
    if !entry.starts_with(['-', '@']) && !entry.is_empty() {
        return Ok(());
    }
    Err(BuildError::Settings {
        path: file.to_owned(),
        why: format!("entry = {entry:?} is no path: write ./ before it"),
    })
}

/// A file of TOML.
pub(super) fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<T, BuildError> {
    let text = std::fs::read_to_string(path).map_err(io_error(path))?;
    toml::from_str(&text).map_err(|error| BuildError::Settings {
        path: path.to_owned(),
        why: error.to_string(),
    })
}

/// A file of JSON.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, BuildError> {
    let text = std::fs::read_to_string(path).map_err(io_error(path))?;
    serde_json::from_str(&text).map_err(|error| BuildError::Settings {
        path: path.to_owned(),
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_is_named_as_in_the_contract() {
        let settings: Settings = toml::from_str("world = \"mapped-fleet-reconcile\"").unwrap();
        assert_eq!(settings.world, World::MappedFleetReconcile);
        assert_eq!(Settings::default().world.name(), "reconcile");
        let worlds = crate::dev::embedded::below("wit").find(|(path, _)| *path == "worlds.wit");
        let worlds = String::from_utf8_lossy(worlds.unwrap().1);
        for world in [
            World::Reconcile,
            World::FleetReconcile,
            World::MappedReconcile,
            World::MappedFleetReconcile,
        ] {
            assert!(worlds.contains(&format!("world {world} {{")), "{world}");
        }
    }

    #[test]
    fn a_setting_that_would_do_nothing_is_refused_with_where_it_belongs() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str, taken: &[&str]| {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            let settings = Settings::of(folder.path(), "Python", taken, "pyproject.toml has it");
            settings.map_err(|error| error.to_string())
        };
        assert!(of("language = \"python\"\n", &[]).is_ok());
        let settings = of("world = \"fleet-reconcile\"\n", &["world"]).unwrap();
        assert_eq!(settings.world, World::FleetReconcile);
        for text in ["world = \"reconcile\"\n", "entry = \"x\"\n"] {
            let said = of(text, &[]).unwrap_err();
            assert!(
                said.contains("windlass.toml") && said.ends_with("Python: pyproject.toml has it"),
                "{said}"
            );
        }
    }

    #[test]
    fn an_entry_that_tools_would_read_as_a_flag_is_refused() {
        for entry in ["-toolexec=x", "--banner:js=x", "@flags", ""] {
            let said = check_entry(entry, Path::new("windlass.toml")).unwrap_err();
            assert!(said.to_string().contains("./"), "{said}");
        }
        for entry in [".", "./-x", "cmd/guest", "src/guest.ts"] {
            check_entry(entry, Path::new("windlass.toml")).unwrap();
        }
    }

    #[test]
    fn an_unknown_setting_is_told_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "wolrd = \"reconcile\"\n").unwrap();
        let said = Settings::own(folder.path()).unwrap_err().to_string();
        assert!(
            said.contains("windlass.toml") && said.contains("wolrd") && said.contains("world"),
            "{said}"
        );
    }
}
