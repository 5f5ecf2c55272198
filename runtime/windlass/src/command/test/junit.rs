//! The results of `windlass test` as JUnit's XML, which CI systems read. Entry point: [`text`].

use super::{Outcome, Report};
use std::fmt::Write as _;

/// The whole file.
pub(super) fn text(report: &Report) -> String {
    let (all, failed) = (report.cases.len(), report.failed);
    let seconds: f64 = report.cases.iter().map(|case| case.seconds).sum();
    let head = format!("tests=\"{all}\" failures=\"{failed}\" time=\"{seconds:.3}\"");
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {head}>\n  <testsuite name=\"windlass\" {head}>\n"
    );
    for case in &report.cases {
        let (name, seconds) = (escaped(&case.name), case.seconds);
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "    <testcase classname=\"windlass\" name=\"{name}\" time=\"{seconds:.3}\""
        );
        text.push_str(&if case.passed {
            "/>\n".to_owned()
        } else {
            format!(
                ">\n      <failure>{}</failure>\n    </testcase>\n",
                escaped(&reasons(case))
            )
        });
    }
    text + "  </testsuite>\n</testsuites>\n"
}

/// Why a case failed. Further lines of a problem are set in, so that the next problem shows.
pub(super) fn reasons(case: &Outcome) -> String {
    let differences = case.differences.iter().map(ToString::to_string);
    let problems = case
        .problems
        .iter()
        .map(|problem| problem.replace('\n', "\n  "));
    let left = differences.chain(problems);
    let all: Vec<String> = match case.crash.as_ref().and_then(|it| it.schedule.as_ref()) {
        Some(schedule) => schedule.reasons(left),
        None => left.collect(),
    };
    all.join("\n")
}

/// Text for an element or an attribute. Characters that XML cannot have become `?`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            control if control.is_control() => escaped.push('?'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_its_reasons_and_no_character_that_ends_it_early() {
        let case = |name: &str, problems: Vec<String>| Outcome {
            name: name.to_owned(),
            passed: problems.is_empty(),
            seconds: 1.5,
            differences: Vec::new(),
            problems,
            denied: Vec::new(),
            crash: None,
        };
        let report = Report {
            passed: 1,
            failed: 1,
            seed: None,
            cases: vec![
                case("good", Vec::new()),
                case("\"bad\"", vec!["a <b> & \u{7}c".to_owned()]),
            ],
        };
        let text = text(&report);
        for part in [
            "<testsuite name=\"windlass\" tests=\"2\" failures=\"1\" time=\"3.000\">",
            "name=\"good\" time=\"1.500\"/>",
            "name=\"&quot;bad&quot;\"",
            "<failure>a &lt;b&gt; &amp; ?c</failure>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
