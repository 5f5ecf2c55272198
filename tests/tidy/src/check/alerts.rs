//! Each alert is about metrics that exist, is tested, and has a section in the runbook. Entry point: [`check`].

use crate::{Finding, Repository};

const RULES: &str = "monitoring/alerts.yaml";
const TESTS: &str = "monitoring/alerts.test.yaml";
const RUNBOOK: &str = "docs/runbook.md";
/// The page that lists all metrics.
const METRICS: &str = "docs/operating.md";
/// How their names begin.
const FAMILIES: [&str; 5] = [
    "windlass_",
    "controller_runtime_",
    "workqueue_",
    "process_",
    "leader_election_",
];

/// What alerts lack.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let [rules, tests, runbook, metrics] = [RULES, TESTS, RUNBOOK, METRICS].map(|path| {
        let text = repository.texts.iter().find(|file| file.path == path);
        if text.is_none() {
            findings.push(Finding::new(path, 1, "the file is missing"));
        }
        text.map_or("", |file| &file.text)
    });
    for (number, line) in (1..).zip(rules.lines()) {
        if let Some((_, name)) = line.split_once("alert: ") {
            for (path, text, part) in [
                (TESTS, tests, format!("name: {name} fires\n")),
                (TESTS, tests, format!("name: {name} does not fire\n")),
                (RUNBOOK, runbook, format!("### {name}\n")),
            ] {
                if !text.contains(&part) {
                    let message = format!("{path} lacks {:?}", part.trim_end());
                    findings.push(Finding::new(RULES, number, &message));
                }
            }
        }
        if let Some((_, expression)) = line.split_once("expr: ") {
            let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let of_ours = |word: &&str| FAMILIES.iter().any(|begin| word.starts_with(begin));
            for word in words.filter(of_ours) {
                let metric = word.strip_suffix("_bucket").unwrap_or(word);
                if !metrics.contains(&format!("`{metric}`")) {
                    let message = format!("{METRICS} lists no metric {metric}");
                    findings.push(Finding::new(RULES, number, &message));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "groups:\n  - rules:\n      - alert: Down\n        expr: windlass_up == 0\n";
    const TESTED: &str = "  - name: Down fires\n  - name: Down does not fire\n";

    fn found(tests: &str, runbook: &str, metrics: &str) -> usize {
        let files = [
            (RULES, RULE),
            (TESTS, tests),
            (RUNBOOK, runbook),
            (METRICS, metrics),
        ];
        check(&Repository::of(&files)).len()
    }

    #[test]
    fn an_alert_is_about_a_metric_is_tested_and_has_a_section() {
        let (section, metric) = ("### Down\n", "* `windlass_up`: 1\n");
        assert_eq!(found(TESTED, section, metric), 0);
        assert_eq!(found("", section, metric), 2);
        assert_eq!(found(TESTED, "### Downhill\n", metric), 1);
        assert_eq!(found(TESTED, section, "* `windlass_up_total`\n"), 1);
        assert_eq!(check(&Repository::default()).len(), 4);
    }
}
