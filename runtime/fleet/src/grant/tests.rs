//! What rules grant, and what they do not.

use super::*;
use crate::name::NamePattern;
use crate::selector::LabelSelector;

fn list(entries: &str) -> Vec<Arc<str>> {
    if entries == "-" {
        return Vec::new();
    }
    entries.split(',').map(Into::into).collect()
}

/// A rule written as `groups resources verbs namespaces`, each a list with commas; a lone `""` is the core group.
fn rule(text: &str) -> Rule {
    let parts: Vec<&str> = text.split(' ').collect();
    Rule {
        api_groups: list(if parts[0] == "core" { "" } else { parts[0] }),
        resources: list(parts[1]),
        verbs: list(parts[2]),
        namespaces: list(parts[3]),
        ..Rule::default()
    }
}

struct World {
    name: ClusterName,
    labels: BTreeMap<String, String>,
}

impl World {
    fn new(name: &str) -> Self {
        Self {
            name: ClusterName::new(name).unwrap(),
            labels: [("env".to_owned(), "prod".to_owned())].into(),
        }
    }

    fn facts(&self, own: bool) -> ClusterFacts<'_> {
        ClusterFacts {
            name: &self.name,
            labels: &self.labels,
            own,
        }
    }

    fn access(&self, verb: Verb) -> Access<'_> {
        let cluster = self.facts(true);
        Access {
            cluster,
            group: "",
            resource: "pods",
            subresource: None,
            verb,
            namespace: Some("ns"),
            name: Some("a"),
        }
    }
}

#[test]
fn a_rule_grants_what_it_names_and_nothing_else() {
    let world = World::new("alpha");
    let access = world.access(Verb::Get);
    let allowed = |text: &str, access: &Access<'_>| Grant::new([rule(text)]).check(access).is_ok();
    for text in [
        "core pods get ns",
        "* * * *",
        "apps,* x,pods list,get other,ns",
    ] {
        assert!(allowed(text, &access), "{text}");
    }
    for text in [
        "apps pods get ns",
        "core pod get ns",
        "core pods list ns",
        "core pods get other",
        "core pods/status get ns",
        "- pods get ns",
        "core pods get -",
    ] {
        assert!(!allowed(text, &access), "{text}");
    }
    assert!(Grant::all().check(&access).is_ok());
    assert!(Grant::none().check(&access).is_err());
}

#[test]
fn a_subresource_must_be_named() {
    let world = World::new("alpha");
    let status = Access {
        subresource: Some("status"),
        ..world.access(Verb::Patch)
    };
    for (resources, expected) in [
        ("pods", false),
        ("pods/status", true),
        ("*/status", true),
        ("*", true),
        ("pods/*", false),
        ("*/scale", false),
        ("nodes/status", false),
    ] {
        assert_eq!(
            Grant::new([rule(&format!("core {resources} patch ns"))])
                .check(&status)
                .is_ok(),
            expected,
            "{resources}"
        );
    }
}

#[test]
fn all_namespaces_and_cluster_scoped_resources_need_a_star() {
    let world = World::new("alpha");
    let everywhere = Access {
        namespace: None,
        name: None,
        ..world.access(Verb::List)
    };
    assert!(
        Grant::new([rule("core pods list ns")])
            .check(&everywhere)
            .is_err()
    );
    assert!(
        Grant::new([rule("core pods list ns,*")])
            .check(&everywhere)
            .is_ok()
    );
}

#[test]
fn resource_names_restrict_as_in_rbac() {
    let world = World::new("alpha");
    let grant = Grant::new([Rule {
        resource_names: list("a,b"),
        ..rule("core pods * ns")
    }]);
    for verb in [
        Verb::Get,
        Verb::Update,
        Verb::Patch,
        Verb::Delete,
        Verb::List,
        Verb::Watch,
        Verb::Create,
    ] {
        let named = |name| Access {
            name,
            ..world.access(verb)
        };
        assert!(grant.check(&named(Some("a"))).is_ok(), "{verb:?}");
        assert!(
            grant.check(&named(Some("c"))).is_err() && grant.check(&named(None)).is_err(),
            "{verb:?}"
        );
    }
    assert!(
        grant
            .check(&Access {
                name: None,
                ..world.access(Verb::DeleteCollection)
            })
            .is_err()
    );
    assert_eq!(
        grant.namespaces(&world.facts(true), "", "pods", Verb::List),
        Namespaces::None
    );
}

