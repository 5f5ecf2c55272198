//! A permission, and sets of permissions. Entry point: [`Permissions`].

use crate::config::kinds::RuleSpec;
use std::collections::{BTreeMap, BTreeSet};

/// The verbs that rules can grant, in the order in which they are printed.
pub(super) const VERBS: [&str; 9] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "impersonate",
];

/// The only verb that `*` does not contain: no reconciler impersonates.
const IMPERSONATE: usize = VERBS.len() - 1;

/// A verb on a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permission {
    /// None: in every namespace, and on cluster-scoped resources.
    pub(super) namespace: Option<String>,
    /// `*` for all.
    pub(super) group: String,
    /// With its subresource; `*` for all.
    pub(super) resource: String,
    /// None: every object.
    pub(super) name: Option<String>,
    /// The index in [`VERBS`].
    verb: usize,
}

impl Permission {
    /// A permission on all objects in all namespaces. A verb that is not in [`VERBS`] counts as the last one.
    pub(super) fn new(group: &str, resource: &str, verb: &str) -> Self {
        Self {
            namespace: None,
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: None,
            verb: VERBS
                .iter()
                .position(|of| *of == verb)
                .unwrap_or(IMPERSONATE),
        }
    }

    pub(super) fn within(self, namespace: &str) -> Self {
        self.within_some(Some(namespace))
    }

    pub(super) fn within_some(self, namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            ..self
        }
    }

    pub(super) fn named(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }

    pub(super) fn verb(&self) -> &'static str {
        VERBS[self.verb]
    }

    /// Whether a rule of a server's grants it, as RBAC matches them.
    pub(super) fn is_granted_by(&self, rule: &GrantedRule) -> bool {
        let has = |list: &[String], entry: &str| list.iter().any(|one| one == "*" || one == entry);
        let named = |name: &String| rule.resource_names.contains(name);
        let covers = |wide: &String| both(wide, &self.resource).as_ref() == Some(&self.resource);
        has(&rule.verbs, self.verb())
            && has(&rule.api_groups, &self.group)
            && rule.resources.iter().any(covers)
            && (rule.resource_names.is_empty() || self.name.as_ref().is_some_and(named))
    }

    /// Whether it contains another permission.
    fn covers(&self, other: &Self) -> bool {
        let all = |own: &Option<String>, its: &Option<String>| own.is_none() || own == its;
        self.verb == other.verb
            && all(&self.namespace, &other.namespace)
            && all(&self.name, &other.name)
            && (self.group == "*" || self.group == other.group)
            && both(&self.resource, &other.resource).as_ref() == Some(&other.resource)
    }
}

/// A rule of a server's, as it answers a `SelfSubjectRulesReview`.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GrantedRule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// A rule of a role in the format of RBAC.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PolicyRule {
    pub(super) groups: BTreeSet<String>,
    pub(super) resources: BTreeSet<String>,
    pub(super) names: BTreeSet<String>,
    pub(super) verbs: Vec<&'static str>,
}

/// A set of permissions.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permissions {
    all: BTreeSet<Permission>,
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self {
            all: permissions.into_iter().collect(),
        }
    }
}

impl Permissions {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn add(&mut self, permission: Permission) {
        self.all.insert(permission);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Permission> {
        self.all.iter()
    }

    /// Adds other permissions.
    pub(crate) fn extend(&mut self, other: Self) {
        self.all.extend(other.all);
    }

    /// The permissions that are in both sets.
    pub(crate) fn and(&self, other: &Self) -> Self {
        self.all.intersection(&other.all).cloned().collect()
    }

    /// The same in a cluster that is one namespace of its server: that namespace is `stored` there and `shown` in rules. Caches are those
    /// of the whole server.
    pub(super) fn in_namespace(&self, stored: &str, shown: &str) -> Self {
        let mut caches = self.clone();
        caches.keep_caches();
        let here = |one: &&Permission| one.namespace.as_deref().is_none_or(|name| name == shown);
        let moved = |one: &Permission| match caches.all.contains(one) {
            true => one.clone().within_some(None),
            false => one.clone().within(stored),
        };
        self.all.iter().filter(here).map(moved).collect()
    }

