//! A description that cannot be used is refused with an error that says what to do.

use super::*;
use crate::contract::windlass::runtime::types::GroupVersionKind as WitKind;
use crate::description::kinds::CustomResource;
use windlass_fleet::name::NamePattern;
use windlass_fleet::path::{FieldMask, FieldPath};
use windlass_fleet::{Grant, Rule};

fn kind(group: &str, kind: &str) -> WitKind {
    WitKind {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
    }
}

fn raw_watch(of: WitKind, enqueue: wit::Enqueue) -> wit::Watch {
    wit::Watch {
        kind: of,
        enqueue,
        clusters: wit::ClusterScope::AsConfigured,
        label_selector: None,
        field_selector: None,
        changes: Vec::new(),
        metadata_only: false,
        options: Vec::new(),
    }
}

fn raw(watches: Vec<wit::Watch>) -> wit::Description {
    let primary = Some(kind("", "ConfigMap"));
    wit::Description {
        title: "a guest".into(),
        primary,
        watches,
        indexes: Vec::new(),
        options: Vec::new(),
    }
}

fn primary() -> wit::Watch {
    raw_watch(kind("", "ConfigMap"), wit::Enqueue::Primary)
}

fn refused(raw: wit::Description) -> String {
    Description::check(raw, false).unwrap_err().to_string()
}

fn rule(group: &str, resource: &str, verbs: &[&str], namespace: &str) -> Rule {
    Rule {
        api_groups: vec![group.into()],
        resources: vec![resource.into()],
        verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
        namespaces: vec![namespace.into()],
        ..Rule::default()
    }
}

#[test]
fn a_guest_that_watches_nothing_is_refused() {
    assert!(refused(raw(Vec::new())).contains("would never run"));
}

#[test]
fn a_title_drives_no_terminal() {
    let mut described = raw(vec![primary()]);
    described.title = "red\u{1b}[31m\nline".into();
    let checked = Description::check(described, false).unwrap();
    assert_eq!(checked.title, "red\\u{1b}[31m line");
}

#[test]
fn an_option_of_a_later_version_fails_by_name() {
    let mut watch = primary();
    watch.options.push(("debounce".into(), "1s".into()));
    assert_eq!(
        refused(raw(vec![watch])),
        "watch 1 (v1/ConfigMap) has the option \"debounce\", which this host does not know: use a newer host, or build the guest without it"
    );
}

#[test]
fn a_watch_may_say_which_of_the_providers_clusters_it_engages() {
    let with = |options: &[(&str, &str)]| {
        let mut watch = primary();
        let options = options.iter();
        watch.options = options.map(|(k, v)| ((*k).into(), (*v).into())).collect();
        raw(vec![watch])
    };
    let of = |raw| {
        Description::check(raw, false).unwrap().watches[0]
            .only
            .clone()
    };
    assert_eq!(of(with(&[])), ClusterFilter::default());
    let some = [
        ("cluster-names", "hub, edge-*"),
        ("cluster-selector", "tier=gold"),
    ];
    let only = ClusterFilter {
        names: vec![NamePattern::new("hub"), NamePattern::new("edge-*")],
        selector: Some(LabelSelector::parse("tier=gold").unwrap()),
    };
    assert_eq!(of(with(&some)), only);
    for (options, reason) in [
        ([("cluster-names", "hub,"), some[1]], "empty or too long"),
        ([some[0], some[0]], "twice"),
        (
            [some[0], ("cluster", "hub")],
            "the option \"cluster\", which this host does not know",
        ),
    ] {
        let error = refused(with(&options));
        assert!(error.contains(reason), "{error}");
    }
    let wrong = [("cluster-selector", "tier in gold")];
    assert!(refused(with(&wrong)).contains("watch 1"));
}

