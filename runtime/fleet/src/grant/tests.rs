//! What rules grant, and what they do not.

use super::*;
use crate::name::NamePattern;
use crate::pairs::Pairs;
use crate::selector::LabelSelector;

fn list(entries: &str) -> Vec<Arc<str>> {
    if entries == "-" {
        return Vec::new();
    }
    entries.split(',').map(Into::into).collect()
}

/// A rule written as `groups resources verbs namespaces`, each a list with commas; a lone `""` is the core group.
pub(super) fn rule(text: &str) -> Rule {
    let parts: Vec<&str> = text.split(' ').collect();
    Rule {
        api_groups: list(if parts[0] == "core" { "" } else { parts[0] }),
        resources: list(parts[1]),
        verbs: list(parts[2]),
        namespaces: list(parts[3]),
        ..Rule::default()
    }
}

pub(super) struct World {
    pub(super) name: ClusterName,
    labels: Pairs,
}

impl World {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: ClusterName::new(name).unwrap(),
            labels: Pairs::default().with("env", "prod"),
        }
    }

    pub(super) fn facts(&self, own: bool) -> ClusterFacts<'_> {
        ClusterFacts {
            name: &self.name,
            labels: &self.labels,
            provider: Some("fleet"),
            own,
        }
    }

    pub(super) fn access(&self, verb: Verb) -> Access<'_> {
        let cluster = self.facts(true);
        Access {
            cluster,
            group: "",
            resource: "pods",
            subresource: None,
            verb,
            namespaced: true,
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
        grant.namespaces(&world.facts(true), "", "pods", Verb::List, None),
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
            grant.reaches(&alpha.facts(false)),
            grant.reaches(&hub.facts(false)),
            grant.reaches(&alpha.facts(true)),
        )
    };
    let names = |pattern: &str| vec![NamePattern::new(pattern)];
    let selector = |text: &str| Some(LabelSelector::parse(text).unwrap());

    let own = Grant::new([rule("* * * *")]);
    assert_eq!(
        (opens(&own), own.reaches_other_clusters()),
        ((false, false, true), false)
    );
    let local = with(ClusterRule {
        local: true,
        ..ClusterRule::default()
    });
    assert_eq!(
        (opens(&local), local.reaches_other_clusters()),
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
        (opens(&nothing), nothing.reaches_other_clusters()),
        ((false, false, false), false)
    );
    assert!(Grant::all().reaches_other_clusters() && Grant::all().reaches(&hub.facts(false)));
}

#[test]
fn a_ceiling_only_takes_away() {
    let world = World::new("alpha");
    let grant = Grant::new([
        rule("core pods get,list a,b"),
        rule("apps deployments list *"),
    ])
    .with_ceiling([rule("* * list b,c")]);
    let facts = world.facts(true);
    let only_b = Namespaces::Only(["b".into()].into());
    assert_eq!(
        grant.namespaces(&facts, "", "pods", Verb::List, None),
        only_b
    );
    assert_eq!(
        grant.namespaces(&facts, "", "pods", Verb::Get, None),
        Namespaces::None
    );
    assert_eq!(
        grant.namespaces(&facts, "apps", "deployments", Verb::List, None),
        Namespaces::Only(["b".into(), "c".into()].into())
    );
    assert_eq!(
        grant.namespaces(&facts, "", "secrets", Verb::List, None),
        Namespaces::None
    );
    assert_eq!(
        Grant::all().with_ceiling([rule("* * list *")]).namespaces(
            &facts,
            "",
            "pods",
            Verb::List,
            None
        ),
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
        denied
            .to_string()
            .starts_with("the tenant's rules do not allow get on pods")
    );
    let denied = grant
        .check(&Access {
            namespace: Some("c"),
            ..world.access(Verb::List)
        })
        .unwrap_err();
    assert!(
        denied
            .to_string()
            .starts_with("no rule grants list on pods")
    );
    assert!(
        Grant::all()
            .with_ceiling([])
            .check(&world.access(Verb::Get))
            .is_err()
    );
}

