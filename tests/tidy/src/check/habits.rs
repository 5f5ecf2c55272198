//! Forbidden habits in code. Entry point: [`check`].

use crate::lexer::find_word;
use crate::{Finding, Repository, RustFile};

/// A comment that begins with this text says why a pause in a test does not wait for an event.
const NOT_A_WAIT: &str = "// Not a wait:";

/// How a test says that plain `cargo test` leaves it to `./test`.
const NEEDS: &str = "ignore = \"needs ";

/// Possible panics, unfinished work, skipped tests, and tests that sleep.
pub fn check(repository: &Repository) -> Vec<Finding> {
    repository
        .rust
        .iter()
        .flat_map(|file| {
            [
                panics(file),
                unfinished(file),
                lint_holes(file),
                sleeps(file),
            ]
            .concat()
        })
        .collect()
}

/// `unwrap` and `expect` in code that users run, unless an attribute nearby says why they cannot fail.
fn panics(file: &RustFile) -> Vec<Finding> {
    if !file.path.starts_with("runtime/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (call, lint) in [
        ("unwrap", "clippy::unwrap_used"),
        ("expect", "clippy::expect_used"),
    ] {
        for at in file.words(call) {
            let method = file.code[..at].trim_end().ends_with('.')
                && file.code[at + call.len()..].starts_with('(');
            if method && !reason_above(file, at, lint) {
                let message = format!(
                    "`{call}` can end the process: return an error, or prove it cannot fail with `#[expect({lint}, reason = …)]`"
                );
                findings.push(Finding::new(&file.path, file.line(at), message));
            }
        }
    }
    findings
}

/// True if the lint is named, with a reason, in the hundred lines above: an attribute of the function or the statement.
fn reason_above(file: &RustFile, at: usize, lint: &str) -> bool {
    let lines: Vec<&str> = file.text[..at].lines().rev().take(100).collect();
    lines.iter().any(|line| line.contains(lint))
}

fn unfinished(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found =
        |at, message: &str| findings.push(Finding::new(&file.path, file.line(at), message));
    for name in ["todo", "unimplemented", "dbg"] {
        for at in
            find_word(&file.code, name).filter(|at| file.code[at + name.len()..].starts_with('!'))
        {
            found(
                at,
                "unfinished work does not land: do it, or leave it out and say so in the documents",
            );
        }
    }
    for at in find_word(&file.code, "ignore").filter(|at| file.code[..*at].ends_with("#[")) {
        if !file.text[at..].starts_with(NEEDS) {
            found(
                at,
                "an ignored test says what `./test` brings for it (`#[ignore = \"needs …\"]`): else make it run, or delete it",
            );
        }
    }
    for mark in [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("HA", "CK"),
    ] {
        for at in find_word(&file.text, mark).filter(|at| in_comment(file, *at)) {
            found(
                at,
                "a note about missing work: do it, or say in the documents what is missing",
            );
        }
    }
    findings
}

/// True in a line's comment. A string with `//` before the offset counts too.
fn in_comment(file: &RustFile, at: usize) -> bool {
    let start = file.text[..at].rfind('\n').map_or(0, |end| end + 1);
    file.code[at..].starts_with(' ') && file.text[start..at].contains("//")
}

/// A lint is lifted at the place that needs it, not for a whole file, unless a generator wrote that.
fn lint_holes(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, _) in file.code.match_indices("#![") {
        let end = file.code[at..]
            .find(']')
            .map_or(file.code.len(), |length| at + length);
        let (code, text) = (&file.code[at..end], &file.text[at..end]);
        let lifts = code.contains("allow(") || code.contains("expect(");
        let generated = text.contains("reason = \"generated code\"");
        if lifts && !generated && file.path.starts_with("runtime/") && !file.in_test(at) {
            let message =
                "a lint lifted for a whole file: lift it at the item that needs it, with a reason";
            findings.push(Finding::new(&file.path, file.line(at), message));
        }
    }
    findings
}

