//! Values of the chart, and what they render.

use crate::chart::{ANY_USER, charts, rendered};
use crate::chart_rights::documents;
use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_chart_is_in_order_and_refuses_values_that_mean_nothing() -> Result<()> {
    let path = charts().join("windlass").display().to_string();
    rendered(&["lint", "--strict", &path]).await?;
    let all = "serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true,networkPolicy.metrics[0].namespaceSelector=null";
    let text = rendered(&["template", "x", &path, "--set", all]).await?;
    let kinds = documents(&text)?;
    let kinds: BTreeSet<&str> = kinds
        .iter()
        .filter_map(|one| one["kind"].as_str())
        .collect();
    for kind in [
        "ServiceMonitor",
        "PrometheusRule",
        "NetworkPolicy",
        "PodDisruptionBudget",
    ] {
        ensure!(kinds.contains(kind), "{kinds:?}");
    }
    let rules = documents(&text)?
        .into_iter()
        .find(|one| one["kind"] == "PrometheusRule");
    let groups = rules.context("rules")?["spec"]["groups"].clone();
    // Other releases may be in the same Prometheus.
    let own = r#"absent(windlass_configuration_problems{namespace="default", job="x"})"#;
    ensure!(text.contains(own) && text.contains("honorLabels: true"));
    let elsewhere = "prometheusRule.enabled=true,prometheusRule.runbook=https://wiki.example.com/r";
    let linked = rendered(&["template", "x", &path, "--set", elsewhere]).await?;
    ensure!(linked.contains("'https://wiki.example.com/r#windlassnotrunning'"));
    ensure!(linked.contains("absent(windlass_configuration_problems)'"));
    ensure!(
        groups.as_array().is_some_and(|groups| groups.len() > 1),
        "{groups}"
    );
    let boards = "dashboard.enabled=true,prometheusRule.runbook=https://wiki.example.com/r";
    let boards = documents(&rendered(&["template", "x", &path, "--set", boards]).await?)?;
    let board = boards
        .iter()
        .find(|one| one["metadata"]["labels"]["grafana_dashboard"] == "1")
        .context("a dashboard")?;
    let board: Json = serde_json::from_str(board["data"]["windlass.json"].as_str().context("it")?)?;
    assert_eq!(board["links"][0]["url"], "https://wiki.example.com/r");
    for wrong in [
        "replicas=many",
        "image.digest=abc",
        "ports.api=0",
        "no=such",
        "documents[0].kind=Pod",
        "manager.concurency.global=5",
        "manager.concurrency.globl=5",
        "manager.concurrency.global=0",
        "manager.leaderElection.enabled=often",
        "manager.drainTimeout=30",
        "manager.guests.hello.paht=/hello.wasm",
    ] {
        let refused = rendered(&["template", "x", &path, "--set", wrong]).await;
        ensure!(refused.is_err(), "{wrong} is refused");
    }
    for right in [
        "manager.concurrency.global=5",
        "manager.leaderElection.enabled=false",
        "manager.drainTimeout=45s",
        "manager.transport.maxAnswer=67108864",
        "manager.transport.maxAnswer=128Mi",
        "manager.guests.hello.path=/hello.wasm",
    ] {
        rendered(&["template", "x", &path, "--set", right]).await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_budget_that_lets_no_process_go_is_left_out() -> Result<()> {
    let path = charts().join("windlass").display().to_string();
    for (replicas, least, expected) in [
        (1, "1", false),
        (1, "50%", false),
        (1, "0", true),
        (2, "1", true),
        (2, "2", false),
        (2, "50%", true),
        (3, "67%", false),
        (3, "66%", true),
    ] {
        let values = format!("replicas={replicas},podDisruptionBudget.minAvailable={least}");
        let text = rendered(&["template", "x", &path, "--set", &values]).await?;
        let all = documents(&text)?;
        let budgets = all
            .iter()
            .filter(|one| one["kind"] == "PodDisruptionBudget");
        assert_eq!(budgets.count() == 1, expected, "{values}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn processes_that_share_the_clusters_go_one_at_a_time() -> Result<()> {
    let path = charts().join("windlass").display().to_string();
    let values = "replicas=4,sharding.enabled=true";
    let text = rendered(&["template", "a.b", &path, "--set", values]).await?;
    let all = documents(&text)?;
    let of = |kind: &str| all.iter().find(|one| one["kind"] == kind).context("one");
    let budget = &of("PodDisruptionBudget")?["spec"];
    assert_eq!(budget["maxUnavailable"], 1);
    assert!(budget.get("minAvailable").is_none());
    let config = of("ConfigMap")?["data"]["windlass.yaml"].as_str();
    let config = config.context("the Manager")?;
    // The name of a release may have a dot, and that of a sharding may not.
    assert!(
        config.contains("sharding:") && config.contains("name: a-b"),
        "{config}"
    );
    assert!(!config.contains("leaderElection"), "{config}");
    Ok(())
}

/// The Deployment that the chart renders with these values.
async fn deployment(values: &str) -> Result<Json> {
    let path = charts().join("windlass").display().to_string();
    let text = rendered(&["template", "x", &path, "--set", values]).await?;
    let all = documents(&text)?;
    let found = all.into_iter().find(|one| one["kind"] == "Deployment");
    found.context("a deployment")
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn what_a_platform_wants_of_pods_can_be_set_or_left_out() -> Result<()> {
    let pod = async |values: &str| {
        let deployment = deployment(values).await?;
        anyhow::Ok(deployment["spec"]["template"]["spec"].clone())
    };
    let plain = pod("replicas=1").await?;
    assert_eq!(plain["securityContext"]["runAsUser"], 65532);
    for field in ["hostNetwork", "dnsPolicy", "dnsConfig"] {
        assert_eq!(plain[field], Json::Null, "{field}");
    }
    let open = pod(ANY_USER).await?;
    let left = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(open["securityContext"], left);
    let groups = pod("podSecurityContext.supplementalGroups={7}").await?;
    assert_eq!(groups["securityContext"]["supplementalGroups"], json!([7]));
    assert_eq!(groups["securityContext"]["runAsNonRoot"], true);

    let host = pod("hostNetwork=true,dnsConfig.options[0].name=ndots").await?;
    assert_eq!(host["hostNetwork"], true);
    assert_eq!(host["dnsPolicy"], "ClusterFirstWithHostNet");
    assert_eq!(host["dnsConfig"], json!({"options": [{"name": "ndots"}]}));
    let own = pod("dnsPolicy=None").await?;
    assert_eq!(own["dnsPolicy"], "None");

    let more = pod("extraArgs={--log-format=text},envFrom[0].secretRef.name=proxy").await?;
    let container = &more["containers"][0];
    let args = container["args"].as_array().context("arguments")?;
    assert_eq!(args.last(), Some(&json!("--log-format=text")));
    let from = json!([{"secretRef": {"name": "proxy"}}]);
    assert_eq!(container["envFrom"], from);
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn releases_of_one_name_in_two_namespaces_share_no_name_in_the_cluster() -> Result<()> {
    let path = charts().join("windlass").display().to_string();
    let names = async |namespace: &str| {
        // Without what belongs to all releases.
        let shared = "crds.install=false,rbac.teams=false,rbac.callers=false,rbac.secretsIn={team}";
        let args = ["template", "x", &path, "-n", namespace, "--set", shared];
        let all = documents(&rendered(&args).await?)?;
        let names = all.iter().map(|one| {
            let of = &one["metadata"];
            // What `helm template` renders without a namespace is of the whole cluster.
            format!("{} {} {}", one["kind"], of["namespace"], of["name"])
        });
        anyhow::Ok(names.collect::<BTreeSet<String>>())
    };
    let (one, other) = (names("one").await?, names("other").await?);
    let both: Vec<_> = one.intersection(&other).collect();
    ensure!(both.is_empty(), "{both:?}");
    Ok(())
}
