//! Phrases of an old style that are hard to read. Entry point: [`check`].

use super::links::prose;
use crate::{Finding, Repository};

/// This file, which names the phrases.
const OWN: &str = "tests/tidy/src/check/phrases.rs";

/// A phrase in lower case, and what to write in its place. Each is so precise that no plain sentence has it.
const OLD: [(&str, &str); 36] = [
    ("it is had", "name the subject and the verb"),
    ("had look", "`was checked`"),
    ("be had", "`be available`"),
    ("are had", "`are available`"),
    ("owned, it would", "the condition after the rule"),
    ("it would be there twice", "`it is stored twice`"),
    ("half forgotten", "`decays`"),
    ("in long ones", "name the thing"),
    ("turn their wheels", "`make progress`"),
    ("nobody who", "name the user"),
    ("everybody who", "name the users"),
    ("somebody who", "name the user"),
    ("whoever", "name the person or the part"),
    ("have who is", "name the person or the part"),
    ("for who", "`for callers`"),
    ("asks whom", "name the person or the part"),
    ("who refers to", "`objects that refer to`"),
    ("told of", "`reported`"),
    ("is told with", "`is reported with`"),
    ("cannot be told", "`is unknown`"),
    ("takes note of", "`stores`"),
    ("lets go of", "`closes` or `drops`"),
    ("what comes of", "`the result of`"),
    ("what becomes of", "`the result of`"),
    ("what is brought", "name the thing"),
    ("whatever becomes of", "`whether … succeeds or not`"),
    ("whatever comes", "name the thing"),
    ("reckoned", "`assumed` or `counted`"),
    ("gone back to", "`rolled back to`"),
    ("roll backs", "`rollbacks`"),
    ("made good", "`repaired`"),
    ("mend", "`correct` or `repair`"),
    ("mends", "`corrects` or `repairs`"),
    ("mended", "`corrected` or `repaired`"),
    ("for want of", "`for lack of`"),
    ("the revision before", "`the previous revision`"),
];

/// Old phrases in Markdown pages, where fenced code may quote them, in the contract, and in Rust: comments, texts and names.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pages = repository.texts_ending(".md");
    for page in pages.chain(repository.texts_ending(".wit")) {
        let lines = prose(&page.text);
        findings.extend(lines.flat_map(|(index, line)| in_line(&page.path, index, line)));
    }
    for file in repository.rust.iter().filter(|file| file.path != OWN) {
        let lines = file.text.lines().enumerate();
        findings.extend(lines.flat_map(|(index, line)| in_line(&file.path, index, line)));
    }
    findings
}

fn in_line(path: &str, index: usize, line: &str) -> Vec<Finding> {
    let line = line.to_lowercase();
    let found = OLD.iter().filter(|(phrase, _)| has(&line, phrase));
    found
        .map(|(phrase, instead)| {
            let message = format!("`{phrase}` is hard to read, instead: {instead}");
            Finding::new(path, index + 1, message)
        })
        .collect()
}

/// Whether a line has a phrase as whole words.
fn has(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + phrase.len()..].chars().next();
        ![before, after]
            .into_iter()
            .flatten()
            .any(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let findings = check(&Repository::of(&[(path, text)])).into_iter();
        findings
            .map(|finding| finding.message.split('`').nth(1).unwrap().to_owned())
            .collect()
    }

    #[test]
    fn old_phrases_are_found_in_pages_and_in_the_contract() {
        let text = "In it is had look now and then.\nFor want of room.\n";
        let expected = ["it is had", "had look", "for want of"];
        assert_eq!(found("docs/a.md", text), expected);
        assert_eq!(
            found("wit/a.wit", "/// Of what is brought.\n"),
            ["what is brought"]
        );
    }

    #[test]
    fn old_phrases_are_found_in_rust() {
        let text = "/// For who asks.\nfn f() {\n    panic!(\"it cannot be had\");\n}\n";
        assert_eq!(found("runtime/a.rs", text), ["for who", "be had"]);
        assert_eq!(found(OWN, text), [""; 0]);
    }

    #[test]
    fn plain_words_and_code_pass() {
        let text = "We recommend the default.\n```\nmend the guest\n```\n";
        assert_eq!(found("README.md", text), [""; 0]);
        assert_eq!(found("a.yaml", "# mend the guest\n"), [""; 0]);
    }

    #[test]
    fn phrases_are_in_lower_case_and_stand_once() {
        for (index, (phrase, instead)) in OLD.iter().enumerate() {
            assert_eq!(*phrase, phrase.to_lowercase());
            assert!(!instead.is_empty());
            assert!(OLD[..index].iter().all(|(other, _)| other != phrase));
        }
    }
}
