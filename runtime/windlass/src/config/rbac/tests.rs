//! The rules of roles, from documents to manifests.

use super::*;
use crate::config::kinds::{ManagerSpec, ProviderSpec, ReconcilerSpec, TenantSpec};
use crate::config::load::load;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use windlass_files::split;
use windlass_fleet::name::NamePattern;

fn read<T: DeserializeOwned>(yaml: &str) -> T {
    let file: Arc<str> = "test.yaml".into();
    let part = split(yaml).into_iter().next().unwrap();
    let decoded = part.parse(&file).unwrap().decode();
    decoded.unwrap_or_else(|error| panic!("{yaml}: {}", error.message("the test")))
}

fn reconciler(rules: &str) -> ReconcilerSpec {
    read(&format!("guest: {{path: x.wasm}}\nrules: {rules}\n"))
}

/// The permissions that rules grant.
pub(crate) fn permissions(rules: &str) -> RuleSet {
    self::rules(&reconciler(rules).rules).iter().collect()
}

/// The rules of permissions on a line each.
fn lines(permissions: &RuleSet) -> Vec<String> {
    let rules = permissions.rules();
    rules.iter().map(ToString::to_string).collect()
}

fn tenant(yaml: &str) -> TenantSpec {
    read(yaml)
}

/// A guest that watches the configured clusters and calls these functions.
fn description(functions: &[&str]) -> Option<Description> {
    Some(Description {
        scopes: vec![(WatchClusters::AsConfigured, ClusterFilter::default())],
        maps: false,
        functions: functions.iter().map(ToString::to_string).collect(),
        watched: RuleSet::default(),
    })
}

fn print(side: Side, work: &[Work<'_>], manager: &ManagerSpec) -> String {
    yaml(&manifests(&needed(side, work, manager, None), "w", None))
}

fn members(work: &[Work<'_>]) -> String {
    print(Side::Members, work, &ManagerSpec::default())
}

fn alone<'a>(spec: &'a ReconcilerSpec, tenant: Option<&'a TenantSpec>) -> Work<'a> {
    let description = description(&[]);
    Work {
        spec,
        tenant,
        has_provider: true,
        description,
    }
}

const HEAD: &str =
    "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: w}\nrules:\n";
const IDENTITY: &str = "  - {apiGroups: [\"\"], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}\n";

#[test]
fn rules_are_merged_sorted_and_printed_once() {
    let one = reconciler(
        r#"[{apiGroups: [""], resources: [secrets, configmaps], verbs: [watch, list, get], namespaces: ["*"]},
            {apiGroups: [""], resources: [configmaps], verbs: [patch], namespaces: [team]},
            {apiGroups: [apps], resources: [deployments, deployments/status], verbs: [get], namespaces: ["*"]}]"#,
    );
    let other = reconciler(
        r#"[{apiGroups: [""], resources: [configmaps], verbs: [get, patch], namespaces: ["*"]},
            {apiGroups: [""], resources: [configmaps], verbs: [get], resourceNames: [a], namespaces: ["*"]},
            {apiGroups: [apps, extensions], resources: [deployments], verbs: [delete], resourceNames: [b, a], namespaces: ["*"]}]"#,
    );
    let printed = members(&[alone(&one, None), alone(&other, None)]);
    let expected = format!(
        "{HEAD}  - {{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, patch]}}\n{IDENTITY}  \
         - {{apiGroups: [\"\"], resources: [secrets], verbs: [get, list, watch]}}\n  \
         - {{apiGroups: [apps], resources: [deployments, deployments/status], verbs: [get]}}\n  \
         - {{apiGroups: [apps, extensions], resources: [deployments], resourceNames: [a, b], verbs: [delete]}}\n"
    );
    assert_eq!(printed, expected);
}