/// What is asked, as `verb resource[/subresource] namespace name`; `-` for none.
fn asked<'a>(world: &'a World, text: &'a str) -> Access<'a> {
    let parts: Vec<&str> = text.split(' ').collect();
    let some = |part: &'a str| Some(part).filter(|part| *part != "-");
    let (resource, subresource) = match parts[1].split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (parts[1], None),
    };
    let verbs = [
        Verb::Get,
        Verb::List,
        Verb::Watch,
        Verb::Create,
        Verb::Update,
        Verb::Patch,
        Verb::Delete,
        Verb::DeleteCollection,
    ];
    let verb = verbs.into_iter().find(|verb| verb.as_str() == parts[0]);
    Access {
        resource,
        subresource,
        namespace: some(parts[2]),
        name: some(parts[3]),
        ..world.access(verb.unwrap())
    }
}

/// A rule as [`rule`] reads it, with names of objects as a fifth part.
fn rule_of(text: &str) -> Rule {
    let names = text.split(' ').nth(4).map(list);
    Rule {
        resource_names: names.unwrap_or_default(),
        ..rule(text)
    }
}

#[test]
fn a_ceiling_and_a_rule_must_both_allow_the_very_call() {
    let world = World::new("alpha");
    // Own rules, ceiling, what is allowed, what is not.
    type Case<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 7] = [
        // By verb.
        (
            &["core pods * *"],
            &["core pods get,list *"],
            &["get pods ns a", "list pods - -"],
            &["watch pods - -", "delete pods ns a", "get pods/log ns a"],
        ),
        // By resource: a subresource is one of its own on both sides.
        (
            &["core pods,pods/status get,patch ns"],
            &["core */status,services get,patch ns"],
            &["patch pods/status ns a"],
            &[
                "get pods ns a",
                "get services ns a",
                "get services/status ns a",
            ],
        ),
        // By name: those in both lists.
        (
            &["core pods get ns a,b"],
            &["core pods * ns b,c"],
            &["get pods ns b"],
            &["get pods ns a", "get pods ns c", "list pods ns -"],
        ),
        // By namespace.
        (
            &["core pods list x,y"],
            &["core pods list y,z"],
            &["list pods y -"],
            &["list pods x -", "list pods z -", "list pods - -"],
        ),
        // Two halves of different rules make no whole.
        (
            &["core pods get x", "core secrets list x"],
            &["* * * *"],
            &["get pods x a", "list secrets x -"],
            &["list pods x -", "get secrets x a"],
        ),
        // One ceiling that allows the verb and another that allows the namespace allow nothing together.
        (
            &["* * * *"],
            &["core pods get x", "core pods delete y"],
            &["get pods x a", "delete pods y a"],
            &["delete pods x a", "get pods y a"],
        ),
        // An empty ceiling allows nothing.
        (&["* * * *"], &[], &[], &["get pods ns a"]),
    ];
    for (own, ceiling, allowed, denied) in cases {
        let rules = |texts: &[&str]| texts.iter().map(|text| rule_of(text)).collect::<Vec<_>>();
        let grant = Grant::new(rules(own)).with_ceiling(rules(ceiling));
        for text in allowed {
            assert!(
                grant.check(&asked(&world, text)).is_ok(),
                "{own:?} under {ceiling:?}: {text}"
            );
        }
        for text in denied {
            assert!(
                grant.check(&asked(&world, text)).is_err(),
                "{own:?} under {ceiling:?}: {text}"
            );
        }
    }
}

#[test]
fn a_ceiling_bounds_clusters_too() {
    let (alpha, hub) = (World::new("alpha"), World::new(""));
    let clusters = |names: &str| {
        let names = vec![NamePattern::new(names)];
        let clusters = ClusterRule {
            names,
            ..ClusterRule::default()
        };
        Rule {
            clusters: Some(clusters),
            ..rule("* * * *")
        }
    };
    let own = rule("* * * *");
    let check = |grant: &Grant, world: &World, own| {
        let access = Access {
            cluster: world.facts(own),
            ..world.access(Verb::Get)
        };
        grant.check(&access).is_ok()
    };
    // A rule for the own cluster under a ceiling that names clusters: the own one, if it is named.
    let grant = Grant::new([own.clone()]).with_ceiling([clusters("a*")]);
    assert!(
        check(&grant, &alpha, true) && !check(&grant, &alpha, false) && !check(&grant, &hub, true)
    );
    // The other way around.
    let grant = Grant::new([clusters("*")]).with_ceiling([own]);
    assert!(
        check(&grant, &alpha, true) && !check(&grant, &alpha, false) && !check(&grant, &hub, false)
    );
    assert!(!grant.reaches_other_clusters());
}