#[test]
fn a_kind_has_a_mask_where_all_its_watches_name_the_fields_that_are_read() {
    let reads = |fields: &str| {
        let mut watch = primary();
        watch.options = vec![("fields".into(), fields.into())];
        watch
    };
    let owned = |watch: wit::Watch| wit::Watch {
        enqueue: wit::Enqueue::ControllerOwner,
        ..watch
    };
    let masks = |watches| Description::check(raw(watches), false).unwrap().masks();
    let mask = |paths| FieldMask::new(&FieldPath::list(paths).unwrap());
    let of = |paths| vec![(GroupVersionKind::new("", "v1", "ConfigMap"), mask(paths))];
    assert_eq!(masks(vec![primary()]), []);
    assert_eq!(masks(vec![reads("data.a, data.b")]), of("data.a,data.b"));
    assert_eq!(
        masks(vec![reads("data.a"), owned(reads("data.b"))]),
        of("data.a,data.b")
    );
    assert_eq!(masks(vec![reads("data.a"), owned(primary())]), []);
    let metadata = |watch| wit::Watch {
        metadata_only: true,
        ..watch
    };
    let both = vec![reads("data.a"), owned(metadata(primary()))];
    assert_eq!(masks(both), of("data.a"));
    for (watch, reason) in [
        (reads("data..a"), "watch 1 (v1/ConfigMap)"),
        (metadata(reads("data.a")), "leave one of them out"),
    ] {
        let error = refused(raw(vec![watch]));
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn there_is_one_primary_watch_and_it_is_of_the_primary_kind() {
    assert!(
        refused(raw(vec![primary(), primary()]))
            .starts_with("both watch 1 (v1/ConfigMap) and watch 2")
    );
    let other = raw_watch(kind("", "Secret"), wit::Enqueue::Primary);
    assert!(refused(raw(vec![other])).contains("but the primary kind is v1/ConfigMap"));
    let mut undeclared = raw(vec![raw_watch(
        kind("", "Secret"),
        wit::Enqueue::ControllerOwner,
    )]);
    undeclared.primary = None;
    assert!(
        refused(undeclared).contains("enqueues by controller-owner, which needs a primary kind")
    );
}

#[test]
fn an_index_that_is_enqueued_by_is_declared_on_the_primary_kind() {
    let by_index = || raw_watch(kind("", "Secret"), wit::Enqueue::ByIndex("secret".into()));
    assert!(refused(raw(vec![primary(), by_index()])).contains("index \"secret\""));
    let mut declared = raw(vec![primary(), by_index()]);
    declared.indexes.push(wit::Index {
        kind: kind("", "ConfigMap"),
        name: "secret".into(),
        path: "data.secret".into(),
        namespace_path: None,
        options: Vec::new(),
    });
    assert_eq!(
        Description::check(declared.clone(), false)
            .unwrap()
            .indexes
            .len(),
        1
    );
    declared.indexes[0].path = "data[".into();
    let error = Description::check(declared, false).unwrap_err();
    assert_eq!(error.to_string(), "index \"secret\" of v1/ConfigMap");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_mapped_watch_needs_the_export() {
    let mapped = || raw(vec![raw_watch(kind("", "Secret"), wit::Enqueue::Mapped)]);
    assert!(refused(mapped()).contains("does not export windlass:runtime/mapper"));
    assert!(Description::check(mapped(), true).is_ok());
}

#[test]
fn selectors_are_checked() {
    let mut labels = primary();
    labels.label_selector = Some("a in (".into());
    assert!(matches!(
        Description::check(raw(vec![labels]), false),
        Err(DescriptionError::Selector { .. })
    ));
    let mut fields = primary();
    fields.field_selector = Some("spec.nodeName=a".into());
    assert!(refused(raw(vec![fields])).contains("metadata.name and metadata.namespace"));
}

#[test]
fn what_is_not_a_kind_is_refused() {
    let watch = raw_watch(kind("", "../secrets"), wit::Enqueue::Mapped);
    assert!(refused(raw(vec![watch])).contains("is not a kind"));
}

#[test]
fn a_watch_outside_the_grant_prints_the_missing_rule() {
    let description = Description::check(raw(vec![primary()]), false).unwrap();
    let error = description
        .check_granted(&Grant::new([rule("", "configmaps", &["get", "list"], "*")]))
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("watch 1 (v1/ConfigMap) needs a rule that is not there: no rule grants list and watch on configmaps"), "{error}");
    assert!(error.ends_with("- {apiGroups: [\"\"], resources: [configmaps], verbs: [list, watch], namespaces: [\"*\"]}"), "{error}");
}

#[test]
fn all_watches_outside_the_grant_are_told_at_once() {
    let owned = |of: &str| raw_watch(kind("apps", of), wit::Enqueue::ControllerOwner);
    let watches = vec![
        primary(),
        owned("Deployment"),
        owned("StatefulSet"),
        owned("Deployment"),
    ];
    let description = Description::check(raw(watches), false).unwrap();
    let error = description.check_granted(&Grant::none()).unwrap_err();
    let error = error.to_string();
    let places = error.matches(" needs a rule that is not there: ").count();
    assert_eq!(places, 4, "{error}");
    for (group, resource) in [
        ("\"\"", "configmaps"),
        ("apps", "deployments"),
        ("apps", "statefulsets"),
    ] {
        let rule = format!("\n    - {{apiGroups: [{group}], resources: [{resource}], ");
        assert_eq!(error.matches(&rule).count(), 1, "{error}");
    }
}

/// Clusters are objects of the local cluster, and a rule opens those that are seen.
#[test]
fn a_watch_of_clusters_needs_a_rule_that_opens_some() {
    let of_clusters = WitKind {
        version: "v1alpha1".into(),
        ..kind("fleet.windlass.dev", "Cluster")
    };
    let watch = raw_watch(of_clusters, wit::Enqueue::Mapped);
    let description = Description::check(raw(vec![watch]), true).unwrap();
    assert_eq!(description.watches[0].clusters, WatchClusters::Local);

    let verbs = ["list", "watch"];
    let lacks = |rules: &[Rule]| {
        let refused = description.check_granted(&Grant::new(rules.to_vec()));
        refused.unwrap_err().to_string()
    };
    let printed = "- {apiGroups: [fleet.windlass.dev], resources: [clusters], verbs: [list, watch], namespaces: [\"*\"], clusters: {local: true, names: [\"*\"]}}";
    assert!(lacks(&[]).ends_with(printed), "{}", lacks(&[]));

    let own = rule("fleet.windlass.dev", "clusters", &verbs, "*");
    let blind = lacks(std::slice::from_ref(&own));
    assert!(blind.contains("no rule opens one"), "{blind}");
    assert_eq!(
        description.check_granted(&Grant::new([own.of_use()])),
        Ok(())
    );
}

#[test]
fn a_watch_in_one_granted_namespace_is_enough() {
    let description = Description::check(raw(vec![primary()]), false).unwrap();
    assert_eq!(
        description.check_granted(&Grant::new([rule(
            "",
            "configmaps",
            &["list", "watch"],
            "team-a"
        )])),
        Ok(())
    );
}

#[test]
fn a_kind_whose_resource_is_unknown_is_left_to_the_cluster_if_its_group_is_named() {
    let mut of_crd = raw(vec![raw_watch(
        kind("example.dev", "Goose"),
        wit::Enqueue::Primary,
    )]);
    of_crd.primary = Some(kind("example.dev", "Goose"));
    let description = Description::check(of_crd, false).unwrap();
    assert_eq!(
        description.check_granted(&Grant::new([rule(
            "example.dev",
            "geese",
            &["list", "watch"],
            "*"
        )])),
        Ok(())
    );
    let error = description
        .check_granted(&Grant::new([rule("", "configmaps", &["*"], "*")]))
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("# the resource is a guess"), "{error}");
}

#[test]
fn needed_rules_follow_watches_and_imported_functions() {
    let owned = raw_watch(kind("", "ConfigMap"), wit::Enqueue::ControllerOwner);
    let geese = raw_watch(kind("example.dev", "Goose"), wit::Enqueue::SameName);
    let description = Description::check(raw(vec![primary(), owned, geese]), false).unwrap();
    let functions = ["get".into(), "apply".into(), "record-event".into()];
    let needed = needed_rules(&description, &functions, &[]);
    assert_eq!(
        needed.yaml,
        "- {apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, patch], namespaces: [\"*\"]}\n\
         - {apiGroups: [example.dev], resources: [gooses], verbs: [get, list, watch], namespaces: [\"*\"]}  \
         # the resource is a guess: check it with kubectl api-resources\n"
    );
    // As dependents write.
    let functions = ["get".into(), "patch".into(), "batch".into()];
    let yaml = needed_rules(&description, &functions, &[]).yaml;
    assert!(
        yaml.contains("[configmaps], verbs: [get, list, watch, patch, create, delete], namespaces: [\"*\"]}  # what"),
        "{yaml}"
    );
    let geese = CustomResource {
        group: "example.dev".into(),
        kind: "Goose".into(),
        resource: "geese".into(),
    };
    let all = [
        "create",
        "update",
        "patch",
        "apply",
        "delete",
        "delete-collection",
        "batch",
    ];
    let yaml = needed_rules(&description, &all.map(Into::into), &[geese]).yaml;
    assert!(
        yaml.contains("resources: [geese], verbs: [get, list, watch], namespaces: [\"*\"]}\n")
            && yaml
                .contains("deletecollection], namespaces: [\"*\"]}  # what it writes is unknown"),
        "{yaml}"
    );
}