#[test]
fn no_server_is_asked_for_the_kinds_of_the_host() {
    let spec = reconciler(
        r#"[{apiGroups: [fleet.windlass.dev], resources: [clusters], verbs: [get, list, watch], namespaces: ["*"], clusters: {local: true, names: ["*"]}},
            {apiGroups: [""], resources: [configmaps], verbs: [get], namespaces: ["*"], clusters: {local: true}}]"#,
    );
    for side in [Side::Local, Side::Members] {
        let roles = print(side, &[alone(&spec, None)], &ManagerSpec::default());
        assert!(!roles.contains("fleet.windlass.dev"), "{roles}");
        assert_eq!(roles.contains("configmaps"), side == Side::Local, "{roles}");
    }
}

#[test]
fn what_is_granted_in_namespaces_is_a_role_in_each() {
    let spec = reconciler(
        r#"[{apiGroups: [""], resources: [configmaps], verbs: [get, "*"], namespaces: [a, b]}]"#,
    );
    let work = Work {
        description: description(&["record-event"]),
        ..alone(&spec, None)
    };
    let printed = members(&[work]);
    let role = |namespace: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{namespace: {namespace}, name: w}}\nrules:\n  \
             - {{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}}\n  \
             - {{apiGroups: [\"\"], resources: [events], verbs: [create, patch]}}\n"
        )
    };
    assert_eq!(
        printed,
        format!("{HEAD}{IDENTITY}---\n{}---\n{}", role("a"), role("b"))
    );
}

#[test]
fn a_tenants_ceiling_is_what_both_grant() {
    let spec = reconciler(
        r#"[{apiGroups: ["*"], resources: ["*"], verbs: [get, list], namespaces: ["*"]},
            {apiGroups: [""], resources: [pods], verbs: [delete], resourceNames: [a, b], namespaces: ["*"]},
            {apiGroups: [""], resources: [secrets], verbs: ["*"], namespaces: ["*"]}]"#,
    );
    let ceiling = tenant(
        r#"rules: [{apiGroups: [""], resources: [configmaps, "*/status"], verbs: [get, patch], namespaces: [x]},
                   {apiGroups: [""], resources: [pods], verbs: ["*"], resourceNames: [b, c], namespaces: ["*"]}]"#,
    );
    let printed = members(&[alone(&spec, Some(&ceiling))]);
    let expected = format!(
        "{HEAD}{IDENTITY}  - {{apiGroups: [\"\"], resources: [pods], resourceNames: [b], verbs: [get, list, delete]}}\n  \
         - {{apiGroups: [\"\"], resources: [pods], resourceNames: [c], verbs: [get, list]}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{namespace: x, name: w}}\nrules:\n  \
         - {{apiGroups: [\"\"], resources: [\"*/status\", configmaps], verbs: [get]}}\n"
    );
    assert_eq!(printed, expected);
}

#[test]
fn a_tenant_that_acts_as_somebody_needs_of_the_manager_caches_and_impersonation() {
    let spec = reconciler(
        r#"[{apiGroups: [""], resources: [configmaps], verbs: ["*"], namespaces: ["*"]},
            {apiGroups: [""], resources: [secrets], verbs: [get, list, create], namespaces: ["*"]}]"#,
    );
    let tenant = tenant("impersonate: {user: team-a, groups: [teams]}\n");
    let work = Work {
        description: description(&["record-event"]),
        ..alone(&spec, Some(&tenant))
    };
    let expected = format!(
        "{HEAD}  - {{apiGroups: [\"\"], resources: [configmaps], verbs: [list, watch]}}\n  \
         - {{apiGroups: [\"\"], resources: [groups], resourceNames: [teams], verbs: [impersonate]}}\n{IDENTITY}  \
         - {{apiGroups: [\"\"], resources: [users], resourceNames: [team-a], verbs: [impersonate]}}\n"
    );
    assert_eq!(members(&[work]), expected);

    let account = read::<TenantSpec>("impersonate: {user: \"system:serviceaccount:a:b\"}\n");
    let printed = members(&[alone(&spec, Some(&account))]);
    assert!(
        printed.contains("kind: Role\nmetadata: {namespace: a, name: w}\nrules:\n  - {apiGroups: [\"\"], resources: [serviceaccounts], resourceNames: [b], verbs: [impersonate]}\n"),
        "{printed}"
    );
}

