//! Links between documents have a target. Entry point: [`check`].

use crate::Finding;
use crate::repository::{Repository, TextFile, normal};

/// Relative links of Markdown files to a missing file, folder or heading.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let documents: Vec<&TextFile> = repository.texts_ending(".md").collect();
    let mut findings = Vec::new();
    for document in &documents {
        for (target, line) in links(&document.text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                document.path.clone()
            } else {
                beside(&document.path, file)
            };
            if !exists(repository, &path) {
                findings.push(Finding::new(
                    &document.path,
                    line,
                    format!("the link `{target}` leads to no file: there is no {path}"),
                ));
                continue;
            }
            let headings = documents
                .iter()
                .find(|other| other.path == path)
                .map(|other| headings(&other.text));
            if !anchor.is_empty()
                && headings.is_some_and(|headings| !headings.contains(&anchor.to_owned()))
            {
                findings.push(Finding::new(
                    &document.path,
                    line,
                    format!("the link `{target}` leads to no heading of {path}"),
                ));
            }
        }
    }
    findings
}

/// The targets of `[text](target)` links that stay inside the repository, with their lines. Links in code do not count.
fn links(text: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (index, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            let before = &line[..at];
            let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
            let in_code = before.matches('`').count() % 2 == 1;
            if !in_code
                && !target.contains("://")
                && !target.starts_with("mailto:")
                && !target.is_empty()
            {
                found.push((target, index + 1));
            }
        }
    }
    found
}

/// The lines outside code blocks, with their index.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The anchors of a document's headings, in the format of code hosts.
fn headings(text: &str) -> Vec<String> {
    let lines = prose(text)
        .map(|(_, line)| line)
        .filter(|line| line.starts_with('#'));
    lines
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| {
        if c == ' ' {
            '-'
        } else {
            c.to_ascii_lowercase()
        }
    })
    .collect()
}

fn beside(document: &str, file: &str) -> String {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    match file.strip_prefix('/') {
        Some(rooted) => normal(rooted),
        None => normal(&format!("{folder}/{file}")),
    }
}

fn exists(repository: &Repository, path: &str) -> bool {
    path.is_empty()
        || repository.paths.iter().any(|known| {
            known == path
                || known
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.starts_with('/'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        let repository = Repository::of(&[
            ("docs/a.md", text),
            ("docs/b.md", "# One `two`: three\n"),
            ("wit/x.wit", ""),
        ]);
        let found = check(&repository);
        found
            .into_iter()
            .map(|finding| finding.message.split('`').nth(1).unwrap().to_owned())
            .collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "# Top\n[b](b.md) [w](../wit) [h](b.md#one-two-three) [t](#top) [u](https://x.y/z)\n```\n[c](none)\n```\n`[d](none)`\n";
        assert_eq!(targets(text), Vec::<String>::new());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        assert_eq!(
            targets("[a](c.md) [b](b.md#four) [c](#none)\n"),
            ["c.md", "b.md#four", "#none"]
        );
    }
}
