//! Every Rust file is compiled. Entry point: [`check`].

use std::collections::BTreeSet;

use crate::crates::{Crate, crates};
use crate::repository::{Repository, normal};
use crate::{Finding, RustFile};

/// Parts of new projects: journeys build those.
const TEMPLATES: &str = "runtime/author/templates/";

/// Files that no target, `mod`, or `include` reaches.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let all = crates(repository);
    let included = included(repository);
    let mut reached = BTreeSet::new();
    let mut next: Vec<&RustFile> = Vec::new();
    for krate in &all {
        let own = repository
            .rust
            .iter()
            .filter(|file| krate.owns(&file.path, &all));
        next.extend(own.filter(|file| is_target(*krate, &file.path)));
    }
    while let Some(file) = next.pop() {
        if !reached.insert(file.path.clone()) {
            continue;
        }
        for link in file.links() {
            let path = repository.linked_file(file, &link.name, link.path.as_deref());
            next.extend(path.and_then(|path| repository.rust_file(&path)));
        }
    }
    let is_lost = |file: &&RustFile| {
        !file.path.starts_with(TEMPLATES)
            && ![&reached, &included]
                .iter()
                .any(|of| of.contains(&file.path))
    };
    let lost = repository.rust.iter().filter(is_lost);
    lost.map(|file| {
        Finding::new(
            &file.path,
            1,
            "nothing compiles this file: link it with `mod`, or delete it",
        )
    })
    .collect()
}

/// True for the roots that cargo finds by itself and those that the manifest names.
fn is_target(krate: Crate<'_>, path: &str) -> bool {
    let inside = &path[krate.folder.len() + 1..];
    if matches!(inside, "build.rs" | "src/lib.rs" | "src/main.rs") {
        return true;
    }
    if krate
        .manifest
        .text
        .contains(&format!("path = \"{inside}\""))
    {
        return true;
    }
    let parts: Vec<&str> = inside.split('/').collect();
    match parts.as_slice() {
        ["tests" | "benches" | "examples", file] | ["src", "bin", file] => file.ends_with(".rs"),
        ["tests" | "benches" | "examples", _, "main.rs"] | ["src", "bin", _, "main.rs"] => true,
        _ => false,
    }
}

/// Files that other files include as text.
fn included(repository: &Repository) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in &repository.rust {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for word in ["include_str!(\"", "include!(\"", "include_bytes!(\""] {
            for part in file.text.split(word).skip(1) {
                let path = part.split('"').next().unwrap_or_default();
                found.insert(normal(&format!("{folder}/{path}")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![(
            "a/Cargo.toml",
            "[package]\n[[bench]]\npath = \"speed/queue.rs\"\n",
        )];
        all.extend(files);
        check(&Repository::of(&all))
            .into_iter()
            .map(|finding| finding.path)
            .collect()
    }

    #[test]
    fn files_reached_through_modules_targets_and_includes_pass() {
        let files = [
            (
                "a/src/lib.rs",
                "mod one;\nconst T: [&str; 2] = [include_str!(\"../template/x.rs\"), include_str!(\"one.rs\")];",
            ),
            (
                "a/src/one.rs",
                "mod two;\n#[path = \"../odd/three.rs\"]\nmod three;",
            ),
            ("a/src/one/two.rs", ""),
            ("a/odd/three.rs", ""),
            ("a/template/x.rs", ""),
            ("a/tests/it.rs", ""),
            ("a/tests/big/main.rs", "mod part;"),
            ("a/tests/big/part.rs", ""),
            ("a/speed/queue.rs", ""),
        ];
        assert_eq!(lost(&files), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_nothing_links_is_found() {
        let files = [
            ("a/src/lib.rs", "mod one;"),
            ("a/src/one.rs", ""),
            ("a/src/old.rs", ""),
            ("a/tests/big/part.rs", ""),
        ];
        assert_eq!(lost(&files), ["a/src/old.rs", "a/tests/big/part.rs"]);
    }
}
