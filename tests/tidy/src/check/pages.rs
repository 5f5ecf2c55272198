//! Lines of the pages fit on a screen: one sentence or clause each. Entry point: [`check`].

use super::links::prose;
use crate::{Finding, Repository};

/// Most characters of a line.
const WIDEST: usize = 160;

/// Lines of the pages in the root and in docs/ that are too long. Code and lone links may be longer.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let pages = repository
        .texts_ending(".md")
        .filter(|file| is_page(&file.path));
    let mut findings = Vec::new();
    for page in pages {
        for (index, line) in prose(&page.text) {
            let width = line.chars().count();
            if width > WIDEST && !is_code(line) && !is_link(line) {
                let message = format!(
                    "{width} characters, more than {WIDEST}: write one sentence or clause a line, and a list in place of a wide table"
                );
                findings.push(Finding::new(&page.path, index + 1, message));
            }
        }
    }
    findings
}

fn is_page(path: &str) -> bool {
    !path.contains('/') || path.starts_with("docs/")
}

/// Whether a line is code: it is indented. The caller leaves out fenced code.
fn is_code(line: &str) -> bool {
    line.starts_with("    ")
}

/// Whether a line has only one link, perhaps as an item of a list.
fn is_link(line: &str) -> bool {
    let text = line.trim();
    let text = text.strip_prefix("* ").unwrap_or(text);
    let bare = text.starts_with("http") && !text.contains(' ');
    let named = text.starts_with('[') && text.ends_with(')') && text.matches("](").count() == 1;
    bare || named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let found = check(&Repository::of(&[(path, text)])).into_iter();
        found.map(|finding| finding.line).collect()
    }

    #[test]
    fn a_line_that_is_too_long_is_found() {
        let (fits, long) = ("ä".repeat(160), "ä".repeat(161));
        let text = format!("# Page\n{fits}\n{long}\n| {fits} |\n");
        assert_eq!(lines("README.md", &text), [3, 4]);
        assert_eq!(lines("docs/limits.md", &text), [3, 4]);
        assert_eq!(lines("examples/a/README.md", &text), [0; 0]);
    }

    #[test]
    fn code_and_lone_links_may_be_long() {
        let long = "x".repeat(161);
        let text = format!(
            "```\n{long}\n```\n    {long}\nhttps://x.y/{long}\n* [a name](docs/{long}.md)\n"
        );
        assert_eq!(lines("README.md", &text), [0; 0]);
        let beside = format!("see [a](x), [b]({long})\n");
        assert_eq!(lines("README.md", &beside), [1]);
    }
}