#[test]
fn only_a_name_that_rules_open_by_itself_can_be_said_to_be_free() {
    let with = |clusters: ClusterRule| Rule {
        clusters: Some(clusters),
        ..rule("* * * *")
    };
    let named = |pattern: &str| ClusterRule {
        names: vec![NamePattern::new(pattern)],
        ..ClusterRule::default()
    };
    let labelled = ClusterRule {
        selector: Some(LabelSelector::parse("env!=dev").unwrap()),
        ..named("*")
    };
    let local = ClusterRule {
        local: true,
        ..ClusterRule::default()
    };
    let free = |grant: &Grant, name: &str| grant.reaches_by_name(&ClusterName::new(name).unwrap());
    let grant = Grant::new([with(named("b*")), with(labelled.clone())]);
    assert!(free(&grant, "beta") && !free(&grant, "alpha") && !free(&grant, ""));
    assert!(!free(&grant.with_ceiling([with(labelled)]), "beta"));
    assert!(free(&Grant::new([with(local)]), ""));
    assert!(!free(&Grant::new([rule("* * * *")]), "beta"));
}

#[test]
fn one_object_is_listed_where_its_name_is_granted() {
    let world = World::new("alpha");
    let facts = world.facts(true);
    let grant = Grant::new([
        rule_of("core pods list,watch x a"),
        rule_of("core pods list y"),
    ]);
    let list = |name| grant.namespaces(&facts, "", "pods", Verb::List, name);
    let only = |names: &[&str]| Namespaces::Only(names.iter().map(|name| (*name).into()).collect());
    assert_eq!(list(None), only(&["y"]));
    assert_eq!(list(Some("a")), only(&["x", "y"]));
    assert_eq!(list(Some("b")), only(&["y"]));
    let watch = |name| grant.namespaces(&facts, "", "pods", Verb::Watch, name);
    assert_eq!(
        (watch(None), watch(Some("a"))),
        (Namespaces::None, only(&["x"]))
    );
}

#[test]
fn whom_calls_are_made_for_stays_with_the_grant() {
    let identity = Identity::new("a", &["b"]).unwrap();
    let grant = Grant::new([rule("* * * *")]).impersonate(Some(identity.clone()));
    assert_eq!(grant.with_ceiling([]).identity(), Some(&identity));
    assert_eq!(Grant::all().identity(), None);
    assert_ne!(grant, Grant::new([rule("* * * *")]));
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
    assert!(!grant.with_ceiling([rule("core * * *")]).names_group("apps"));
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
            .missing_rule()
            .to_string(),
        "{apiGroups: [apps], resources: [pods], verbs: [list, watch], namespaces: [\"*\"]}"
    );
    let other = Access {
        cluster: world.facts(false),
        subresource: Some("status"),
        namespace: Some("123"),
        name: None,
        ..world.access(Verb::Patch)
    };
    assert_eq!(
        denied(other).missing_rule().to_string(),
        "{apiGroups: [\"\"], resources: [pods/status], verbs: [patch], namespaces: [\"123\"], clusters: {names: [\"clusters/a+x y\"]}}"
    );
    let hub = World::new("");
    let local = Access {
        cluster: hub.facts(false),
        ..hub.access(Verb::Create)
    };
    assert!(
        denied(local)
            .missing_rule()
            .to_string()
            .ends_with("verbs: [create], namespaces: [ns], clusters: {local: true}}")
    );
}

#[test]
fn of_two_grants_what_both_allow_is_left() {
    let world = World::new("alpha");
    let grant = |texts: &[&str]| Grant::new(texts.iter().map(|text| rule_of(text)));
    // One, the other, what is left, what is not.
    type Case<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 5] = [
        (
            &["core pods get,list,patch *"],
            &["core pods get *"],
            &["get pods ns a"],
            &["list pods ns -", "patch pods ns a"],
        ),
        // What the other one adds is not had.
        (
            &["core pods get x"],
            &["core pods,secrets get,delete *"],
            &["get pods x a"],
            &["get pods y a", "get secrets x a", "delete pods x a"],
        ),
        (
            &["core pods get x a,b"],
            &["core pods get x b,c"],
            &["get pods x b"],
            &["get pods x a", "get pods x c"],
        ),
        // Names that only the other one bounds.
        (
            &["core pods get x"],
            &["core pods get x a"],
            &["get pods x a"],
            &["get pods x b"],
        ),
        (&["* * * *"], &[], &[], &["get pods ns a"]),
    ];
    for (one, other, left, gone) in cases {
        for both in [
            grant(one).and(&grant(other)),
            grant(other).and(&grant(one)),
            grant(one).and(&Grant::all()).and(&grant(other)),
            Grant::all()
                .with_ceiling(one.iter().map(|text| rule_of(text)))
                .and(&grant(other)),
        ] {
            for text in left {
                assert!(
                    both.check(&asked(&world, text)).is_ok(),
                    "{one:?} and {other:?}: {text}"
                );
            }
            for text in gone {
                assert!(
                    both.check(&asked(&world, text)).is_err(),
                    "{one:?} and {other:?}: {text}"
                );
            }
        }
    }
}