/// Tests wait for conditions, never for time.
fn sleeps(file: &RustFile) -> Vec<Finding> {
    if file.path == "tests/harness/src/eventually.rs" {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for name in ["sleep", "sleep_ms", "sleep_until"] {
        for at in find_word(&file.code, name).filter(|at| file.in_test(*at)) {
            let call = file.code[at + name.len()..].starts_with('(')
                && !file.code[..at].trim_end().ends_with("fn");
            if call && !explained(file, at) && !polls(file, at) {
                let message = "a test that sleeps: wait for the condition, with a deadline, as `windlass_harness::eventually` does, or pause tokio's time";
                findings.push(Finding::new(&file.path, file.line(at), message));
            }
        }
    }
    findings
}

/// True for a pause between two checks of a condition, in a loop that has a deadline.
fn polls(file: &RustFile, at: usize) -> bool {
    let line = file.line(at);
    let lines = file.code.lines().skip(line.saturating_sub(16));
    let near: Vec<&str> = lines.take(26).collect();
    let before = &near[..near.len().min(16)];
    let looped = before.iter().any(|line| {
        find_word(line, "while")
            .chain(find_word(line, "loop"))
            .next()
            .is_some()
    });
    let bounded = near.iter().any(|line| {
        ["deadline", "Deadline", "timeout"]
            .iter()
            .any(|word| line.contains(word))
    });
    looped && bounded
}

fn explained(file: &RustFile, at: usize) -> bool {
    let line = file.line(at);
    let mut lines = file.text.lines().skip(line.saturating_sub(2));
    [lines.next(), lines.next()]
        .into_iter()
        .flatten()
        .any(|line| line.contains(NOT_A_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Repository::of(&[(path, text)]))
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    #[test]
    fn a_panic_without_a_reason_is_found() {
        let path = "runtime/fleet/src/a.rs";
        assert!(
            findings(path, "fn f() {\n    x.unwrap();\n}")[0]
                .starts_with("runtime/fleet/src/a.rs:2: `unwrap`")
        );
        assert_eq!(findings(path, "fn f() { x\n  .expect(\"y\"); }").len(), 1);
        assert!(
            findings(
                path,
                "#[expect(clippy::unwrap_used, reason = \"r\")]\nfn f() { x.unwrap(); }"
            )
            .is_empty()
        );
        assert!(findings(path, "fn f() { x.unwrap_or(1); \"x.unwrap()\"; }").is_empty());
        assert!(findings(path, "#[test]\n#[cfg(test)]\nfn f() { x.unwrap(); }").is_empty());
    }

    #[test]
    fn unfinished_work_is_found() {
        for text in [
            "fn f() { todo!() }",
            "#[ignore = \"slow\"]\nfn t() {}",
            concat!("// TO", "DO: more\n"),
            "fn f() { dbg!(1); }",
        ] {
            assert_eq!(findings("runtime/fleet/src/a.rs", text).len(), 1, "{text}");
        }
        let innocent = concat!("fn todo() { ignore(\"TO", "DO\") }");
        assert!(findings("runtime/fleet/src/a.rs", innocent).is_empty());
    }

    #[test]
    fn a_lint_lifted_for_a_file_is_found() {
        assert_eq!(
            findings(
                "runtime/fleet/src/a.rs",
                "#![allow(dead_code, reason = \"r\")]"
            )
            .len(),
            1
        );
        for text in [
            "#![warn(missing_docs)]",
            "#![allow(missing_docs, reason = \"generated code\")]",
        ] {
            assert!(
                findings("runtime/fleet/src/a.rs", text).is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_test_that_sleeps_is_found() {
        let text = "use tokio::time::sleep;\nasync fn t() {\n    sleep(x).await;\n}";
        assert_eq!(findings("tests/suites/tests/a.rs", text).len(), 1);
        assert!(findings("tests/harness/src/eventually.rs", text).is_empty());
        assert!(findings("runtime/fleet/src/a.rs", text).is_empty());
        let polled = "async fn t() {\n    while !done() {\n        assert!(now() < deadline);\n        sleep(x).await;\n    }\n}";
        assert!(findings("tests/suites/tests/a.rs", polled).is_empty());
        let endless = polled.replace("assert!(now() < deadline);", "");
        assert_eq!(findings("tests/suites/tests/a.rs", &endless).len(), 1);
        let explained = text.replace(
            "    sleep",
            "    // Not a wait: the reconciler is slow.\n    sleep",
        );
        assert!(findings("tests/suites/tests/a.rs", &explained).is_empty());
    }
}
