//! Types of guests, from the schemas of CustomResourceDefinitions and of API servers. Entry points: [`Kind`] and [`place()`].
//!
//! A type has what the schema says, with its descriptions. What a type does not know stays in an object that is read and written back: JavaScript,
//! Python and C keep whole objects, types in Rust have a field for the rest, and the SDK of Go remembers what it has read.

mod c;
mod files;
mod go;
mod header;
mod kind;
mod merge;
mod naming;
pub mod package;
mod place;
mod python;
mod reserved;
mod rust;
mod schema;
mod typescript;

pub(crate) use header::Header;
pub(crate) use kind::defined;
pub use kind::{Kind, TypesError};
pub use naming::plural;
pub use place::{PlaceError, place};

use clap::ValueEnum;
use windlass_fleet::GroupVersionKind;

/// A language that has types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// A module.
    Typescript,
    /// A module with a stub of `TypedDict`s.
    Python,
    /// A file of the package `main`.
    Go,
    /// A module.
    Rust,
    /// A header with the paths of fields.
    C,
}

impl Language {
    /// As `--language` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Typescript => "typescript",
            Self::Python => "python",
            Self::Go => "go",
            Self::Rust => "rust",
            Self::C => "c",
        }
    }
}

/// The types of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Types {
    /// The kind.
    pub kind: GroupVersionKind,
    /// Names and texts of its files. The first one has the kind's name.
    pub files: Vec<(String, String)>,
}

impl Types {
    /// The name of the first file.
    pub fn file(&self) -> &str {
        self.files.first().map_or("", |(name, _)| name)
    }
}

/// The types of a kind. `is_grouped`: beside another kind of its name, so that its file has the group too, and in languages where all files share
/// their names, these.
pub(crate) fn write(kind: &Kind, language: Language, is_grouped: bool) -> Types {
    let file = files::name(kind, language, is_grouped);
    // The beginning of names that all files share.
    let shared = if is_grouped {
        naming::pascal(files::group(kind)) + &kind.name()
    } else {
        kind.name()
    };
    let files = match language {
        Language::Typescript => vec![(file, typescript::text(kind))],
        Language::Python => python::files(kind, file),
        Language::Go => vec![(file, go::text(kind, &shared))],
        Language::Rust => vec![(file, rust::text(kind))],
        Language::C => vec![(file, c::text(kind, &shared))],
    };
    Types {
        kind: kind.gvk.clone(),
        files,
    }
}

/// The lines of a comment, without what could end it or begin another line. Compilers refuse marks that turn the direction of text.
fn comment(text: &str) -> Vec<String> {
    let turns = |letter| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let lines = text.lines().map(|line| {
        let plain = line.chars().map(|letter| {
            if letter.is_control() || turns(letter) {
                ' '
            } else {
                letter
            }
        });
        let line: String = plain.collect();
        line.replace("*/", "* /").trim_end().to_owned()
    });
    let mut lines: Vec<String> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_named_as_its_flag_takes_it() {
        for language in Language::value_variants() {
            let parsed = Language::from_str(language.name(), false);
            assert_eq!(parsed.as_ref(), Ok(language));
        }
    }

    #[test]
    fn a_comment_ends_where_it_should() {
        assert_eq!(comment("a */ b\u{7}\n\n"), ["a * / b"]);
        assert_eq!(comment("a\u{202e}b"), ["a b"]);
    }
}