    /// The permissions to list and watch these resources, by group, wherever the set contains both.
    pub(super) fn for_watches(&self, resources: &[(String, String)]) -> Self {
        let mut caches = self.clone();
        caches.keep_caches();
        let watches = resources.iter().flat_map(|(group, resource)| {
            let watch = move |one: &Permission| Permission {
                group: group.clone(),
                resource: resource.clone(),
                ..one.clone()
            };
            let covers = move |one: &&Permission| one.covers(&watch(one));
            caches.all.iter().filter(covers).map(watch)
        });
        watches.collect()
    }

    /// Whether one of them is about a resource, or a part of it.
    pub(crate) fn are_about(&self, group: &str, resource: &str) -> bool {
        let is_it = |one: &Permission| {
            let whole = one.resource.split('/').next();
            one.group == group && whole == Some(resource)
        };
        self.all.iter().any(is_it)
    }

    /// The resources, without duplicates.
    pub(crate) fn resources(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.all.iter().map(|one| &one.resource).collect();
        names.into_iter().cloned().collect()
    }

    /// All but the reads that caches answer.
    pub(super) fn without_cached_reads(&self) -> Self {
        let mut caches = self.clone();
        caches.keep_caches();
        let cached = |one: &&Permission| {
            let list = Permission {
                verb: Permission::new("", "", "list").verb,
                ..(*one).clone()
            };
            let is_read = ["get", "list", "watch"].contains(&one.verb());
            is_read && caches.all.iter().any(|cache| cache.covers(&list))
        };
        self.all
            .iter()
            .filter(|one| !cached(one))
            .cloned()
            .collect()
    }

    /// Adds the grants of a rule, within a bound.
    pub(crate) fn grant(&mut self, rule: &RuleSpec, bound: Option<&RuleSpec>) {
        let of = |list: fn(&RuleSpec) -> &Vec<String>| match bound {
            Some(bound) => meet(list(rule), list(bound)),
            None => list(rule).iter().cloned().collect(),
        };
        let (groups, namespaces) = (of(|rule| &rule.api_groups), of(|rule| &rule.namespaces));
        let (resources, verbs) = (of(|rule| &rule.resources), of(|rule| &rule.verbs));
        let Some(names) = names(rule, bound) else {
            return;
        };
        for (group, resource) in pairs(&groups, &resources) {
            for (namespace, name) in pairs(&namespaces, &names) {
                for (verb, word) in VERBS[..IMPERSONATE].iter().enumerate() {
                    if verbs.contains("*") || verbs.contains(*word) {
                        self.all.insert(Permission {
                            namespace: Some(namespace.clone()).filter(|name| name != "*"),
                            group: group.clone(),
                            resource: resource.clone(),
                            name: name.clone(),
                            verb,
                        });
                    }
                }
            }
        }
    }

    /// Keeps the permissions for caches: list and watch, if both are granted.
    pub(super) fn keep_caches(&mut self) {
        let [list, watch] = ["list", "watch"].map(|verb| Permission::new("", "", verb).verb);
        let before = self.all.clone();
        let has = |of: &Permission, verb| before.contains(&Permission { verb, ..of.clone() });
        self.all.retain(|one| {
            (one.verb == list && has(one, watch)) || (one.verb == watch && has(one, list))
        });
    }

    /// Whether a verb is granted in every namespace.
    pub(super) fn everywhere(&self, verb: &str) -> bool {
        self.namespaces(verb).contains(&None)
    }

    /// The namespaces in which a verb is granted on any resource; `None` stands for all.
    pub(super) fn namespaces(&self, verb: &str) -> BTreeSet<Option<String>> {
        let of_verb = self.all.iter().filter(|one| VERBS[one.verb] == verb);
        of_verb.map(|one| one.namespace.clone()).collect()
    }