#[test]
fn a_grant_that_takes_nothing_away_leaves_another_as_it_is() {
    let own = || Grant::new([rule("core pods get,list x"), rule("apps * * *")]);
    for wider in [
        own(),
        Grant::all(),
        Grant::new([rule(",apps * * *")]),
        Grant::new([
            rule("apps * * *"),
            rule("core pods,secrets list,get,watch x,y"),
        ]),
    ] {
        assert_eq!(own().and(&wider), own());
    }
    let named = |names: &str| Grant::new([rule_of(&format!("core pods get x {names}"))]);
    assert_eq!(named("a").and(&named("a,b")), named("a"));
    assert_ne!(named("a,b").and(&named("a")), named("a,b"));
    assert_ne!(own().and(&own().with_ceiling([])), own());
    let elsewhere = Rule {
        clusters: Some(ClusterRule::default()),
        ..rule("* * * *")
    };
    assert_ne!(own().and(&Grant::new([elsewhere])), own());
}

#[test]
fn of_two_names_that_calls_are_made_in_the_later_one_counts() {
    let named = |name: &str| Grant::all().impersonate(Identity::new(name, &[""; 0]).ok());
    let name = |grant: &Grant| grant.identity().cloned();
    assert_eq!(name(&named("a").and(&named("b"))), name(&named("b")));
    assert_eq!(name(&Grant::all().and(&named("b"))), name(&named("b")));
    // Without a name calls may do what the manager may.
    assert_eq!(name(&named("a").and(&Grant::all())), name(&named("a")));
}

#[test]
fn a_bound_on_clusters_holds_for_the_own_one_and_for_others_whatever_rules_grant() {
    let everything = rule("* * * *");
    let others = Rule {
        clusters: Some(ClusterRule {
            local: true,
            names: vec![NamePattern::any()],
            selector: None,
        }),
        ..everything.clone()
    };
    let grant = Grant::new([everything, others]);
    let (prod, dev, local) = (World::new("prod-eu"), World::new("dev"), World::new(""));
    let bound = |bound: ClusterBound| grant.within_clusters(bound);
    let reached = |grant: &Grant| {
        [&prod, &dev, &local].map(|world| {
            let own = grant.check(&world.access(Verb::Get)).is_ok();
            assert_eq!(own, grant.reaches(&world.facts(false)), "{}", world.name);
            own
        })
    };
    let none = bound(ClusterBound::default());
    assert_eq!(reached(&none), [false, false, false]);
    assert!(!none.reaches_other_clusters() && !none.reaches_by_name(&prod.name));
    let named = bound(ClusterBound {
        names: vec![NamePattern::new("prod-*")],
        ..ClusterBound::default()
    });
    assert_eq!(reached(&named), [true, false, false]);
    assert!(named.reaches_by_name(&prod.name) && !named.reaches_by_name(&dev.name));
    let denied = named.check(&dev.access(Verb::Get)).unwrap_err().to_string();
    assert!(denied.contains("spec.clusters of the Tenant"), "{denied}");
    let provided = |provider: &str| ClusterBound {
        local: true,
        providers: vec![provider.into()],
        ..ClusterBound::default()
    };
    assert_eq!(reached(&bound(provided("fleet"))), [true, true, true]);
    assert_eq!(reached(&bound(provided("other"))), [false, false, true]);
    // Whether a cluster of a name exists is not told where labels or providers decide.
    assert!(!bound(provided("fleet")).reaches_by_name(&prod.name));
    let labelled = bound(ClusterBound {
        selector: Some("env=dev".parse().unwrap()),
        ..ClusterBound::default()
    });
    assert_eq!(reached(&labelled), [false, false, false]);
    // A new bound holds for what serves under the one before.
    assert_eq!(reached(&grant.and(&named)), [true, false, false]);
    assert_eq!(named.and(&named), named);
}
