//! Rules: what a reconciler may touch. Entry point: [`RuleSpec`].

use crate::config::kinds::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass_files::nearest;
use windlass_fleet::grant::{ClusterRule, Rule, Verb};
use windlass_fleet::name::NamePattern;
use windlass_fleet::selector::{LabelSelector, SelectorError};

/// Grants verbs on resources, in namespaces, in clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RuleSpec {
    /// API groups; `""` is the core group, `*` is all.
    pub(crate) api_groups: Vec<String>,
    /// Plural names, subresources as `pods/status`; `*` is all.
    pub(crate) resources: Vec<String>,
    /// get, list, watch, create, update, patch, delete, deletecollection; `*` is all.
    pub(crate) verbs: Vec<String>,
    /// Names of objects. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resource_names: Vec<String>,
    /// Namespaces; `*` is all and is needed for cluster-scoped resources.
    pub(crate) namespaces: Vec<String>,
    /// Other clusters than the request's own. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clusters: Option<RuleClusters>,
}

/// The other clusters that a rule opens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct RuleClusters {
    /// The local cluster. Default: false.
    pub(crate) local: bool,
    /// Names of clusters; `*` matches any characters. Default: any, if there is a selector, else none.
    pub(crate) names: Vec<String>,
    /// Labels that those clusters have, as `kubectl -l` takes them. Default: any.
    pub(crate) selector: Option<String>,
}

/// The words of `verbs`.
fn verbs() -> impl Iterator<Item = &'static str> {
    let all = Verb::ALL.into_iter().chain([Verb::ANY]);
    all.map(Verb::as_str)
}

/// Rules in the engine's words.
pub(crate) fn rules(rules: &[RuleSpec]) -> Vec<Rule> {
    // The selectors of a checked document can be read.
    let rules = rules.iter().filter_map(|rule| rule.to_rule().ok());
    rules.collect()
}

/// Refuses rules that could never grant what they seem to.
pub(super) fn check(rules: &[RuleSpec]) -> Result<(), Refusal> {
    rules
        .iter()
        .enumerate()
        .try_for_each(|(index, rule)| rule.check(&format!("spec.rules[{index}]")))
}

impl RuleSpec {
    fn check(&self, path: &str) -> Result<(), Refusal> {
        let lists = [
            (
                "apiGroups",
                &self.api_groups,
                "write [\"\"] for the core group",
            ),
            (
                "resources",
                &self.resources,
                "name plurals such as configmaps",
            ),
            ("verbs", &self.verbs, "name verbs such as get, list, watch"),
            ("namespaces", &self.namespaces, "write [\"*\"] for all"),
        ];
        for (field, list, remedy) in lists {
            if list.is_empty() {
                return Err(Refusal::new(
                    format!("{path}.{field}"),
                    format!("the list is empty, the rule grants nothing: {remedy}"),
                ));
            }
        }
        self.check_verbs(path)?;
        self.check_resources(path)?;
        match self.to_rule() {
            Ok(_) => Ok(()),
            Err(error) => Err(Refusal::new(
                format!("{path}.clusters.selector"),
                error.to_string(),
            )),
        }
    }

    /// The rule in the engine's words.
    ///
    /// # Errors
    /// When the selector cannot be read, which a checked document excludes.
    pub(crate) fn to_rule(&self) -> Result<Rule, SelectorError> {
        let arcs = |list: &[String]| list.iter().map(|text| Arc::from(text.as_str())).collect();
        Ok(Rule {
            api_groups: arcs(&self.api_groups),
            resources: arcs(&self.resources),
            verbs: arcs(&self.verbs),
            resource_names: arcs(&self.resource_names),
            namespaces: arcs(&self.namespaces),
            clusters: self
                .clusters
                .as_ref()
                .map(RuleClusters::to_rule)
                .transpose()?,
        })
    }

    fn check_verbs(&self, path: &str) -> Result<(), Refusal> {
        for (index, verb) in self.verbs.iter().enumerate() {
            if !verbs().any(|known| known == verb) {
                let remedy = match nearest(verb, verbs()) {
                    Some(candidate) => format!("did you mean {candidate:?}?"),
                    None => format!("use {}", verbs().collect::<Vec<_>>().join(", ")),
                };
                return Err(Refusal::new(
                    format!("{path}.verbs[{index}]"),
                    format!("{verb:?} is not a verb: {remedy}"),
                ));
            }
        }
        Ok(())
    }

    fn check_resources(&self, path: &str) -> Result<(), Refusal> {
        for (index, resource) in self.resources.iter().enumerate() {
            if resource.is_empty()
                || resource
                    .chars()
                    .any(|c| c.is_ascii_uppercase() || c.is_whitespace())
            {
                let message = format!(
                    "{resource:?} is not a plural: write it as in URLs, for example {:?}",
                    plural_of(resource)
                );
                return Err(Refusal::new(format!("{path}.resources[{index}]"), message));
            }
        }
        Ok(())
    }
}

impl RuleClusters {
    fn to_rule(&self) -> Result<ClusterRule, SelectorError> {
        Ok(ClusterRule {
            local: self.local,
            names: self.names.iter().map(NamePattern::new).collect(),
            selector: self
                .selector
                .as_deref()
                .map(LabelSelector::parse)
                .transpose()?,
        })
    }
}

/// The likely plural of what may be a kind.
fn plural_of(kind: &str) -> String {
    match kind.trim().to_lowercase().as_str() {
        "" => "configmaps".to_owned(),
        word if word.ends_with('s') => word.to_owned(),
        word if word.ends_with('y') => format!("{}ies", &word[..word.len() - 1]),
        word => format!("{word}s"),
    }
}
