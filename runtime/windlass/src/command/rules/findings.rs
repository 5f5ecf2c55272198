//! What a run of the tests with all rights says about the rules of a project. Entry point: [`Findings::of`].

use crate::config::kinds;
use crate::config::load::Configuration;
use crate::guests::{Lack, ReconcilerNeeds};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use windlass_fleet::grant::{ClusterRule, Need, RuleSet};
use windlass_fleet::{ClusterName, FLEET_GROUP, GroupVersionKind, Rule};

/// What is wrong with the rules.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    /// What was needed and is not granted.
    pub(super) missing: Vec<Lack>,
    /// Granted, and used by no test.
    pub(super) unused: Vec<Unused>,
    /// Kinds in calls that no cluster serves.
    pub(super) unknown: Vec<Unknown>,
}

/// A rule that granted nothing.
#[derive(Debug, Serialize, PartialEq)]
pub(super) struct Unused {
    pub(super) reconciler: String,
    /// Its place in `spec.rules`.
    #[serde(skip)]
    pub(super) at: usize,
    #[serde(serialize_with = "as_text")]
    pub(super) rule: Rule,
}

/// A kind that no cluster serves.
#[derive(Debug, Serialize)]
pub(super) struct Unknown {
    pub(super) reconciler: String,
    #[serde(serialize_with = "as_text")]
    pub(super) kind: GroupVersionKind,
    /// The served kind that is most like it.
    #[serde(serialize_with = "as_text_if_any")]
    pub(super) like: Option<GroupVersionKind>,
}