#[test]
fn rules_count_where_a_guest_works_or_asks_for() {
    let hub = reconciler(
        r#"[{apiGroups: [""], resources: [configmaps], verbs: [get], namespaces: ["*"], clusters: {local: true}},
            {apiGroups: [""], resources: [secrets], verbs: [get], namespaces: ["*"], clusters: {names: ["*"]}},
            {apiGroups: [""], resources: [pods], verbs: [get], namespaces: ["*"]}]"#,
    );
    let work = |scopes: &[WatchClusters], maps| {
        let description = Description {
            scopes: scopes
                .iter()
                .map(|scope| (*scope, ClusterFilter::default()))
                .collect(),
            maps,
            ..Description::default()
        };
        [Work {
            description: Some(description),
            ..alone(&hub, None)
        }]
    };
    let has = |side, scopes: &[WatchClusters], maps| {
        let printed = print(side, &work(scopes, maps), &ManagerSpec::default());
        ["configmaps", "secrets", "pods"].map(|resource| printed.contains(resource))
    };
    use WatchClusters::{AsConfigured, Local, Provider};
    assert_eq!(
        has(Side::Members, &[AsConfigured], false),
        [false, true, true]
    );
    assert_eq!(
        has(Side::Local, &[AsConfigured], false),
        [true, false, false]
    );
    assert_eq!(has(Side::Local, &[Local], false), [true, false, true]);
    assert_eq!(has(Side::Members, &[Local], false), [false, true, false]);
    // A mapper may return requests for any cluster that a rule names. That cluster is then the request's own.
    assert_eq!(has(Side::Members, &[Local], true), [false, true, true]);
    assert_eq!(has(Side::Local, &[Provider], true), [true, false, true]);
    let unknown = [Work {
        description: None,
        ..alone(&hub, None)
    }];
    let printed = print(Side::Local, &unknown, &ManagerSpec::default());
    assert!(
        printed.contains("pods") && printed.contains("events"),
        "{printed}"
    );
}

#[test]
fn only_the_local_cluster_has_the_lease() {
    let manager: ManagerSpec = read("leaderElection: {enabled: true, namespace: ops}\n");
    let spec = reconciler("[]");
    let work = [alone(&spec, None)];
    let expected = format!(
        "{HEAD}{IDENTITY}{REVIEWS}---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{namespace: ops, name: w}}\nrules:\n  \
         - {{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}}\n  \
         - {{apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [windlass], verbs: [get, update]}}\n"
    );
    assert_eq!(print(Side::Local, &work, &manager), expected);
    assert_eq!(
        print(Side::Members, &work, &manager),
        format!("{HEAD}{IDENTITY}")
    );
}

#[test]
fn members_of_a_sharding_handle_all_leases_of_its_namespace() {
    let manager: ManagerSpec = read("sharding: {enabled: true, namespace: ops}\n");
    let printed = print(Side::Local, &[], &manager);
    let leases = "  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list, create, update, delete]}\n";
    assert!(
        printed.contains("metadata: {namespace: ops, name: w}") && printed.ends_with(leases),
        "{printed}"
    );
    assert!(!print(Side::Members, &[], &manager).contains("leases"));
}

/// What a process needs to ask about callers of its API.
const REVIEWS: &str = "  - {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}\n  \
                       - {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}\n";

#[test]
fn only_a_process_that_asks_about_callers_needs_reviews() {
    let spec = reconciler("[]");
    for (manager, asks) in [
        ("{}\n", true),
        ("local: {inCluster: true}\n", true),
        ("local: {kubeconfig: x}\n", false),
        (
            "local: {kubeconfig: x}\nadmin: {authentication: TokenReview}\n",
            true,
        ),
        ("admin: {authentication: TokenFile}\n", false),
    ] {
        let printed = print(Side::Local, &[alone(&spec, None)], &read(manager));
        assert_eq!(printed.contains(REVIEWS), asks, "{manager}");
    }
}

