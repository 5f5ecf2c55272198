//! The rules that a guest's description and imports ask for, and that a Reconciler lacks. Entry point: [`missing`].

use crate::config::kinds::RuleSpec;
use crate::config::rbac::{Permissions, lines};
use crate::guests::Lack;
use std::sync::Arc;
use windlass_fleet::Rule;

/// What is needed, or was denied to the project's tests, and is not granted by the rules of a Reconciler. A verb that is granted in some
/// namespaces, for some names or in other clusters counts as granted.
pub(super) fn missing(
    needed: &[Rule],
    denied: &[Lack],
    (reconciler, granted): &(String, Vec<RuleSpec>),
) -> Option<Lack> {
    let of_tests = denied.iter().filter(|lack| lack.reconciler == *reconciler);
    // What a test was denied may name no resource, but a cluster: that is no rule of its own.
    let of_tests = of_tests
        .flat_map(|lack| &lack.rules)
        .filter_map(|rule| serde_saphyr::from_str::<Vec<RuleSpec>>(rule).ok())
        .flatten()
        .map(anywhere);
    let needed = permissions(needed.iter().map(spec).chain(of_tests));
    let granted = permissions(granted.iter().cloned().map(anywhere));
    let mut lacks = needed.beyond(&granted);
    lacks.reduce();
    let (reconciler, rules) = (reconciler.clone(), lines(&lacks));
    (!rules.is_empty()).then_some(Lack { reconciler, rules })
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
        let denied = Lack {
            reconciler: "reads".to_owned(),
            rules: vec![
                r#"- {apiGroups: [apps], resources: [deployments], verbs: [delete], namespaces: ["team-a"]}"#.to_owned(),
                r#"- {apiGroups: [apps], resources: [deployments], verbs: [get], namespaces: ["team-a"]}"#.to_owned(),
                "- {clusters: {local: true}}".to_owned(),
            ],
        };
        let found = missing(&[], &[denied], &reconcilers[0]);
        assert_eq!(found, Some(lacks("reads", "delete")));
    }
}