    /// Those that no permission of `granted` contains.
    pub(crate) fn beyond(&self, granted: &Self) -> Self {
        let covered = |one: &&Permission| granted.all.iter().any(|other| other.covers(one));
        self.all
            .iter()
            .filter(|one| !covered(one))
            .cloned()
            .collect()
    }

    /// Removes permissions that another one contains.
    pub(crate) fn reduce(&mut self) {
        let all = self.all.clone();
        self.all
            .retain(|one| !all.iter().any(|other| other != one && other.covers(one)));
    }

    /// The smallest number of rules with exactly these permissions, by namespace; `None` stands for all namespaces.
    pub(super) fn rules(&self) -> BTreeMap<Option<String>, Vec<PolicyRule>> {
        let mut verbs: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
        for one in &self.all {
            let key = (&one.namespace, &one.group, &one.resource, &one.name);
            verbs.entry(key).or_default().insert(one.verb);
        }
        let mut names: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for ((namespace, group, resource, name), verbs) in verbs {
            let key = (namespace, group, resource, verbs, name.is_some());
            names.entry(key).or_default().extend(name.clone());
        }
        let mut resources: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for ((namespace, group, resource, verbs, _), names) in names {
            let key = (namespace, group, verbs, names);
            resources.entry(key).or_default().insert(resource.clone());
        }
        let mut groups: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for ((namespace, group, verbs, names), resources) in resources {
            let key = (namespace, resources, verbs, names);
            groups.entry(key).or_default().insert(group.clone());
        }
        let mut rules: BTreeMap<Option<String>, Vec<PolicyRule>> = BTreeMap::new();
        for ((namespace, resources, verbs, names), groups) in groups {
            rules
                .entry(namespace.clone())
                .or_default()
                .push(PolicyRule {
                    groups,
                    resources,
                    names,
                    verbs: verbs.into_iter().map(|verb| VERBS[verb]).collect(),
                });
        }
        rules.values_mut().for_each(|rules| rules.sort());
        rules
    }
}

/// The intersection of two lists of a rule.
fn meet(one: &[String], other: &[String]) -> BTreeSet<String> {
    pairs(one, other)
        .filter_map(|(one, other)| both(one, other))
        .collect()
}

/// The intersection of two entries: `*` matches all, and `*/status` the status of every resource.
fn both(one: &String, other: &String) -> Option<String> {
    let narrower = |wide: &str, narrow: &String| {
        wide == "*"
            || wide == narrow
            || wide.strip_prefix("*/").is_some_and(|sub| {
                narrow
                    .split_once('/')
                    .is_some_and(|(_, narrow)| narrow == sub)
            })
    };
    if narrower(one, other) {
        Some(other.clone())
    } else if narrower(other, one) {
        Some(one.clone())
    } else {
        None
    }
}

/// The object names of a rule within a bound: `[None]` for all. `None` if the two have no name in common.
fn names(rule: &RuleSpec, bound: Option<&RuleSpec>) -> Option<Vec<Option<String>>> {
    let bound = bound
        .map(|bound| &bound.resource_names[..])
        .unwrap_or_default();
    let names: Vec<Option<String>> = match (&rule.resource_names[..], bound) {
        ([], []) => vec![None],
        (names, []) | ([], names) => names.iter().cloned().map(Some).collect(),
        (names, bound) => {
            let common = names.iter().filter(|name| bound.contains(name));
            common.cloned().map(Some).collect()
        }
    };
    (!names.is_empty()).then_some(names)
}

fn pairs<'a, A, B: 'a>(
    one: impl IntoIterator<Item = &'a A>,
    other: impl IntoIterator<Item = &'a B> + Clone,
) -> impl Iterator<Item = (&'a A, &'a B)>
where
    A: 'a,
{
    one.into_iter()
        .flat_map(move |a| other.clone().into_iter().map(move |b| (a, b)))
}
