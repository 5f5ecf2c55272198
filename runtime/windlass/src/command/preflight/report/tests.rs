//! Reports as people and programs get them. Entry points: the tests.

use super::*;
use crate::config::rbac::permissions;

fn reached(name: &str, missing: Vec<Missing>) -> ClusterReport {
    ClusterReport {
        name: name.to_owned(),
        provider: Some("fleet".to_owned()),
        reachable: true,
        version: Some("v1.36.0".to_owned()),
        identity: Some("1-2-3".to_owned()),
        user: Some("system:serviceaccount:ops:windlass".to_owned()),
        missing,
        ..ClusterReport::default()
    }
}

fn missing(reconciler: &str, impersonates: Option<&str>, rules: &str) -> Missing {
    Missing {
        provider: None,
        reconciler: Some(reconciler.to_owned()),
        impersonates: impersonates.map(str::to_owned),
        watches: Vec::new(),
        rules: permissions(rules),
    }
}

fn checked(clusters: Vec<ClusterReport>) -> Checked {
    Checked {
        clusters,
        ..Checked::default()
    }
}

fn of(clusters: Vec<ClusterReport>) -> Report {
    Report::new(checked(clusters), Vec::new())
}

fn plain(report: &Report, wide: bool) -> String {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    anstream::adapter::strip_str(&report.text(wide, now)).to_string()
}

const PATCH: &str =
    r#"[{apiGroups: [""], resources: [configmaps], verbs: [patch], namespaces: ["*"]}]"#;

#[test]
fn a_fleet_without_a_problem_is_a_table_and_nothing_else() {
    let mut expiring = reached("beta", Vec::new());
    expiring.credentials_until = Some(1600);
    let report = of(vec![reached("", Vec::new()), expiring]);
    assert!(report.ok);
    assert_eq!(
        plain(&report, false),
        "CLUSTER  PROVIDER  REACHABLE  VERSION  EXPIRES  RIGHTS  REASON\n\
         (local)  fleet     yes        v1.36.0  -        all     -\n\
         beta     fleet     yes        v1.36.0  in 10m   all     -\n"
    );
    assert!(plain(&report, true).contains("v1.36.0  1-2-3     in 10m"));
}

#[test]
fn a_set_of_missing_rights_is_printed_once_for_all_its_clusters() {
    let names: Vec<String> = (0..8).map(|index| format!("c{index}")).collect();
    let lacks = |name: &String| reached(name, vec![missing("hello", None, PATCH)]);
    let mut clusters: Vec<_> = names.iter().map(lacks).collect();
    clusters.push(reached("good", Vec::new()));
    let report = of(clusters);
    assert!(!report.ok);
    let text = plain(&report, false);
    let some = "c0, c1, c2, c3, c4 and 3 more";
    assert!(
        text.contains(&format!(
            "\nreconciler hello may not, in {some}:\n  \
         {{apiGroups: [\"\"], resources: [configmaps], verbs: [patch], namespaces: [\"*\"]}}\n\n\
         ---\n# for system:serviceaccount:ops:windlass, in {some}\n"
        )),
        "{text}"
    );
    assert_eq!(text.matches("kind: ClusterRole\n").count(), 1, "{text}");
    assert!(
        text.ends_with("subjects:\n  - {kind: ServiceAccount, namespace: ops, name: windlass}\n"),
        "{text}"
    );
    assert!(plain(&report, true).contains("c6, c7:\n"));
}

#[test]
fn each_user_and_set_has_a_role_of_its_own_name() {
    let rule = |verb: &str| PATCH.replace("patch", verb);
    let report = of(vec![
        reached(
            "a",
            vec![missing("x", None, PATCH), missing("y", None, &rule("get"))],
        ),
        reached("b", vec![missing("x", None, PATCH)]),
        reached("c", vec![missing("x", Some("team-bot"), PATCH)]),
    ]);
    let names = report
        .grants
        .iter()
        .map(|grant| grant.manifests[0]["metadata"]["name"].to_string());
    let names: std::collections::BTreeSet<String> = names.collect();
    assert_eq!((report.grants.len(), names.len()), (3, 3), "{names:?}");
    let both = report
        .grants
        .iter()
        .find(|grant| grant.clusters == ["a"])
        .unwrap();
    assert_eq!(
        both.manifests[0]["rules"][0]["verbs"],
        serde_json::json!(["get", "patch"])
    );
    let text = plain(&report, false);
    assert!(
        text.contains("reconciler x may not, as team-bot, in c:\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "subjects:\n  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: team-bot}\n"
        ),
        "{text}"
    );
}

#[test]
fn what_cannot_be_reached_or_checked_says_why() {
    let dead = ClusterReport {
        name: "dead".to_owned(),
        reason: Some("connection refused".to_owned()),
        ..ClusterReport::default()
    };
    let unsure = ClusterReport {
        unchecked: Some("forbidden".to_owned()),
        user: None,
        ..reached("unsure", vec![missing("x", None, PATCH)])
    };
    let problem = ProviderProblem {
        provider: "fleet".to_owned(),
        subject: "a.kubeconfig".to_owned(),
        message: "it is empty".to_owned(),
    };
    let report = Report::new(checked(vec![dead, unsure]), vec![problem]);
    assert!(!report.ok);
    let text = plain(&report, false);
    for line in [
        "dead     -         no         -        -        -        connection refused\n",
        "unsure   fleet     yes        v1.36.0  -        missing  forbidden\n",
        "fleet     a.kubeconfig  it is empty\n",
        "the server does not tell the user of the credentials",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    assert!(!text.contains("RoleBinding"), "{text}");
}

#[test]
fn programs_get_the_same() {
    let report = of(vec![reached("a", vec![missing("x", None, PATCH)])]);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["ok"], false);
    assert_eq!(json["clusters"][0]["credentialsUntil"], Json::Null);
    assert_eq!(
        json["clusters"][0]["missing"][0]["rules"],
        serde_json::json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"], "namespaces": ["*"]}])
    );
    assert_eq!(json["grants"][0]["clusters"], serde_json::json!(["a"]));
    assert_eq!(
        json["grants"][0]["manifests"][1]["kind"],
        "ClusterRoleBinding"
    );
}

#[test]
fn a_hub_is_shown_beside_the_clusters_with_what_its_provider_lacks_there() {
    let lacks = Missing {
        provider: Some("capi".to_owned()),
        reconciler: None,
        ..missing("", None, PATCH)
    };
    let hubs = vec![reached("the hub of capi", vec![lacks])];
    let report = Report::new(
        Checked {
            hubs,
            ..Checked::default()
        },
        Vec::new(),
    );
    assert!(!report.ok);
    let text = plain(&report, false);
    for line in [
        "there is no cluster: ",
        "the hub of capi  fleet     yes",
        "\nProvider capi may not, in the hub of capi:\n  {apiGroups: [\"\"],",
        "# for system:serviceaccount:ops:windlass, in the hub of capi\n",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}
