//! The rules that a guest's description and imports ask for, or that its tests lacked, and that a Reconciler lacks. Entry point: [`missing`].

use crate::guests::Lack;
use windlass_fleet::Rule;
use windlass_fleet::grant::RuleSet;

/// What is needed, or was denied to the project's tests, and is not granted by the rules of a Reconciler. A description does not say where it
/// needs a verb: one that is granted in some namespaces, for some names or in other clusters counts as granted. A denial says where, so it is
/// compared with the namespaces and clusters of the rules.
pub(super) fn missing(
    needed: &[Rule],
    denied: &[(String, Vec<Rule>)],
    (reconciler, granted): &(String, Vec<Rule>),
) -> Option<Lack> {
    let mut lacks = anywhere(needed).minus(&anywhere(granted));
    lacks.reduce();
    let mut rules = lacks.rules();
    let of_tests = denied.iter().filter(|(name, _)| name == reconciler);
    for rule in of_tests.flat_map(|(_, rules)| rules) {
        let asked = RuleSet::from_iter([rule]);
        let there = granted.iter().filter(|other| reaches(other, rule));
        let is_told = rule.clusters.is_none() && asked.minus(&lacks).is_empty();
        let is_granted = asked.minus(&there.collect()).is_empty();
        if !is_told && !is_granted && !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    let reconciler = reconciler.clone();
    (!rules.is_empty()).then_some(Lack { reconciler, rules })
}

/// Whether a rule is for the clusters of a denial: the request's own, the local one, or one with a name. What a selector matches is not known
/// here, so without names it counts as that cluster.
fn reaches(rule: &Rule, denied: &Rule) -> bool {
    match (&rule.clusters, &denied.clusters) {
        (Some(clusters), Some(named)) => clusters.may_match(named),
        (own, request) => own.is_none() && request.is_none(),
    }
}

/// What rules grant, wherever and on whichever objects that is.
fn anywhere(rules: &[Rule]) -> RuleSet {
    let rules = rules.iter().map(|rule| Rule {
        namespaces: vec!["*".into()],
        resource_names: Vec::new(),
        ..rule.clone()
    });
    rules.collect::<Vec<_>>().iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::kinds::RuleSpec;
    use serde_json::json;

    fn read(rule: &str) -> Rule {
        let spec: RuleSpec = serde_saphyr::from_str(rule).unwrap();
        spec.to_rule().unwrap()
    }

    #[test]
    fn what_a_guest_watches_and_owns_is_compared_with_the_rules_of_each_reconciler() {
        let needed = [Rule {
            api_groups: vec!["apps".into()],
            resources: vec!["deployments".into()],
            verbs: ["get", "list", "watch", "patch"].map(Into::into).into(),
            ..Rule::default()
        }];
        let with = |name: &str, verbs: &[&str], namespace: &str| {
            let rule = json!({"apiGroups": ["*"], "resources": ["deployments"], "verbs": verbs, "namespaces": [namespace]});
            (name.to_owned(), vec![read(&rule.to_string())])
        };
        let reconcilers = [
            with("reads", &["get", "list", "watch"], "*"),
            with("all", &["*"], "team-a"),
            ("none".to_owned(), Vec::new()),
        ];
        let lacks = |reconciler: &str, verbs: &str| Lack {
            reconciler: reconciler.to_owned(),
            rules: vec![read(&format!(
                r#"{{apiGroups: [apps], resources: [deployments], verbs: [{verbs}], namespaces: ["*"]}}"#
            ))],
        };
        let found: Vec<Lack> = reconcilers
            .iter()
            .filter_map(|one| missing(&needed, &[], one))
            .collect();
        assert_eq!(
            found,
            [
                lacks("reads", "patch"),
                lacks("none", "get, list, watch, patch")
            ]
        );
    }

    #[test]
    fn what_tests_were_denied_is_missing_until_it_is_granted_there() {
        let rule = |verb: &str, more: &str| {
            format!(
                "{{apiGroups: [\"\"], resources: [secrets], verbs: [{verb}], namespaces: {more}}}"
            )
        };
        let is_missing = |denied: &str, granted: &[&str]| {
            let denied = vec![read(denied)];
            let of_tests = [
                ("a".to_owned(), denied.clone()),
                ("b".to_owned(), vec![Rule::default()]),
            ];
            let granted = granted.iter().map(|rule| read(rule));
            let found = missing(&[], &of_tests, &("a".to_owned(), granted.collect()));
            assert!(found.iter().all(|lack| lack.rules == denied), "{found:?}");
            found.is_some()
        };
        let here = rule("get", "[team-a]");
        let local = rule("get", "[team-a], clusters: {local: true}");
        let named = |names: &str| rule("get", &format!("[team-a], clusters: {{names: [{names}]}}"));
        let hub = named("hub-eu");
        let list = rule("list", "[team-a]");
        for (denied, granted) in [
            (&here, &rule("get", "[team-b]")),
            (&here, &list),
            (&here, &local),
            (&local, &here),
            (&local, &hub),
            (&hub, &named("hub-us")),
            (
                &hub,
                &rule("get", "[team-a], clusters: {names: [us], selector: tier}"),
            ),
            (&hub, &local),
        ] {
            assert!(is_missing(denied, &[granted, &list]), "{denied} {granted}");
        }
        for (denied, granted) in [
            (&here, &rule("get", "[team-b, team-a]")),
            (&here, &rule("\"*\"", "[\"*\"]")),
            (&local, &rule("get", "[\"*\"], clusters: {local: true}")),
            (&hub, &named("\"hub-*\"")),
            (&hub, &rule("get", "[team-a], clusters: {selector: tier}")),
        ] {
            assert!(!is_missing(denied, &[&list, granted]), "{denied} {granted}");
        }
    }

    #[test]
    fn a_rule_that_a_description_asks_for_is_not_told_twice() {
        let needed = [Rule {
            api_groups: vec!["".into()],
            resources: vec!["secrets".into()],
            verbs: vec!["get".into()],
            ..Rule::default()
        }];
        let rule = |namespace: &str| {
            read(&format!(
                r#"{{apiGroups: [""], resources: [secrets], verbs: [get], namespaces: ["{namespace}"]}}"#
            ))
        };
        let denied = ("a".to_owned(), vec![rule("team-a")]);
        let found = missing(&needed, &[denied], &("a".to_owned(), Vec::new()));
        assert_eq!(found.map_or(Vec::new(), |lack| lack.rules), [rule("*")]);
    }
}
