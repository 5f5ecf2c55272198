//! The settings of a guest's build. Entry point: [`Settings`].
//!
//! They are in `[tool.windlass]` of pyproject.toml for Python, and in `windlass.toml` for Go and C. In Rust and JavaScript the code
//! decides; a package.json may override it.

use super::language::Language;
use super::{BuildError, io_error};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::path::Path;

/// The settings of Go and C. In every project this file may choose one of several languages.
pub(super) const FILE: &str = "windlass.toml";

/// The settings of a guest's build.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Settings {
    /// The language, if the folder has markers of several.
    pub(super) language: Option<Language>,
    /// The world of the guest.
    pub(super) world: World,
    /// The file or module where its code begins, if it is not the usual one.
    pub(super) entry: Option<String>,
}

/// A world of the contract: the imports and exports of a guest. The default has none but those of every guest.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct World {
    /// Whether its guests may call other clusters.
    pub(super) fleet: bool,
    /// Whether its guests map events to requests.
    pub(super) mapper: bool,
    /// Whether its guests may call servers that are no API servers.
    pub(super) http: bool,
}

impl World {
    /// The names in `wit/`, by what they add to `reconcile`: a mapper, the fleet, HTTP.
    const NAMES: [&str; 8] = [
        "reconcile",
        "mapped-reconcile",
        "fleet-reconcile",
        "mapped-fleet-reconcile",
        "http-reconcile",
        "http-mapped-reconcile",
        "http-fleet-reconcile",
        "http-mapped-fleet-reconcile",
    ];

    /// Its name in `wit/`.
    pub fn name(self) -> &'static str {
        let at =
            usize::from(self.mapper) | usize::from(self.fleet) << 1 | usize::from(self.http) << 2;
        Self::NAMES[at]
    }
}

/// A name of no world.
#[derive(Debug, thiserror::Error)]
#[error("there is no world {0:?}: write one of {worlds}", worlds = World::NAMES.join(", "))]
pub struct NoSuchWorld(String);

impl TryFrom<String> for World {
    type Error = NoSuchWorld;

    fn try_from(name: String) -> Result<Self, NoSuchWorld> {
        let at = Self::NAMES.iter().position(|known| *known == name);
        let at = at.ok_or(NoSuchWorld(name))?;
        Ok(Self {
            mapper: at & 1 != 0,
            fleet: at & 2 != 0,
            http: at & 4 != 0,
        })
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Settings {
    /// The settings of the folder's windlass.toml for a guest in a language that takes only the settings in `taken`. For another
    /// setting the error contains `instead`.
    ///
    /// # Errors
    /// When the file cannot be read, or has a setting without effect.
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

    /// The settings of the folder's windlass.toml, which may be absent.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn own(folder: &Path) -> Result<Self, BuildError> {
        if folder.join(FILE).is_file() {
            read_toml(&folder.join(FILE))
        } else {
            Ok(Self::default())
        }
    }
}

/// Rejects an entry that a tool would read as a flag.
///
/// # Errors
/// When it would be a flag; the error names the file.
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
        assert!(settings.world.fleet && settings.world.mapper && !settings.world.http);
        assert_eq!(Settings::default().world.name(), "reconcile");
        assert!(toml::from_str::<Settings>("world = \"fleet\"").is_err());
        let worlds = crate::embedded::below("wit").find(|(path, _)| *path == "worlds.wit");
        let worlds = String::from_utf8_lossy(worlds.unwrap().1);
        for name in World::NAMES {
            assert!(worlds.contains(&format!("world {name} {{")), "{name}");
            assert_eq!(World::try_from(name.to_owned()).unwrap().name(), name);
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
        assert_eq!(settings.world.name(), "fleet-reconcile");
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
