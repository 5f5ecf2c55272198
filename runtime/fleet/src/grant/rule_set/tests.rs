//! Sets of rights, compared with the calls that they are about.

use super::*;
use crate::grant::{Access, ClusterFacts, Grant};
use crate::name::ClusterName;
use crate::pairs::Pairs;
use serde_json::{Value as Json, json};

const GROUPS: [&str; 2] = ["", "apps"];
const RESOURCES: [(&str, Option<&str>); 4] = [
    ("pods", None),
    ("pods", Some("status")),
    ("nodes", None),
    ("nodes", Some("status")),
];
const VERBS: [Verb; 3] = [Verb::Get, Verb::List, Verb::Create];
const OBJECTS: [Option<&str>; 3] = [None, Some("a"), Some("b")];
const NAMESPACES: [Option<&str>; 3] = [None, Some("x"), Some("y")];

/// Every call of a small world.
fn calls() -> Vec<Access<'static>> {
    let name = Box::leak(Box::new(ClusterName::new("alpha").unwrap()));
    let labels = Box::leak(Box::new(Pairs::default()));
    let cluster = ClusterFacts {
        name,
        labels,
        provider: None,
        own: true,
    };
    let mut calls = Vec::new();
    for group in GROUPS {
        for (resource, subresource) in RESOURCES {
            for verb in VERBS {
                for namespace in NAMESPACES {
                    calls.extend(OBJECTS.map(|name| Access {
                        cluster,
                        group,
                        resource,
                        subresource,
                        verb,
                        namespaced: resource == "pods",
                        namespace,
                        name,
                    }));
                }
            }
        }
    }
    calls
}

/// Whether a right is for a call, by the words of RBAC.
fn is_for(right: &Right, call: &Access<'_>) -> bool {
    let resource = match call.subresource {
        Some(part) => vec![
            "*".to_owned(),
            format!("*/{part}"),
            format!("{}/{part}", call.resource),
        ],
        None => vec!["*".to_owned(), call.resource.to_owned()],
    };
    right.verb == call.verb
        && ["*", call.group].contains(&&*right.group)
        && resource.iter().any(|entry| **entry == *right.resource)
        && [None, call.name].contains(&right.name.as_deref())
        && [None, call.namespace].contains(&right.namespace.as_deref())
}

/// The calls of a set, by their places in the world.
fn expand<'a>(
    rights: impl IntoIterator<Item = &'a Right>,
    calls: &[Access<'_>],
) -> BTreeSet<usize> {
    let rights: Vec<&Right> = rights.into_iter().collect();
    let of_set = |at: &usize| rights.iter().any(|right| is_for(right, &calls[*at]));
    (0..calls.len()).filter(of_set).collect()
}

fn some(random: &mut fastrand::Rng, least: usize, of: &[&str]) -> Vec<Arc<str>> {
    let count = random.usize(least..=2);
    let entries = random.choose_multiple(of.iter(), count).into_iter();
    entries.map(|entry| (*entry).into()).collect()
}

fn some_rule(random: &mut fastrand::Rng) -> Rule {
    Rule {
        api_groups: some(random, 1, &["", "apps", "*"]),
        resources: some(
            random,
            1,
            &["pods", "nodes", "pods/status", "*/status", "*"],
        ),
        verbs: some(random, 1, &["get", "list", "create", "*"]),
        resource_names: some(random, 0, &["a", "b"]),
        namespaces: some(random, 1, &["x", "y", "*"]),
        clusters: None,
    }
}

