//! Label selectors, as in a Deployment. Entry point: [`Selector`].

use serde::Deserialize;
use std::collections::BTreeMap;
use windlass_sdk::Object;

/// Labels that an object must have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Selector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expression {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    pub(crate) fn matches(&self, object: &Object) -> bool {
        let equal = |(key, value): (&String, &String)| object.label(key) == Some(value);
        let holds = |one: &Expression| {
            let value = object.label(&one.key);
            let is_listed = value.is_some_and(|value| one.values.iter().any(|one| one == value));
            match one.operator {
                Operator::In => is_listed,
                Operator::NotIn => !is_listed,
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        };
        self.match_labels.iter().all(equal) && self.match_expressions.iter().all(holds)
    }

    /// The same in the syntax of `kubectl -l`.
    pub(crate) fn text(&self) -> String {
        let equal = self
            .match_labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let expressions = self.match_expressions.iter().map(|one| {
            let (key, values) = (&one.key, one.values.join(","));
            match one.operator {
                Operator::In => format!("{key} in ({values})"),
                Operator::NotIn => format!("{key} notin ({values})"),
                Operator::Exists => key.clone(),
                Operator::DoesNotExist => format!("!{key}"),
            }
        });
        equal.chain(expressions).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_decides_as_kubernetes_does() {
        let selector: Selector = serde_json::from_value(json!({
            "matchLabels": {"app": "bin"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["gold", "silver"]},
                {"key": "region", "operator": "NotIn", "values": ["moon"]},
                {"key": "team", "operator": "Exists"},
                {"key": "draft", "operator": "DoesNotExist"},
            ],
        }))
        .unwrap();
        let with = |labels| selector.matches(&Object(json!({"metadata": {"labels": labels}})));
        assert!(with(json!({"app": "bin", "tier": "gold", "team": "a"})));
        assert!(!with(json!({"app": "bin", "tier": "lead", "team": "a"})));
        assert!(!with(
            json!({"app": "bin", "tier": "gold", "team": "a", "region": "moon"})
        ));
        assert!(!with(
            json!({"app": "bin", "tier": "gold", "team": "a", "draft": ""})
        ));
        assert!(!with(json!({"tier": "gold", "team": "a"})));
        let text = "app=bin,tier in (gold,silver),region notin (moon),team,!draft";
        assert_eq!(selector.text(), text);
        assert!(Selector::default().matches(&Object(json!({}))));
    }
}