#[test]
fn other_clusters_must_be_named() {
    let (alpha, hub) = (World::new("alpha"), World::new(""));
    let with = |clusters: ClusterRule| {
        Grant::new([Rule {
            clusters: Some(clusters),
            ..rule("* * * *")
        }])
    };
    let opens = |grant: &Grant| {
        (
            grant.opens(&alpha.facts(false)),
            grant.opens(&hub.facts(false)),
            grant.opens(&alpha.facts(true)),
        )
    };
    let names = |pattern: &str| vec![NamePattern::new(pattern)];
    let selector = |text: &str| Some(LabelSelector::parse(text).unwrap());

    let own = Grant::new([rule("* * * *")]);
    assert_eq!(
        (opens(&own), own.opens_other_clusters()),
        ((false, false, true), false)
    );
    let local = with(ClusterRule {
        local: true,
        ..ClusterRule::default()
    });
    assert_eq!(
        (opens(&local), local.opens_other_clusters()),
        ((false, true, false), true)
    );
    assert_eq!(
        opens(&with(ClusterRule {
            names: names("al*"),
            ..ClusterRule::default()
        })),
        (true, false, true)
    );
    assert_eq!(
        opens(&with(ClusterRule {
            selector: selector("env=prod"),
            ..ClusterRule::default()
        })),
        (true, false, true)
    );
    assert_eq!(
        opens(&with(ClusterRule {
            selector: selector("env=dev"),
            names: names("*"),
            local: true
        })),
        (false, true, false)
    );
    let nothing = with(ClusterRule::default());
    assert_eq!(
        (opens(&nothing), nothing.opens_other_clusters()),
        ((false, false, false), false)
    );
    assert!(Grant::all().opens_other_clusters() && Grant::all().opens(&hub.facts(false)));
}

#[test]
fn a_ceiling_only_takes_away() {
    let world = World::new("alpha");
    let grant = Grant::new([
        rule("core pods get,list a,b"),
        rule("apps deployments list *"),
    ])
    .under([rule("* * list b,c")]);
    let facts = world.facts(true);
    let only_b = Namespaces::Only(["b".into()].into());
    assert_eq!(grant.namespaces(&facts, "", "pods", Verb::List), only_b);
    assert_eq!(
        grant.namespaces(&facts, "", "pods", Verb::Get),
        Namespaces::None
    );
    assert_eq!(
        grant.namespaces(&facts, "apps", "deployments", Verb::List),
        Namespaces::Only(["b".into(), "c".into()].into())
    );
    assert_eq!(
        grant.namespaces(&facts, "", "secrets", Verb::List),
        Namespaces::None
    );
    assert_eq!(
        Grant::all()
            .under([rule("* * list *")])
            .namespaces(&facts, "", "pods", Verb::List),
        Namespaces::All
    );
    assert!(only_b.contains(Some("b")) && !only_b.contains(Some("a")) && !only_b.contains(None));

    let denied = grant
        .check(&Access {
            namespace: Some("b"),
            ..world.access(Verb::Get)
        })
        .unwrap_err();
    assert!(
        denied.by_ceiling()
            && denied
                .to_string()
                .starts_with("the tenant's rules do not allow get on pods")
    );
    assert!(
        !grant
            .check(&Access {
                namespace: Some("c"),
                ..world.access(Verb::List)
            })
            .unwrap_err()
            .by_ceiling()
    );
    assert!(
        Grant::all()
            .under([])
            .check(&world.access(Verb::Get))
            .is_err()
    );
}

#[test]
fn a_group_that_no_rule_names_is_known_without_asking_a_cluster() {
    let grant = Grant::new([rule("apps * * *"), rule("core pods get *")]);
    assert!(grant.names_group("apps") && grant.names_group("") && !grant.names_group("batch"));
    assert!(
        Grant::new([rule("* * * *")]).names_group("x")
            && Grant::all().names_group("x")
            && !Grant::none().names_group("x")
    );
    assert!(!grant.under([rule("core * * *")]).names_group("apps"));
}

#[test]
fn a_denial_prints_the_rule_that_is_missing() {
    let world = World::new("clusters/a+x y");
    let denied = |access: Access<'_>| Grant::none().check(&access).unwrap_err();
    assert_eq!(
        denied(world.access(Verb::Get)).to_string(),
        "no rule grants get on pods \"a\" in namespace \"ns\"; add {apiGroups: [\"\"], resources: [pods], verbs: [get], namespaces: [ns]}"
    );
    let watch = Access {
        namespace: None,
        name: None,
        group: "apps",
        ..world.access(Verb::List)
    };
    assert_eq!(
        denied(watch)
            .verbs([Verb::List, Verb::Watch])
            .missing_rule_yaml(),
        "- {apiGroups: [apps], resources: [pods], verbs: [list, watch], namespaces: [\"*\"]}"
    );
    let other = Access {
        cluster: world.facts(false),
        subresource: Some("status"),
        namespace: Some("123"),
        name: None,
        ..world.access(Verb::Patch)
    };
    assert_eq!(
        denied(other).missing_rule_yaml(),
        "- {apiGroups: [\"\"], resources: [pods/status], verbs: [patch], namespaces: [\"123\"], clusters: {names: [\"clusters/a+x y\"]}}"
    );
    let hub = World::new("");
    let local = Access {
        cluster: hub.facts(false),
        ..hub.access(Verb::Create)
    };
    assert!(
        denied(local)
            .missing_rule_yaml()
            .ends_with("verbs: [create], namespaces: [ns], clusters: {local: true}}")
    );
}
