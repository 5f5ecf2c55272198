//! The imports that are allowed between a crate's modules. Entry point: [`check`].

use std::collections::{BTreeMap, BTreeSet};

use crate::crates::crates;
use crate::lexer::find_word;
use crate::rust::path_segments;
use crate::{Finding, Repository, RustFile};

/// Crates whose modules import only modules that the root lists above them.
const ORDERED: [&str; 5] = [
    "runtime/fleet",
    "runtime/registry",
    "runtime/apiserver",
    "runtime/author",
    "runtime/windlass",
];

/// An import from one top-level module of a crate to another.
#[derive(Debug)]
struct Edge<'a> {
    from: String,
    to: String,
    file: &'a RustFile,
    at: usize,
}

/// Folders whose crates must have no cycles. The SDK has one: in a native build its raw calls go to its test host, which uses the SDK.
const ACYCLIC: [&str; 2] = ["runtime/", "tests/"];

/// No cycle between a crate's top-level modules; in ordered crates no import of a module listed below.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let all = crates(repository);
    let mut findings = Vec::new();
    for krate in &all {
        let source = format!("{}/src/", krate.folder);
        let root = ["lib.rs", "main.rs"]
            .iter()
            .find_map(|name| repository.rust_file(&format!("{source}{name}")));
        let Some(root) = root else { continue };
        let modules: Vec<String> = root.links().into_iter().map(|link| link.name).collect();
        let edges = edges(repository, root, &source, &modules);
        if ORDERED.contains(&krate.folder) {
            findings.extend(downward(&edges, &modules));
        } else if ACYCLIC.iter().any(|start| krate.folder.starts_with(start)) {
            findings.extend(cycles(&edges));
        }
    }
    findings
}

/// Imports of a module that the crate's root lists further down.
fn downward(edges: &[Edge<'_>], modules: &[String]) -> Vec<Finding> {
    let place = |name: &str| modules.iter().position(|module| module == name);
    let wrong = edges
        .iter()
        .filter(|edge| place(&edge.to) > place(&edge.from));
    wrong
        .map(|edge| {
            let message = format!(
                "`{}` imports `{}`, which the crate's root lists below it: move the shared part up, or reverse the import",
                edge.from, edge.to
            );
            Finding::new(&edge.file.path, edge.file.line(edge.at), message)
        })
        .collect()
}

/// Imports that close a cycle.
fn cycles(edges: &[Edge<'_>]) -> Vec<Finding> {
    let mut graph: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in edges {
        graph.entry(&edge.from).or_default().push(&edge.to);
    }
    // One import of each pair of modules is enough to show the cycle.
    let mut shown = BTreeSet::new();
    let mut findings = Vec::new();
    for edge in edges {
        let Some(back) = route(&graph, &edge.to, &edge.from) else {
            continue;
        };
        if shown.insert((&edge.from, &edge.to)) {
            let message = format!(
                "a cycle of modules: `{}` imports `{}`: move the shared part into a module of its own",
                edge.from,
                back.join("` imports `")
            );
            findings.push(Finding::new(
                &edge.file.path,
                edge.file.line(edge.at),
                message,
            ));
        }
    }
    findings
}

/// The modules on a path of imports from one module to another.
fn route<'a>(
    graph: &BTreeMap<&'a str, Vec<&'a str>>,
    from: &'a str,
    to: &str,
) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![from]];
    let mut seen = vec![from];
    while let Some(way) = ways.pop() {
        let last = *way.last()?;
        if last == to {
            return Some(way);
        }
        for next in graph.get(last).into_iter().flatten() {
            if !seen.contains(next) {
                seen.push(next);
                ways.push([way.as_slice(), &[*next]].concat());
            }
        }
    }
    None
}

/// Every import between different top-level modules, without tests.
fn edges<'a>(
    repository: &'a Repository,
    root: &'a RustFile,
    source: &str,
    modules: &[String],
) -> Vec<Edge<'a>> {
    let reexports = reexports(root, modules);
    let mut edges = Vec::new();
    for file in &repository.rust {
        let Some(inside) = file.path.strip_prefix(source) else {
            continue;
        };
        let from = inside
            .trim_end_matches(".rs")
            .split('/')
            .next()
            .unwrap_or_default();
        if !modules.iter().any(|module| module == from) {
            continue;
        }
        let depth = inside.split('/').count();
        for (target, at) in crate_paths(file, depth) {
            let to = if modules.contains(&target) {
                Some(&target)
            } else {
                reexports.get(&target)
            };
            if let Some(to) = to.filter(|to| *to != from) {
                edges.push(Edge {
                    from: from.to_owned(),
                    to: to.clone(),
                    file,
                    at,
                });
            }
        }
    }
    edges
}