#[test]
fn sets_of_rights_say_what_their_calls_say() {
    let calls = calls();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..100 {
        let [ours, theirs] = [(); 2].map(|()| {
            let count = random.usize(1..=3);
            let rules = std::iter::repeat_with(|| some_rule(&mut random));
            rules.take(count).collect::<Vec<_>>()
        });
        let [own, other] = [&ours, &theirs].map(|rules| rules.iter().collect::<RuleSet>());
        let [own_calls, other_calls] = [&own, &other].map(|set| expand(set.iter(), &calls));

        // A set has the calls that a grant of the rules allows.
        let grant = Grant::new(ours.clone());
        let allowed = |at: &usize| grant.check(&calls[*at]).is_ok();
        let allowed: BTreeSet<usize> = (0..calls.len()).filter(allowed).collect();
        assert_eq!(own_calls, allowed, "{ours:?}");
        for (at, call) in calls.iter().enumerate() {
            assert_eq!(
                own.covers(&Right::of(call)),
                own_calls.contains(&at),
                "{call:?} {ours:?}"
            );
        }

        let less = own.minus(&other);
        for right in own.iter() {
            let of_right = expand([right], &calls);
            if other.covers(right) {
                assert!(of_right.is_subset(&other_calls), "{right:?} {theirs:?}");
            }
            assert_eq!(less.contains(right), !other.covers(right));
        }
        let mut all: BTreeSet<usize> = expand(less.iter(), &calls);
        all.extend(&other_calls);
        assert!(own_calls.is_subset(&all), "{ours:?} {theirs:?}");

        let mut fewer = own.clone();
        fewer.reduce();
        assert_eq!(expand(fewer.iter(), &calls), own_calls);
        assert!(fewer.minus(&own).is_empty() && own.minus(&fewer).is_empty());
        let is_more = |one: &Right| fewer.iter().any(|other| other != one && other.covers(one));
        assert!(!fewer.iter().any(is_more), "{fewer:?}");

        assert_eq!(own.rules().iter().collect::<RuleSet>(), own);
        assert!(own.rules().len() <= own.iter().count());

        let mut within = RuleSet::default();
        for rule in &ours {
            theirs
                .iter()
                .for_each(|bound| within.grant(rule, Some(bound)));
        }
        let both: BTreeSet<usize> = own_calls.intersection(&other_calls).copied().collect();
        assert_eq!(expand(within.iter(), &calls), both, "{ours:?} {theirs:?}");
    }
}

#[test]
fn a_name_grants_no_call_without_that_name() {
    for verb in [Verb::Create, Verb::DeleteCollection, Verb::List] {
        let all = Right::new("", "pods", verb);
        let one = all.clone().named("a");
        assert!(all.covers(&one) && !one.covers(&all), "{verb:?}");
    }
    // A verb that is no call is covered by every verb alone.
    let [any, impersonate] =
        [Verb::ANY, Verb::IMPERSONATE].map(|verb| Right::new("", "users", verb));
    assert!(any.covers(&impersonate) && !impersonate.covers(&any));
    let mut granted = RuleSet::default();
    granted.grant(&any.rule(), None);
    assert_eq!(granted.iter().count(), Verb::ALL.len());
    assert!(!granted.covers(&impersonate));
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> Json {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs, "resourceNames": names})
}

#[test]
fn rules_of_servers_match_as_in_rbac() {
    let grants = |rule: Json, permission: Right| {
        serde_json::from_value::<Rule>(rule)
            .unwrap()
            .grants(&permission)
    };
    let reads = |resource: &str| Right::new("", resource, Verb::Get);
    let get = || reads("pods");
    assert!(grants(rule(&["*"], &["*"], &["*"], &[]), get()));
    assert!(grants(
        rule(&["*"], &["*"], &["*"], &[]),
        Right::new("", "users", Verb::IMPERSONATE)
    ));
    assert!(!grants(rule(&["apps"], &["*"], &["*"], &[]), get()));
    assert!(!grants(rule(&[""], &["pods"], &["get"], &["a"]), get()));
    assert!(grants(
        rule(&[""], &["pods"], &["get"], &["a"]),
        get().named("a")
    ));
    assert!(!grants(
        rule(&[""], &["pods"], &["get"], &["a"]),
        get().named("b")
    ));
    assert!(!grants(
        rule(&[""], &["pods"], &["get"], &[]),
        reads("pods/log")
    ));
    assert!(grants(
        rule(&[""], &["*/log"], &["get"], &[]),
        reads("pods/log")
    ));
    assert!(!grants(rule(&[""], &["pods"], &["get"], &[]), reads("*")));
    assert!(!grants(json!({}), get()));
}
