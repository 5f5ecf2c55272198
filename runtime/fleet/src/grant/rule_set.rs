//! The algebra of rights: what rules grant, what is missing, and the rules for that. No I/O. Entry point: [`RuleSet`].
//!
//! A set holds each right by itself, so a rule of five lists with ten entries each is a hundred thousand. It is for commands, not for calls:
//! a [`Grant`](super::Grant) checks these.

#[cfg(test)]
mod tests;

use super::rule::covers_entry;
use super::{Right, Rule, Verb};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::sync::Arc;

/// Rights in one cluster, or in clusters that its owner keeps apart from others. As JSON it is [its rules](Self::rules).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleSet(BTreeSet<Right>);

impl RuleSet {
    /// Whether it has no right.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a right.
    pub fn add(&mut self, right: Right) {
        self.0.insert(right);
    }

    /// Whether it has this very right. [`Self::covers`] also says yes where another right contains it.
    #[must_use]
    pub fn contains(&self, right: &Right) -> bool {
        self.0.contains(right)
    }

    /// The rights, sorted.
    pub fn iter(&self) -> btree_set::Iter<'_, Right> {
        self.0.iter()
    }

    /// Adds what a rule grants, its clusters not considered. With a bound: what the bound grants too.
    ///
    /// `*` is every verb of [`Verb::ALL`].
    pub fn grant(&mut self, rule: &Rule, bound: Option<&Rule>) {
        let of = |list: fn(&Rule) -> &Vec<Arc<str>>| match bound {
            Some(bound) => meet(list(rule), list(bound)),
            None => list(rule).iter().cloned().collect(),
        };
        let (groups, namespaces) = (of(|rule| &rule.api_groups), of(|rule| &rule.namespaces));
        let (resources, words) = (of(|rule| &rule.resources), of(|rule| &rule.verbs));
        let objects = objects(rule, bound);
        let granted = |verb: &Verb| words.contains("*") || words.contains(verb.as_str());
        let verbs: Vec<Verb> = Verb::ALL.into_iter().filter(granted).collect();
        for (group, resource) in pairs(&groups, &resources) {
            for (namespace, name) in pairs(&namespaces, &objects) {
                self.0.extend(verbs.iter().map(|verb| Right {
                    namespace: Some(namespace.clone()).filter(|name| &**name != "*"),
                    group: group.clone(),
                    resource: resource.clone(),
                    name: name.clone(),
                    verb: *verb,
                }));
            }
        }
    }

    /// Whether one of its rights covers a right.
    #[must_use]
    pub fn covers(&self, right: &Right) -> bool {
        self.0.iter().any(|own| own.covers(right))
    }

    /// Its rights that no right of another set covers. A right that the other set covers in part stays whole.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let left = self.0.iter().filter(|right| !other.covers(right));
        left.cloned().collect()
    }

    /// Its rights but those on the resources of a group.
    #[must_use]
    pub fn without_group(self, group: &str) -> Self {
        let mut left = self;
        left.0.retain(|right| &*right.group != group);
        left
    }

    /// The rights that both sets have.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.0.intersection(&other.0).cloned().collect()
    }

    /// Removes the rights that another one of them covers.
    pub fn reduce(&mut self) {
        let all = self.0.clone();
        let is_more = |one: &Right| all.iter().any(|other| other != one && other.covers(one));
        self.0.retain(|one| !is_more(one));
    }

    /// Few rules that grant exactly these rights, each for all namespaces or for one. Sorted: those for all are first.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        let verbs = self.0.iter().map(|right| {
            let Right {
                namespace,
                group,
                resource,
                name,
                verb,
            } = right;
            ((namespace, group, resource, name), verb)
        });
        let objects = gather(verbs).into_iter();
        let objects = objects.map(|((namespace, group, resource, name), verbs)| {
            ((namespace, group, resource, verbs, name.is_some()), name)
        });
        let resources = gather(objects).into_iter();
        let resources = resources.map(|((namespace, group, resource, verbs, _), names)| {
            ((namespace, group, verbs, names), resource)
        });
        let groups = gather(resources).into_iter();
        let groups = groups.map(|((namespace, group, verbs, names), resources)| {
            ((namespace, resources, verbs, names), group)
        });
        let rows = gather(groups).into_iter();
        let rows = rows.map(|((namespace, resources, verbs, names), groups)| {
            (namespace, groups, resources, names, verbs)
        });
        let sorted: BTreeSet<_> = rows.collect();
        let rules = sorted.into_iter();
        let rules = rules.map(|(namespace, groups, resources, names, verbs)| Rule {
            api_groups: groups.into_iter().cloned().collect(),
            resources: resources.into_iter().cloned().collect(),
            verbs: verbs.into_iter().map(|verb| verb.as_str().into()).collect(),
            resource_names: names.into_iter().flatten().cloned().collect(),
            namespaces: vec![namespace.clone().unwrap_or_else(|| "*".into())],
            clusters: None,
        });
        rules.collect()
    }
}

impl FromIterator<Right> for RuleSet {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().collect())
    }
}

/// What rules grant, their clusters not considered.
impl<'a> FromIterator<&'a Rule> for RuleSet {
    fn from_iter<I: IntoIterator<Item = &'a Rule>>(rules: I) -> Self {
        let mut all = Self::default();
        rules.into_iter().for_each(|rule| all.grant(rule, None));
        all
    }
}

impl Extend<Right> for RuleSet {
    fn extend<I: IntoIterator<Item = Right>>(&mut self, rights: I) {
        self.0.extend(rights);
    }
}

impl IntoIterator for RuleSet {
    type Item = Right;
    type IntoIter = btree_set::IntoIter<Right>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Serialize for RuleSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rules())
    }
}

/// The values of each key.
fn gather<K: Ord, V: Ord>(pairs: impl Iterator<Item = (K, V)>) -> BTreeMap<K, BTreeSet<V>> {
    let mut all: BTreeMap<K, BTreeSet<V>> = BTreeMap::new();
    for (key, value) in pairs {
        all.entry(key).or_default().insert(value);
    }
    all
}

/// The intersection of two lists of a rule.
fn meet(one: &[Arc<str>], other: &[Arc<str>]) -> BTreeSet<Arc<str>> {
    let common = pairs(one, other).filter_map(|(one, other)| {
        if covers_entry(one, other) {
            return Some(other);
        }
        covers_entry(other, one).then_some(one)
    });
    common.cloned().collect()
}

/// The names of objects of a rule within a bound: `None` for all objects. Empty: the two have no name in common.
fn objects(rule: &Rule, bound: Option<&Rule>) -> Vec<Option<Arc<str>>> {
    let bound = bound.map_or(&[][..], |bound| &bound.resource_names);
    let names: Vec<&Arc<str>> = match (&rule.resource_names[..], bound) {
        ([], []) => return vec![None],
        (names, []) | ([], names) => names.iter().collect(),
        (names, bound) => names.iter().filter(|name| bound.contains(name)).collect(),
    };
    names.into_iter().cloned().map(Some).collect()
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