fn as_text<S: Serializer>(value: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

fn as_text_if_any<S: Serializer>(
    value: &Option<GroupVersionKind>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value
        .as_ref()
        .map(ToString::to_string)
        .serialize(serializer)
}

impl Findings {
    /// Compares what was noted with what the documents grant.
    pub(super) fn of(documents: &Configuration, needs: &ReconcilerNeeds) -> Self {
        let mut findings = Self::default();
        for (reconciler, noted) in needs.noted() {
            let mut reconcilers = documents.reconcilers();
            let granted = reconcilers.find(|(document, _)| document.identity.name == reconciler);
            let granted = granted.map_or(Vec::new(), |(_, spec)| kinds::rules(&spec.rules));
            let rules = rules(&noted.needs, &granted);
            let unused = granted.into_iter().enumerate();
            let unused = unused.filter(|(_, rule)| !noted.used.contains(rule));
            findings.unused.extend(unused.map(|(at, rule)| Unused {
                reconciler: reconciler.clone(),
                at,
                rule,
            }));
            findings
                .unknown
                .extend(noted.unknown.into_iter().map(|(kind, like)| Unknown {
                    reconciler: reconciler.clone(),
                    kind,
                    like,
                }));
            if !rules.is_empty() {
                findings.missing.push(Lack { reconciler, rules });
            }
        }
        findings
    }

    /// The unused rules of each Reconciler, by their places.
    pub(super) fn unused_by_reconciler(&self) -> BTreeMap<&str, Vec<&Unused>> {
        let mut all: BTreeMap<&str, Vec<&Unused>> = BTreeMap::new();
        for one in &self.unused {
            all.entry(&one.reconciler).or_default().push(one);
        }
        all
    }
}

/// The namespaces that rules are about, for the request's own cluster or for others; none: all of them, as tests have objects in some, and
/// their reconciler is for others too.
fn named(granted: &[Rule], own: bool) -> BTreeSet<&str> {
    let rules = granted.iter().filter(|rule| rule.clusters.is_none() == own);
    let all = rules.flat_map(|rule| rule.namespaces.iter().map(|name| &**name));
    let all: BTreeSet<&str> = all.collect();
    Some(all)
        .filter(|all| !all.contains("*"))
        .unwrap_or_default()
}

/// The rules for needs: first those for the request's own cluster. If those that are granted name namespaces, they are for these and for those
/// of the needs, else for all.
fn rules(needs: &BTreeSet<Need>, granted: &[Rule]) -> Vec<Rule> {
    let [own, other] = [true, false].map(|own| named(granted, own));
    // The kinds of the host apart: their rules open clusters.
    let mut by_cluster: BTreeMap<(Option<&ClusterName>, bool), RuleSet> = BTreeMap::new();
    for need in needs {
        let is_of_host = &*need.right.group == FLEET_GROUP;
        let rights = by_cluster
            .entry((need.cluster.as_ref(), is_of_host))
            .or_default();
        let named = match need.cluster {
            None => &own,
            Some(_) => &other,
        };
        let right = || need.right.clone();
        match &need.right.namespace {
            _ if named.is_empty() || !need.namespaced => rights.add(right().within(None)),
            Some(_) => rights.add(right()),
            None => rights.extend(named.iter().map(|name| right().within(*name))),
        }
    }
    // Clusters with the same rights have the same rules.
    let mut merged: Vec<(Option<ClusterRule>, RuleSet)> = Vec::new();
    for ((cluster, _), mut rights) in by_cluster {
        rights.reduce();
        let clusters = cluster.map(ClusterRule::only);
        let is_other = |clusters: &Option<ClusterRule>| {
            clusters.as_ref().is_some_and(ClusterRule::matches_others)
        };
        let mut others = merged.iter_mut();
        let same =
            others.find(|(names, own)| is_other(names) && is_other(&clusters) && *own == rights);
        match (same, clusters) {
            (Some((Some(names), _)), Some(more)) => names.names.extend(more.names),
            (_, clusters) => merged.push((clusters, rights)),
        }
    }
    let rules = merged.into_iter().flat_map(|(clusters, rights)| {
        rights.rules().into_iter().map(move |rule| {
            Rule {
                clusters: clusters.clone(),
                ..rule
            }
            .of_use()
        })
    });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::grant::{Right, Verb};

    fn need(resource: &str, verb: Verb, namespace: Option<&str>, cluster: Option<&str>) -> Need {
        Need {
            cluster: cluster.map(|name| ClusterName::new(name).unwrap()),
            right: Right::new("", resource, verb).within(namespace),
            namespaced: resource != "nodes",
        }
    }

    fn granted(namespaces: &[&str], is_local: bool) -> Rule {
        Rule {
            namespaces: namespaces.iter().copied().map(Into::into).collect(),
            clusters: is_local.then(|| ClusterRule::only(&ClusterName::local())),
            ..Rule::default()
        }
    }

    fn lines(needs: &BTreeSet<Need>, granted: &[Rule]) -> Vec<String> {
        let rules = rules(needs, granted);
        rules.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn needs_become_the_fewest_rules_for_each_cluster() {
        let needs = BTreeSet::from([
            need("services", Verb::Patch, Some("a"), None),
            need("services", Verb::List, None, None),
            need("configmaps", Verb::Patch, Some("b"), None),
            need("configmaps", Verb::List, None, None),
            need("secrets", Verb::Get, Some("a"), Some("")),
            need("secrets", Verb::Get, Some("a"), Some("beta")),
        ]);
        assert_eq!(
            lines(&needs, &[]),
            [
                r#"{apiGroups: [""], resources: [configmaps, services], verbs: [list, patch], namespaces: ["*"]}"#,
                r#"{apiGroups: [""], resources: [secrets], verbs: [get], namespaces: ["*"], clusters: {local: true}}"#,
                r#"{apiGroups: [""], resources: [secrets], verbs: [get], namespaces: ["*"], clusters: {names: [beta]}}"#,
            ]
        );
        let needs = BTreeSet::from([
            need("services", Verb::Patch, Some("a"), None),
            need("services", Verb::List, None, None),
            need("nodes", Verb::List, None, None),
        ]);
        assert_eq!(
            lines(&needs, &[granted(&["a", "b"], false)]),
            [
                r#"{apiGroups: [""], resources: [nodes], verbs: [list], namespaces: ["*"]}"#,
                r#"{apiGroups: [""], resources: [services], verbs: [list, patch], namespaces: [a]}"#,
                r#"{apiGroups: [""], resources: [services], verbs: [list], namespaces: [b]}"#,
            ]
        );
        // A rule for the local cluster says nothing about the request's.
        let everywhere = lines(&needs, &[granted(&["a"], true)]);
        assert!(everywhere.iter().all(|rule| rule.contains(r#"["*"]"#)));
    }
}
