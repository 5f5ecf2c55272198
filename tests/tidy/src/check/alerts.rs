//! Alerts, recorded rules and the dashboard are about metrics that exist. Each rule is tested, and an alert has a section in the runbook.
//! Entry point: [`check`].

use crate::{Finding, Repository};

const RULES: &str = "monitoring/alerts.yaml";
const TESTS: &str = "monitoring/alerts.test.yaml";
const DASHBOARD: &str = "monitoring/dashboard.json";
const RUNBOOK: &str = "docs/runbook.md";
/// The page that lists all metrics.
const METRICS: &str = "docs/operating.md";
/// How their names begin.
const FAMILIES: [&str; 6] = [
    "windlass_",
    "controller_runtime_",
    "workqueue_",
    "process_",
    "leader_election_",
    "rest_client_",
];

/// What alerts, recorded rules and the dashboard lack.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let paths = [RULES, TESTS, DASHBOARD, RUNBOOK, METRICS];
    let [rules, tests, dashboard, runbook, metrics] = paths.map(|path| {
        let text = repository.texts.iter().find(|file| file.path == path);
        if text.is_none() {
            findings.push(Finding::new(path, 1, "the file is missing"));
        }
        text.map_or("", |file| &file.text)
    });
    for (number, line) in (1..).zip(rules.lines()) {
        let mut parts = Vec::new();
        if let Some((_, name)) = line.split_once("alert: ") {
            parts.push((TESTS, tests, format!("name: {name} fires\n")));
            parts.push((TESTS, tests, format!("name: {name} does not fire\n")));
            parts.push((RUNBOOK, runbook, format!("### {name}\n")));
        }
        if let Some((_, name)) = line.split_once("record: ") {
            parts.push((TESTS, tests, format!("- expr: {name}")));
            parts.push((METRICS, metrics, format!("`{name}`")));
        }
        for (path, text, part) in parts {
            if !text.contains(&part) {
                let message = format!("{path} lacks {:?}", part.trim_end());
                findings.push(Finding::new(RULES, number, &message));
            }
        }
    }
    let expressions = [
        (RULES, rules, "expr: "),
        (DASHBOARD, dashboard, "\"expr\": "),
    ];
    for (path, text, before) in expressions {
        for (number, line) in (1..).zip(text.lines()) {
            let expression = line.split_once(before).map_or("", |(_, rest)| rest);
            for metric in metrics_of(expression) {
                if !metrics.contains(&format!("`{metric}`")) {
                    let message = format!("{METRICS} lists no metric {metric}");
                    findings.push(Finding::new(path, number, &message));
                }
            }
        }
    }
    findings
}

/// The metrics of ours in an expression, recorded ones by their whole names.
fn metrics_of(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let of_ours = |word: &&str| {
        let recorded = word.contains(':') && word.starts_with(|c: char| c.is_ascii_alphabetic());
        recorded || FAMILIES.iter().any(|begin| word.starts_with(begin))
    };
    words
        .filter(of_ours)
        .map(|word| word.strip_suffix("_bucket").unwrap_or(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "groups:\n  - rules:\n      - alert: Down\n        expr: windlass_up == 0\n";
    const TESTED: &str = "  - name: Down fires\n  - name: Down does not fire\n";

    fn found(tests: &str, runbook: &str, metrics: &str) -> usize {
        findings(RULE, tests, "", runbook, metrics)
    }

    fn findings(rules: &str, tests: &str, panel: &str, runbook: &str, metrics: &str) -> usize {
        let files = [
            (RULES, rules),
            (TESTS, tests),
            (DASHBOARD, panel),
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
        assert_eq!(check(&Repository::default()).len(), 5);
    }

    #[test]
    fn a_recorded_rule_is_tested_and_listed_and_a_panel_is_about_what_is_listed() {
        let rule =
            "      - record: job:windlass_up:sum\n        expr: 'sum(windlass_up{a=\"b\"})'\n";
        let tested = "      - expr: job:windlass_up:sum > 0\n";
        let panel = "  \"expr\": \"max(job:windlass_up:sum{job=~\\\"$job\\\"} + windlass_up)\",\n";
        let listed = "* `windlass_up`\n* `job:windlass_up:sum`\n";
        assert_eq!(findings(rule, tested, panel, "", listed), 0);
        assert_eq!(findings(rule, "", panel, "", listed), 1);
        // Of the rule's own line, and of the panel.
        assert_eq!(findings(rule, tested, panel, "", "* `windlass_up`\n"), 2);
        assert_eq!(
            findings(rule, tested, panel, "", "* `job:windlass_up:sum`\n"),
            2
        );
    }
}