#[test]
fn callers_are_granted_paths_that_not_every_user_may_get() {
    assert_eq!(
        yaml(&callers("api")[1..2]),
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: api-edit}\nrules:\n  \
         - {nonResourceURLs: [\"/windlass/api/v1/*\", \"/metrics\"], verbs: [get]}\n  \
         - {nonResourceURLs: [\"/windlass/api/contents/v1/*\"], verbs: [get]}\n  \
         - {nonResourceURLs: [\"/windlass/api/v1/drain\", \"/windlass/api/v1/pause\", \"/windlass/api/v1/record\", \"/windlass/api/v1/release\", \"/windlass/api/v1/requeue\", \"/windlass/api/v1/resume\", \"/windlass/api/v1/rollback\"], verbs: [post]}\n"
    );
}

#[test]
fn only_the_local_cluster_has_the_managers_own_events() {
    let spec = reconciler("[]");
    let print = |side| {
        let work = [alone(&spec, None)];
        let needed = needed(side, &work, &ManagerSpec::default(), Some("ops"));
        yaml(&manifests(&needed, "w", None))
    };
    let role = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {namespace: ops, name: w}\nrules:\n  \
                - {apiGroups: [\"\"], resources: [events], verbs: [create, patch]}\n";
    assert_eq!(
        print(Side::Local),
        format!("{HEAD}{IDENTITY}{REVIEWS}{role}")
    );
    assert_eq!(print(Side::Members), format!("{HEAD}{IDENTITY}"));
}

#[test]
fn deleting_collections_everywhere_takes_the_names_of_namespaces() {
    let spec = reconciler(
        r#"[{apiGroups: [""], resources: [configmaps], verbs: [deletecollection], namespaces: ["*"]}]"#,
    );
    let work = Work {
        description: description(&["delete-collection"]),
        ..alone(&spec, None)
    };
    assert!(members(&[work]).contains("resources: [namespaces], verbs: [list]"));
    assert!(!members(&[alone(&spec, None)]).contains("verbs: [list]"));
}

#[test]
fn roles_are_bound_to_whom_is_named() {
    let spec =
        reconciler(r#"[{apiGroups: [""], resources: [pods], verbs: [get], namespaces: [a]}]"#);
    let needed = needed(
        Side::Members,
        &[alone(&spec, None)],
        &ManagerSpec::default(),
        None,
    );
    let bound = |subject: &str| {
        let subject: Subject = subject.parse().unwrap();
        let manifests = manifests(&needed, "w", Some(&subject));
        let kinds: Vec<_> = manifests.iter().map(|m| m["kind"].clone()).collect();
        assert_eq!(
            kinds,
            ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
        );
        yaml(&manifests[1..2])
    };
    assert_eq!(
        bound("user:system:node:a"),
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: w}\n\
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: w}\n\
         subjects:\n  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: \"system:node:a\"}\n"
    );
    assert!(
        bound("serviceaccount:ops/windlass")
            .ends_with("  - {kind: ServiceAccount, namespace: ops, name: windlass}\n")
    );
    for wrong in ["", "user:", "windlass", "serviceaccount:windlass"] {
        assert!(wrong.parse::<Subject>().is_err(), "{wrong}");
    }
}

/// What a reconciler needs in a cluster of a provider, in the rules' own form.
fn needs_in(work: &Work<'_>, name: &str, labels: &[(&str, &str)]) -> Needs {
    let labels = labels.iter();
    let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let place = Place {
        side: Side::Members,
        cluster: Some(Member {
            name: &ClusterName::new(name).unwrap(),
            labels: &labels.collect::<std::collections::BTreeMap<_, _>>().into(),
            namespace: None,
        }),
    };
    work.needs(place)
}

#[test]
fn a_cluster_that_is_not_selected_needs_nothing() {
    const RULES: &str = r#"[
        {apiGroups: [""], resources: [pods], verbs: [get], namespaces: ["*"]},
        {apiGroups: [""], resources: [secrets], verbs: [get], namespaces: ["*"], clusters: {names: ["hub-*"]}}]"#;
    let spec: ReconcilerSpec = read(&format!(
        "guest: {{path: x.wasm}}\nclusters: {{names: [\"eu-*\"], selector: stage=prod}}\nrules: {RULES}\n"
    ));
    let work = alone(&spec, None);
    let own = |name, labels: &[(&str, &str)]| lines(&needs_in(&work, name, labels).own).concat();
    assert!(own("eu-1", &[("stage", "prod")]).contains("pods"));
    assert_eq!(own("eu-1", &[("stage", "test")]), "");
    assert_eq!(own("us-1", &[("stage", "prod")]), "");
    assert!(own("hub-1", &[]).contains("secrets") && !own("hub-1", &[]).contains("pods"));

    let filtered = Description {
        scopes: vec![(
            WatchClusters::Provider,
            ClusterFilter {
                names: vec![NamePattern::new("eu-1")],
                selector: None,
            },
        )],
        ..Description::default()
    };
    let work = Work {
        description: Some(filtered),
        ..alone(&spec, None)
    };
    let prod = [("stage", "prod")];
    assert!(!needs_in(&work, "eu-1", &prod).own.is_empty());
    assert!(needs_in(&work, "eu-2", &prod).own.is_empty());
}

#[test]
fn an_impersonated_user_needs_what_no_cache_answers() {
    let spec = reconciler(
        r#"[{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, patch], namespaces: ["*"]},
            {apiGroups: [""], resources: [secrets], verbs: [get], namespaces: [team]}]"#,
    );
    let team = tenant("impersonate: {user: bot}\n");
    let needs = needs_in(&alone(&spec, Some(&team)), "a", &[]);
    assert_eq!(
        lines(&needs.user),
        [
            r#"{apiGroups: [""], resources: [configmaps], verbs: [patch], namespaces: ["*"]}"#,
            r#"{apiGroups: [""], resources: [secrets], verbs: [get], namespaces: [team]}"#,
        ]
    );
    assert_eq!(
        lines(&needs.own),
        [
            r#"{apiGroups: [""], resources: [configmaps], verbs: [list, watch], namespaces: ["*"]}"#,
            r#"{apiGroups: [""], resources: [users], resourceNames: [bot], verbs: [impersonate], namespaces: ["*"]}"#,
        ]
    );
}

