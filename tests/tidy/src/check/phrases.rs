//! Phrases of an old style that are hard to read. Entry point: [`check`].

use super::links::prose;
use crate::{Finding, Repository};

/// A phrase in lower case, and what to write in its place. Each is so precise that no plain sentence has it.
const OLD: [(&str, &str); 29] = [
    ("it is had", "name the subject and the verb"),
    ("is had look", "`is checked`"),
    ("had look", "`was checked`"),
    ("owned, it would", "the condition after the rule"),
    ("it would be there twice", "`it is stored twice`"),
    ("half forgotten", "`decays`"),
    ("in long ones", "name the thing"),
    ("turn their wheels", "`make progress`"),
    ("nobody who uses", "name the user"),
    ("have who is", "name the person or the part"),
    ("for who has", "name the person or the part"),
    ("for who asks", "`for callers`"),
    ("asks whom", "name the person or the part"),
    ("who refers to", "`objects that refer to`"),
    ("cannot be had", "`is not available`"),
    ("is to be had", "`is available`"),
    ("cannot be told", "`is unknown`"),
    ("is told with", "`is reported with`"),
    ("what comes of it", "`the result`"),
    ("what is brought", "name the thing"),
    ("whatever becomes of", "`whether … succeeds or not`"),
    ("whatever comes of", "`whether … succeeds or not`"),
    ("is reckoned to", "`is assumed to`"),
    ("gone back to", "`rolled back to`"),
    ("roll backs", "`rollbacks`"),
    ("made good by", "`repaired by`"),
    ("mend the", "`correct the`"),
    ("for want of", "`for lack of`"),
    ("the revision before", "`the previous revision`"),
];

/// Old phrases in Markdown pages and in the contract; fenced code may quote them.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let pages = repository.texts_ending(".md");
    let mut findings = Vec::new();
    for page in pages.chain(repository.texts_ending(".wit")) {
        for (index, line) in prose(&page.text) {
            let line = line.to_lowercase();
            for (phrase, instead) in OLD.iter().filter(|(phrase, _)| has(&line, phrase)) {
                let message = format!("`{phrase}` is hard to read: write {instead}");
                findings.push(Finding::new(&page.path, index + 1, message));
            }
        }
    }
    findings
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
        let expected = ["it is had", "is had look", "had look", "for want of"];
        assert_eq!(found("docs/a.md", text), expected);
        assert_eq!(
            found("wit/a.wit", "/// Of what is brought.\n"),
            ["what is brought"]
        );
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
