//! The rules that a guest's description and imports ask for, or that its tests lacked, and that a Reconciler lacks. Entry point: [`missing`].

use crate::config::kinds::RuleSpec;
use crate::config::rbac::{Permissions, lines};
use crate::guests::Lack;
use std::iter::once;
use std::sync::Arc;
use windlass_fleet::Rule;
use windlass_fleet::name::NamePattern;

/// What is needed, or was denied to the project's tests, and is not granted by the rules of a Reconciler. A description does not say where it
/// needs a verb: one that is granted in some namespaces, for some names or in other clusters counts as granted. A denial says where, so it is
/// compared with the namespaces and clusters of the rules.
pub(super) fn missing(
    needed: &[Rule],
    denied: &[Lack],
    (reconciler, granted): &(String, Vec<RuleSpec>),
) -> Option<Lack> {
    let needed = permissions(needed.iter().map(spec));
    let mut lacks = needed.beyond(&permissions(granted.iter().cloned().map(anywhere)));
    lacks.reduce();
    let mut rules = lines(&lacks);
    let of_tests = denied.iter().filter(|lack| lack.reconciler == *reconciler);
    for text in of_tests.flat_map(|lack| &lack.rules) {
        // Another version may have kept other text.
        let Ok(rule) = serde_saphyr::from_str::<RuleSpec>(text) else {
            continue;
        };
        let is_told = rule.clusters.is_none() && grants(&lacks, &rule);
        let there = granted
            .iter()
            .filter(|other| reaches(other, &rule))
            .cloned();
        if !is_told && !grants(&permissions(there), &rule) && !rules.contains(text) {
            rules.push(text.clone());
        }
    }
    let reconciler = reconciler.clone();
    (!rules.is_empty()).then_some(Lack { reconciler, rules })
}

fn grants(granted: &Permissions, rule: &RuleSpec) -> bool {
    let rule = permissions(once(rule.clone()));
    rule.beyond(granted).is_empty()
}

/// Whether a rule is for the clusters of a denial: the request's own, the local one, or one with a name. What a selector matches is not known
/// here, so without names it counts as that cluster.
fn reaches(rule: &RuleSpec, denied: &RuleSpec) -> bool {
    let (Some(clusters), Some(asked)) = (&rule.clusters, &denied.clusters) else {
        return rule.clusters.is_none() && denied.clusters.is_none();
    };
    if asked.local {
        return clusters.local;
    }
    let matches = |name: &String| {
        let mut patterns = clusters.names.iter().map(NamePattern::new);
        patterns.any(|pattern| pattern.matches(name))
    };
    match clusters.names.is_empty() {
        true => clusters.selector.is_some(),
        false => asked.names.iter().all(matches),
    }
}

fn permissions(rules: impl Iterator<Item = RuleSpec>) -> Permissions {
    let mut all = Permissions::default();
    rules.for_each(|rule| all.grant(&rule, None));
    all
}

fn spec(rule: &Rule) -> RuleSpec {
    let texts = |texts: &[Arc<str>]| texts.iter().map(ToString::to_string).collect();
    anywhere(RuleSpec {
        api_groups: texts(&rule.api_groups),
        resources: texts(&rule.resources),
        verbs: texts(&rule.verbs),
        resource_names: Vec::new(),
        namespaces: Vec::new(),
        clusters: None,
    })
}

fn anywhere(rule: RuleSpec) -> RuleSpec {
    RuleSpec {
        namespaces: vec!["*".to_owned()],
        resource_names: Vec::new(),
        clusters: None,
        ..rule
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
            (name.to_owned(), vec![serde_json::from_value(rule).unwrap()])
        };
        let reconcilers = [
            with("reads", &["get", "list", "watch"], "*"),
            with("all", &["*"], "team-a"),
            ("none".to_owned(), Vec::new()),
        ];
        let lacks = |reconciler: &str, verbs: &str| Lack {
            reconciler: reconciler.to_owned(),
            rules: vec![format!(
                r#"{{apiGroups: [apps], resources: [deployments], verbs: [{verbs}], namespaces: ["*"]}}"#
            )],
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
            let lack = |reconciler: &str, rules: &[&str]| Lack {
                reconciler: reconciler.to_owned(),
                rules: rules.iter().map(ToString::to_string).collect(),
            };
            let of_tests = [lack("a", &[denied, "not: [a rule"]), lack("b", &["{}"])];
            let granted = granted
                .iter()
                .map(|rule| serde_saphyr::from_str(rule).unwrap());
            let found = missing(&[], &of_tests, &("a".to_owned(), granted.collect()));
            assert!(found.iter().all(|lack| lack.rules == [denied]), "{found:?}");
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
        let denied = Lack {
            reconciler: "a".to_owned(),
            rules: vec![
                r#"{apiGroups: [""], resources: [secrets], verbs: [get], namespaces: [team-a]}"#
                    .to_owned(),
            ],
        };
        let found = missing(&needed, &[denied], &("a".to_owned(), Vec::new()));
        assert_eq!(
            found.map_or(Vec::new(), |lack| lack.rules),
            [r#"{apiGroups: [""], resources: [secrets], verbs: [get], namespaces: ["*"]}"#]
        );
    }
}