#[test]
fn a_watch_below_a_rule_for_everything_is_asked_about_by_itself() {
    let spec = reconciler(
        r#"[{apiGroups: ["*"], resources: ["*"], verbs: ["*"], namespaces: [team]},
            {apiGroups: [apps], resources: [deployments], verbs: [get, list], namespaces: ["*"]}]"#,
    );
    let watched = |group, resource| Right::new(group, resource, Verb::Watch);
    let description = Description {
        watched: [watched("", "pods"), watched("apps", "deployments")]
            .into_iter()
            .collect(),
        ..description(&[]).unwrap_or_default()
    };
    let work = Work {
        description: Some(description),
        ..alone(&spec, None)
    };
    let needs = needs_in(&work, "a", &[]);
    assert_eq!(
        lines(&needs.watches),
        [
            r#"{apiGroups: [""], resources: [pods], verbs: [list, watch], namespaces: [team]}"#,
            "{apiGroups: [apps], resources: [deployments], verbs: [list, watch], namespaces: [team]}",
        ]
    );
    assert_eq!(needs.own.and(&needs.watches), needs.watches);
}

#[test]
fn a_provider_without_clusters_leaves_the_local_one() {
    let local_needs = |source: &str| {
        let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        let document = |kind: &str, spec: &str| {
            format!(
                "apiVersion: windlass.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n---\n"
            )
        };
        let rule = r#"{apiGroups: [""], resources: [pods], verbs: [get], namespaces: ["*"]}"#;
        let documents = [
            document("Provider", source),
            document(
                "Reconciler",
                &format!("{{guest: {{path: x.wasm}}, rules: [{rule}]}}"),
            ),
        ];
        std::fs::write(file.path(), documents.concat()).unwrap();
        let configuration = load(&[file.path().to_owned()]).configuration;
        let (_, spec) = configuration.reconcilers().next().unwrap();
        let work = Work {
            has_provider: configuration.has_provider(),
            ..alone(spec, None)
        };
        lines(&work.needs(Side::Local.into()).own).concat()
    };
    assert!(local_needs("{none: {}}").contains("pods"));
    assert_eq!(local_needs("{single: {kubeconfig: a}}"), "");
}

