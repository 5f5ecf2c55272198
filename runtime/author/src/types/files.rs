//! The names of files. Entry point: [`name`].

use super::Language;
use super::kind::Kind;
use super::naming::snake;
use super::reserved::is_file;

/// The name of the file of a kind, or the first of its files, with the kind's group or without it. A name that a tool of the language gives a
/// meaning has `_kind` at its end.
pub(super) fn name(kind: &Kind, language: Language, is_grouped: bool) -> String {
    let mut stem = snake(&kind.gvk.kind);
    if is_grouped {
        stem = format!("{stem}_{}", snake(group(kind)));
    }
    if is_file(&stem, language) {
        stem += "_kind";
    }
    match language {
        Language::Typescript => format!("{stem}.ts"),
        Language::Python => format!("{stem}.py"),
        Language::Go => format!("{stem}.go"),
        Language::Rust => format!("{stem}.rs"),
        // With a word of its own: `time.h` would hide that of the C library.
        Language::C => format!("{stem}_types.h"),
    }
}

/// The group of a kind as a word. The group of Pod and ConfigMap has no name.
pub(super) fn group(kind: &Kind) -> &str {
    match &*kind.gvk.group {
        "" => "core",
        group => group,
    }
}