/// The names that the root re-exports, each with its module.
fn reexports(root: &RustFile, modules: &[String]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for at in find_word(&root.code, "use") {
        let end = root.code[at..]
            .find(';')
            .map_or(root.code.len(), |length| at + length);
        let path = root.code[at + 3..end].trim();
        let path = path
            .strip_prefix("crate::")
            .or(path.strip_prefix("self::"))
            .unwrap_or(path);
        let Some((module, names)) = path.split_once("::") else {
            continue;
        };
        if !modules.iter().any(|known| known == module) {
            continue;
        }
        for name in names.trim_matches(['{', '}']).split(',') {
            let name = name
                .rsplit([':', ' '])
                .find(|part| !part.is_empty())
                .unwrap_or_default()
                .trim();
            found.insert(name.trim_matches('}').to_owned(), module.to_owned());
        }
    }
    found
}

/// The first segment behind `crate::`, or behind enough `super::` to reach the root, for every path in the file.
fn crate_paths(file: &RustFile, depth: usize) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for start in ["crate", "super"] {
        for at in file.words(start) {
            if file.code[..at].ends_with("::")
                || !file.code[at..].starts_with(&format!("{start}::"))
            {
                continue;
            }
            let (segments, end) = path_segments(&file.code, at);
            let up = segments
                .iter()
                .take_while(|segment| **segment == "super")
                .count();
            let to_root = if start == "crate" { 1 } else { depth };
            if start == "super" && up != depth {
                continue;
            }
            match segments.get(to_root) {
                Some(segment) => found.push(((*segment).to_owned(), at)),
                None => found.extend(group(&file.code, end).into_iter().map(|name| (name, at))),
            }
        }
    }
    found
}

/// The first segments of a group such as `{a, b::c, d::{e}}` that begins at `at`.
fn group(code: &str, at: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut fresh = false;
    for (index, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'{' => (depth, fresh) = (depth + 1, depth == 0),
            b'}' => depth -= 1,
            b',' => fresh = depth == 1,
            _ if byte.is_ascii_whitespace() => {}
            _ if fresh => {
                let (segments, _) = path_segments(code, index);
                names.extend(segments.first().map(|name| (*name).to_owned()));
                fresh = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(folder: &str, files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![(format!("{folder}/Cargo.toml"), "[package]".to_owned())];
        all.extend(
            files
                .iter()
                .map(|(path, text)| (format!("{folder}/src/{path}"), (*text).to_owned())),
        );
        let all: Vec<_> = all
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        check(&Repository::of(&all))
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    #[test]
    fn imports_that_point_one_way_pass() {
        let files = [
            (
                "lib.rs",
                "pub mod name;\npub mod queue;\npub use name::{Cluster, Key};",
            ),
            (
                "name.rs",
                "use crate::name::x;\n#[cfg(test)]\nmod tests { use crate::queue::Queue; }",
            ),
            ("queue.rs", "use crate::{Cluster, name::Key};\nmod fair;"),
            ("queue/fair.rs", "use super::Queue;\nuse crate::queue::y;"),
        ];
        assert_eq!(findings("runtime/fleet", &files), Vec::<String>::new());
        assert_eq!(findings("runtime/sandbox", &files), Vec::<String>::new());
    }

    #[test]
    fn an_import_of_a_module_listed_below_is_found() {
        let files = [
            ("lib.rs", "mod name;\nmod queue;"),
            ("name.rs", "\nuse crate::queue::Queue;"),
            ("queue.rs", ""),
        ];
        let found = findings("runtime/fleet", &files);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("runtime/fleet/src/name.rs:2: `name` imports `queue`"),
            "{found:?}"
        );
    }

    #[test]
    fn a_cycle_is_found_through_groups_reexports_and_super() {
        for import in [
            "use crate::b::X;",
            "use crate::{b::X};",
            "use crate::X;",
            "use super::b::X;",
            "fn f() -> crate::b::X {}",
        ] {
            let files = [
                ("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::{X, Y as Z};"),
                ("a.rs", import),
                ("b.rs", "use crate::c::C;"),
                ("c.rs", "mod deep;"),
                ("c/deep.rs", "use super::super::a::A;"),
            ];
            let found = findings("runtime/sandbox", &files);
            assert_eq!(found.len(), 3, "{import}: {found:?}");
            assert!(
                found[0].contains("`a` imports `b` imports `c` imports `a`"),
                "{found:?}"
            );
        }
    }
}