#[test]
fn a_pull_secret_is_read_in_the_local_cluster() {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let document = "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {name: hello}\nspec:\n  \
        guest: {image: 'r.io/hello:1', pullSecret: {namespace: team, name: login}}\n";
    std::fs::write(file.path(), document).unwrap();
    let configuration = load(&[file.path().to_owned()]).configuration;
    assert!(configuration.asks_for_local());
    let needed = lines(&in_local(&configuration));
    let secret = r#"{apiGroups: [""], resources: [secrets], resourceNames: [login], verbs: [get], namespaces: [team]}"#;
    assert_eq!(needed, [secret]);
}

#[test]
fn a_provider_reads_what_it_watches_in_its_hub() {
    let hub = |yaml: &str| {
        let spec: ProviderSpec = read(yaml);
        let hub = Hub::of(&spec)?;
        Some((hub.is_elsewhere(), lines(&hub.needed())))
    };
    let (elsewhere, needed) = hub("clusterAPI: {from: {kubeconfig: hub.yaml}}\n").unwrap();
    assert!(elsewhere);
    assert_eq!(
        needed,
        [
            r#"{apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get], namespaces: ["*"]}"#,
            r#"{apiGroups: [""], resources: [secrets], verbs: [get, list, watch], namespaces: ["*"]}"#,
            // The kind may come later.
            r#"{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch], namespaces: ["*"]}"#,
            r#"{apiGroups: [cluster.x-k8s.io], resources: [clusters], verbs: [get, list, watch], namespaces: ["*"]}"#,
        ]
    );
    let (elsewhere, needed) = hub("kubeconfigSecrets: {namespaces: [fleet]}\n").unwrap();
    assert!(!elsewhere);
    let secrets = r#"{apiGroups: [""], resources: [secrets], verbs: [get, list, watch], namespaces: [fleet]}"#;
    assert!(needed.iter().any(|line| line == secrets), "{needed:?}");
    let profiles = "clusterProfiles: {secrets: {consumer: windlass}}\n";
    assert_eq!(
        hub(profiles).unwrap().1.len(),
        4,
        "namespaces, secrets, definitions, profiles"
    );
    let namespaces = r#"{apiGroups: [""], resources: [namespaces], verbs: [get, list, watch], namespaces: ["*"]}"#;
    let needed = hub("namespaces: {}\n").unwrap().1;
    assert!(needed.iter().any(|line| line == namespaces), "{needed:?}");
    assert!(hub("none: {}\n").is_none());
    let kcp = "kcp: {apiExport: {name: things}, terminatingWorkspaces: {workspaceType: team}}\n";
    let needed = hub(kcp).unwrap().1;
    for line in [
        r#"{apiGroups: [apis.kcp.io], resources: [apiexports/content], resourceNames: [things], verbs: ["*"], namespaces: ["*"]}"#,
        r#"{apiGroups: [tenancy.kcp.io], resources: [workspacetypes], resourceNames: [team], verbs: [terminate], namespaces: ["*"]}"#,
    ] {
        assert!(needed.iter().any(|needed| needed == line), "{needed:?}");
    }
}

#[test]
fn a_cluster_that_is_a_namespace_needs_rights_there_and_caches_of_the_whole_server() {
    let shown = permissions(
        r#"[{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, patch], namespaces: ["*"]},
            {apiGroups: [""], resources: [secrets], verbs: [get], namespaces: [default, other]}]"#,
    );
    assert_eq!(
        lines(&in_namespace(&shown, "team-a", "default")),
        [
            r#"{apiGroups: [""], resources: [configmaps], verbs: [list, watch], namespaces: ["*"]}"#,
            r#"{apiGroups: [""], resources: [configmaps], verbs: [get, patch], namespaces: [team-a]}"#,
            r#"{apiGroups: [""], resources: [secrets], verbs: [get], namespaces: [team-a]}"#,
        ]
    );
}
