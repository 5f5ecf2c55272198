//! What a grant notes.

use super::super::tests::{World, rule};
use super::super::{Need, Verb};
use super::*;
use crate::kind::FLEET_GROUP;
use crate::name::NamePattern;

#[test]
fn a_noting_grant_allows_what_its_rules_lack_and_notes_it_within_the_ceiling() {
    let world = World::new("alpha");
    let needs = Arc::new(Needs::default());
    let grant = Grant::new([rule("core pods get ns")])
        .noting(needs.clone())
        .with_ceiling([rule("core pods * *"), rule("apps * * ns")]);
    assert!(grant.names_group("apps") && !grant.names_group("batch"));
    let pods = |verb| world.access(verb);
    let deployments = |namespace| Access {
        group: "apps",
        resource: "deployments",
        namespace: Some(namespace),
        ..world.access(Verb::Create)
    };
    let secrets = Access {
        resource: "secrets",
        ..world.access(Verb::Get)
    };
    for (access, is_allowed) in [
        (pods(Verb::Get), true),
        (pods(Verb::Patch), true),
        (deployments("ns"), true),
        (deployments("other"), false),
        (secrets, false),
    ] {
        assert_eq!(grant.check(&access).is_ok(), is_allowed, "{access:?}");
    }
    let watch = Access {
        group: "apps",
        resource: "deployments",
        ..world.access(Verb::Watch)
    };
    assert_eq!(
        grant.needed_namespaces(&watch),
        Namespaces::Only(["ns".into()].into())
    );
    assert_eq!(
        grant.needed_namespaces(&Access {
            group: "batch",
            ..watch
        }),
        Namespaces::None
    );
    // A look at what is granted notes nothing.
    let facts = world.facts(true);
    let listed = grant.namespaces(&facts, "", "pods", Verb::List, None);
    assert_eq!(listed, Namespaces::None);
    let noted = needs.noted();
    assert_eq!(noted.used, [rule("core pods get ns")]);
    let noted: Vec<_> = noted
        .needs
        .iter()
        .map(|need| &need.right)
        .map(|right| (&*right.resource, right.verb, right.namespace.as_deref()))
        .collect();
    assert_eq!(
        noted,
        [
            ("pods", Verb::Patch, Some("ns")),
            ("deployments", Verb::Watch, Some("ns")),
            ("deployments", Verb::Create, Some("ns")),
        ]
    );
    // Documents that are read again do not end that.
    let plain = Grant::new([rule("core pods get ns")]);
    assert!(grant.and(&plain).check(&pods(Verb::Delete)).is_ok());
    assert!(plain.and(&grant).check(&pods(Verb::Delete)).is_err());
}

#[test]
fn a_noting_grant_opens_other_clusters_unless_its_rules_say_which() {
    let (alpha, needs) = (World::new("alpha"), Arc::new(Needs::default()));
    let other = alpha.facts(false);
    let plain = Grant::new([rule("core pods get ns")]).noting(needs.clone());
    assert!(plain.reaches(&other) && plain.reaches_other_clusters());
    let of_some = Rule {
        clusters: Some(ClusterRule {
            names: vec![NamePattern::new("prod-*")],
            ..ClusterRule::default()
        }),
        ..rule("core pods get ns")
    };
    let narrow = Grant::new([of_some]).noting(needs);
    assert!(!narrow.reaches(&other) && !narrow.reaches_by_name(&alpha.name));
    assert!(narrow.reaches(&World::new("prod-a").facts(false)));
    // Of the local cluster those rules say nothing.
    assert!(narrow.reaches(&World::new("").facts(false)));
}

#[test]
fn a_cluster_that_is_asked_for_needs_a_rule_that_opens_it() {
    let [alpha, beta, hub] = ["alpha", "beta", ""].map(World::new);
    let right = || Right::new("", "pods", Verb::Get);
    let cluster = |need: &Need| need.cluster.clone().map(|name| name.to_string());
    let asked = |rules: &[Rule]| {
        let needs = Arc::new(Needs::default());
        let grant = Grant::new(rules.iter().cloned()).noting(needs.clone());
        grant.note_cluster(&alpha.facts(false), right);
        grant.note_cluster(&beta.facts(true), right);
        grant.note_cluster(&hub.facts(false), right);
        let secrets = Access {
            cluster: hub.facts(false),
            resource: "secrets",
            ..hub.access(Verb::Get)
        };
        assert_eq!(grant.check(&secrets), Ok(()));
        needs.noted()
    };
    // The call in the hub opens it too; the other cluster needs a rule of its own.
    let noted = asked(&[]);
    let needs: Vec<_> = noted
        .needs
        .iter()
        .map(|need| (cluster(need), &*need.right.resource))
        .collect();
    assert_eq!(
        needs,
        [
            (Some(String::new()), "secrets"),
            (Some("alpha".into()), "pods")
        ]
    );

    // The rule for clusters as objects opens all.
    let needs = Arc::new(Needs::default());
    let grant = Grant::none().noting(needs.clone());
    grant.note_cluster(&alpha.facts(false), right);
    let clusters = Access {
        group: FLEET_GROUP,
        resource: "clusters",
        ..hub.access(Verb::List)
    };
    assert_eq!(grant.check(&clusters), Ok(()));
    assert_eq!(needs.noted().needs.len(), 1);

    let opens = |resource: &str, names: &[&str]| Rule {
        clusters: Some(ClusterRule {
            local: true,
            names: names.iter().copied().map(NamePattern::new).collect(),
            ..ClusterRule::default()
        }),
        ..rule(&format!("core {resource} get *"))
    };
    // A rule that only opens a cluster is used, unless another one that is used opens it.
    let rules = [opens("pods", &["a*"]), opens("secrets", &[])];
    let noted = asked(&rules);
    assert_eq!((noted.needs.len(), noted.used.len()), (0, 2), "{noted:?}");
    let rules = [opens("pods", &["a*"]), opens("secrets", &["*"])];
    assert_eq!(asked(&rules).used, rules[1..]);
}
