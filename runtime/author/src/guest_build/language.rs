//! Recognises the language of a guest by the file that its tools need. Entry point: [`Language::of`].

use super::settings::Settings;
use super::{BuildError, io_error};
use serde::Deserialize;
use std::fmt;
use std::path::Path;

/// A language that guests are built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// cargo.
    Rust,
    /// JavaScript and TypeScript: npm.
    JavaScript,
    /// Python.
    Python,
    /// Go.
    Go,
    /// C.
    C,
}

impl Language {
    /// All languages, in the order of messages.
    const ALL: [Self; 5] = [
        Self::Rust,
        Self::JavaScript,
        Self::Python,
        Self::Go,
        Self::C,
    ];

    /// The file by which a guest in this language is recognised.
    pub(super) fn marker(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::JavaScript => "package.json",
            Self::Python => "pyproject.toml",
            Self::Go => "go.mod",
            Self::C => "guest.c",
        }
    }

    /// The language of the guest in `folder`: the language whose marker exists. If several exist, `windlass.toml` decides.
    ///
    /// # Errors
    /// When there is no language, or several; the error lists the markers.
    pub fn of(folder: &Path) -> Result<Self, BuildError> {
        let listing = std::fs::read_dir(folder).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                BuildError::NoFolder(folder.to_owned())
            }
            _ => io_error(folder)(error),
        })?;
        drop(listing);
        if let Some(language) = Settings::own(folder)?.language {
            return Ok(language);
        }
        let found: Vec<Self> = Self::ALL
            .into_iter()
            .filter(|language| folder.join(language.marker()).is_file())
            .collect();
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(BuildError::NoGuest(folder.to_owned())),
            several => {
                let found: Vec<String> = several.iter().map(|one| one.with_marker()).collect();
                Err(BuildError::SeveralGuests {
                    folder: folder.to_owned(),
                    found: found.join(", "),
                })
            }
        }
    }

    fn with_marker(self) -> String {
        format!("{} ({self})", self.marker())
    }

    /// Every marker with its language, for messages.
    pub(super) fn markers() -> String {
        Self::ALL.map(Self::with_marker).join(", ")
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::JavaScript => "JavaScript or TypeScript",
            Self::Python => "Python",
            Self::Go => "Go",
            Self::C => "C",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_tells_the_language() {
        for language in Language::ALL {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(language.marker()), "").unwrap();
            assert_eq!(Language::of(folder.path()).unwrap(), language);
        }
    }

    #[test]
    fn none_is_told_with_all_markers() {
        let folder = tempfile::tempdir().unwrap();
        let said = Language::of(folder.path()).unwrap_err().to_string();
        for language in Language::ALL {
            assert!(said.contains(language.marker()), "{said}");
        }
        let nowhere = folder.path().join("nope");
        let error = Language::of(&nowhere).unwrap_err();
        assert!(matches!(error, BuildError::NoFolder(_)), "{error}");
    }

    #[test]
    fn of_several_the_settings_choose() {
        let folder = tempfile::tempdir().unwrap();
        for marker in ["package.json", "go.mod"] {
            std::fs::write(folder.path().join(marker), "").unwrap();
        }
        let said = Language::of(folder.path()).unwrap_err().to_string();
        assert!(
            said.contains("package.json")
                && said.contains("go.mod")
                && said.contains("windlass.toml"),
            "{said}"
        );
        std::fs::write(folder.path().join("windlass.toml"), "language = \"go\"\n").unwrap();
        assert_eq!(Language::of(folder.path()).unwrap(), Language::Go);
        std::fs::write(
            folder.path().join("windlass.toml"),
            "language = \"cobol\"\n",
        )
        .unwrap();
        let said = Language::of(folder.path()).unwrap_err().to_string();
        assert!(
            said.contains("cobol") && said.contains("windlass.toml"),
            "{said}"
        );
    }
}
