//! No text names a machine or a network of its authors. Entry point: [`check`].

use crate::{Finding, Repository};

/// Text that belongs to one machine or one network. Written in two parts, so that this file passes its own check.
const FOREIGN: [(&str, &str); 7] = [
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (concat!("static.", "crates.io"), "a registry's host"),
    (concat!("index.", "crates.io"), "a registry's host"),
    (concat!("proxy.", "golang.org"), "a registry's host"),
];

/// Paths of one machine and hosts of registries, in any text.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let rust = repository.rust.iter().map(|file| (&file.path, &file.text));
    let texts = repository.texts.iter().map(|file| (&file.path, &file.text));
    let mut findings = Vec::new();
    for (path, text) in rust.chain(texts) {
        for (index, line) in text.lines().enumerate() {
            for (word, what) in FOREIGN {
                if line.contains(word) {
                    findings.push(Finding::new(
                        path,
                        index + 1,
                        format!("`{word}` is {what}: say it without"),
                    ));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_found() {
        let line = concat!("see /wo", "rk/notes\n");
        let found = check(&Repository::of(&[("a.md", line), ("b.md", "see notes\n")]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "a.md");
    }
}
