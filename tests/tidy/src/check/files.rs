//! The names, headers and lengths of files. Entry point: [`check`].

use crate::{Finding, Repository, RustFile};

/// Lines at which a file must be split.
const MOST: usize = 800;

/// Files with more lines are printed as a hint.
pub const MANY: usize = 500;

/// What stands in a file that a generator wrote; such a file is as long as its generator makes it.
const GENERATED: &str = "reason = \"generated code\"";

/// Names that say nothing about what is inside.
const DRAWERS: [&str; 7] = [
    "utils", "util", "helpers", "helper", "common", "misc", "shared",
];

/// Header, length and name of every Rust file.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings: Vec<_> = repository.rust.iter().flat_map(check_file).collect();
    for path in &repository.paths {
        if let Some(name) = path
            .split('/')
            .map(stem)
            .find(|name| DRAWERS.contains(name))
        {
            findings.push(Finding::new(
                path,
                1,
                format!(
                    "`{name}` names no thing: name it after its purpose, or move it to its users"
                ),
            ));
        }
    }
    findings
}

/// Files that are long, but not too long, with their lines.
pub fn long(repository: &Repository) -> Vec<(&str, usize)> {
    let lengths = repository
        .rust
        .iter()
        .filter(|file| !file.text.contains(GENERATED))
        .map(|file| (file.path.as_str(), file.text.lines().count()));
    lengths.filter(|(_, lines)| *lines > MANY).collect()
}

fn check_file(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !file.text.starts_with("//! ") {
        findings.push(Finding::new(
            &file.path,
            1,
            "begin the file with `//!`: what it is and its one entry point",
        ));
    }
    let lines = file.text.lines().count();
    if lines > MOST && !file.text.contains(GENERATED) {
        findings.push(Finding::new(
            &file.path,
            MOST + 1,
            format!("{lines} lines, more than {MOST}: split the file by topic"),
        ));
    }
    if file.path.ends_with("/mod.rs") {
        findings.push(Finding::new(
            &file.path,
            1,
            "no `mod.rs`: name the file after its folder and put it beside that",
        ));
    }
    findings
}

fn stem(part: &str) -> &str {
    part.split('.').next().unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Repository::of(&[(path, text)]))
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn a_good_file_passes() {
        assert_eq!(
            messages("a/src/queue.rs", "//! The queue.\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        assert!(messages("a/src/queue.rs", "use x;\n")[0].contains("begin the file with"));
    }

    #[test]
    fn a_file_too_long_is_found() {
        let text = format!("//! Long.\n{}", "\n".repeat(800));
        assert!(messages("a/src/queue.rs", &text)[0].contains("801 lines"));
        let generated = text.replace("Long.", "reason = \"generated code\"");
        assert_eq!(messages("a/src/queue.rs", &generated), Vec::<String>::new());
    }

    #[test]
    fn names_without_meaning_are_found() {
        assert!(messages("a/src/utils.rs", "//! X.\n")[0].contains("`utils` names no thing"));
        assert!(messages("a/src/common/x.rs", "//! X.\n")[0].contains("`common` names no thing"));
        assert!(messages("a/src/x/mod.rs", "//! X.\n")[0].contains("no `mod.rs`"));
    }
}
