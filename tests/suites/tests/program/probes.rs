//! Probes and metrics of a program that runs.

use crate::live::manager;
use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, address_in, ask, client_of, fleet, named, start};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

async fn ready(http: &Http) -> Result<()> {
    eventually(SOON, "readiness", || async {
        Ok(Seen::of(http.get("/readyz").await?, |(status, _)| {
            *status == 200
        }))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn readiness_is_made_of_named_conditions() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    // Beside a cluster that nobody serves.
    let dead = "apiVersion: v1\nkind: Config\ncurrent-context: dead\nclusters: [{name: dead, cluster: {server: \"http://127.0.0.1:1\"}}]\n\
                users: [{name: dead, user: {}}]\ncontexts: [{name: dead, context: {cluster: dead, user: dead}}]\n";
    let (_program, address) = start(&project).await?;
    let http = Http { address };
    ready(&http).await?;
    // One that is dead from the start of its engagement does not make the process unready.
    project.write("clusters/dead.kubeconfig", dead)?;
    let text = eventually(SOON, "the dead cluster to be engaged", || async {
        Ok(Seen::of(http.get("/readyz?verbose").await?, |(_, text)| {
            text.contains("1 of 2 can be worked with")
        }))
    })
    .await?;
    assert_eq!(text.0, 200, "{}", text.1);
    for name in [
        "configuration",
        "providers",
        "caches",
        "clusters",
        "reconcilers",
        "descriptors",
        "memory",
    ] {
        assert!(text.1.contains(&format!("[+] {name}: ")), "{}", text.1);
        assert_eq!(http.get(&format!("/readyz/{name}")).await?.0, 200, "{name}");
    }
    assert_eq!(http.get("/readyz").await?, (200, "ok\n".to_owned()));
    let (status, text) = http.get("/readyz/nope").await?;
    assert_eq!(status, 404);
    assert!(text.contains("reconcilers"), "{text}");
    for path in ["/livez", "/healthz"] {
        assert_eq!(http.get(path).await?, (200, "ok\n".to_owned()));
    }
    Ok(())
}

#[tokio::test]
async fn without_a_reachable_cluster_the_process_is_not_ready_and_says_why() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let server = fleet(&project, &["alpha"]).await?;
    let (_program, address) = start(&project).await?;
    let http = Http { address };
    ready(&http).await?;
    let address = server.address();
    drop(server);
    let (_, text) = eventually(SOON, "unreadiness", || async {
        Ok(Seen::of(http.get("/readyz").await?, |(status, _)| {
            *status == 503
        }))
    })
    .await?;
    assert!(
        text.contains("[-] clusters: 0 of 1 can be worked with"),
        "{text}"
    );
    let excluded = http.get("/readyz?exclude=clusters").await?;
    assert_eq!(excluded, (200, "ok\n".to_owned()));
    let _again = windlass_apiserver::Server::builder()
        .cluster("alpha")
        .bind(&address.to_string())
        .await?;
    ready(&http).await
}

#[tokio::test]
async fn probes_and_metrics_can_have_addresses_of_their_own() -> Result<()> {
    let project = Project::new()?;
    let probes =
        manager("{admin: {probeAddress: \"127.0.0.1:0\", metricsAddress: \"127.0.0.1:0\"}}");
    project.write_config(&[reconciler("hello", &guest("hello")), probes])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (mut program, address) = start(&project).await?;
    let probed = address_in(&program.line_with("probes are served", SOON).await?)?;
    let measured = address_in(&program.line_with("metrics are served", SOON).await?)?;
    let (http, probes) = (Http { address }, Http { address: probed });
    let metrics = Http { address: measured };
    ready(&probes).await?;
    // An address that tells nothing but whether all is well.
    for path in ["/metrics", "/api/v1/clusters"] {
        assert_eq!(probes.get(path).await?.0, 404, "{path}");
        assert_eq!(http.get(path).await?.0, 200, "{path}");
    }
    assert_eq!(metrics.get("/metrics").await?.0, 200);
    for path in ["/livez", "/api/v1/clusters"] {
        assert_eq!(metrics.get(path).await?.0, 404, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn pages_of_other_sites_reach_nothing_and_probes_by_any_name_a_status() -> Result<()> {
    let project = Project::new()?;
    let named = manager("{admin: {allowHosts: [windlass.example]}}");
    project.write_config(&[reconciler("hello", &guest("hello")), named])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (_program, address) = start(&project).await?;
    let http = Http { address };
    ready(&http).await?;
    let token = http.authorization();
    let get = async |path: &str, host: &str| {
        let text = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n{token}\r\n");
        http.send(&text).await
    };
    for path in ["/api/v1/keys", "/api/v1/configuration", "/metrics"] {
        let (status, text) = get(path, "evil.example").await?;
        assert_eq!(status, 403, "{path}");
        assert!(text.contains("spec.admin.allowHosts"), "{text}");
        for known in ["10.1.2.3:8080", "localhost:8080", "windlass.example:8080"] {
            assert_eq!(get(path, known).await?.0, 200, "{path} {known}");
        }
    }
    let status_alone = (200, String::new());
    assert_eq!(get("/readyz?verbose", "evil.example").await?, status_alone);
    assert_eq!(get("/livez", "10.1.2.3").await?, (200, "ok\n".to_owned()));

    let body = r#"{"key": "cluster://nowhere/default/a"}"#;
    let own = http.address.clone();
    for (headers, expected) in [
        ("Content-Type: application/json", 404),
        ("Content-Type: text/plain", 415),
        (
            "Content-Type: application/json\r\nOrigin: http://evil.example",
            403,
        ),
        ("Content-Type: application/json\r\nOrigin: null", 403),
    ] {
        let length = body.len();
        let head = format!("POST /api/v1/requeue HTTP/1.0\r\nHost: {own}\r\n{token}{headers}");
        let request = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
        assert_eq!(http.send(&request).await?.0, expected, "{headers}");
    }
    Ok(())
}

#[tokio::test]
async fn metrics_are_told_as_dashboards_for_controller_runtime_know_them() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    client_of(&project, "alpha")
        .await?
        .ask("a", "world")
        .await?;
    let (_program, address) = start(&project).await?;
    let http = Http { address };
    let (_, text) = eventually(SOON, "a reconcile", || async {
        Ok(Seen::of(http.get("/metrics").await?, |(_, text)| {
            text.contains(&format!(
                "cluster=\"{}\",result=\"success\"}} ",
                named("alpha")
            ))
        }))
    })
    .await?;
    for (name, kind) in [
        ("controller_runtime_reconcile_total", "counter"),
        ("controller_runtime_reconcile_errors_total", "counter"),
        (
            "controller_runtime_terminal_reconcile_errors_total",
            "counter",
        ),
        ("controller_runtime_reconcile_panics_total", "counter"),
        ("controller_runtime_reconcile_timeouts_total", "counter"),
        ("controller_runtime_reconcile_time_seconds", "histogram"),
        ("controller_runtime_max_concurrent_reconciles", "gauge"),
        ("controller_runtime_active_workers", "gauge"),
        ("workqueue_depth", "gauge"),
        ("workqueue_adds_total", "counter"),
        ("workqueue_retries_total", "counter"),
        ("workqueue_queue_duration_seconds", "histogram"),
        ("workqueue_work_duration_seconds", "histogram"),
        ("workqueue_unfinished_work_seconds", "gauge"),
        ("workqueue_longest_running_processor_seconds", "gauge"),
        ("rest_client_requests_total", "counter"),
        ("process_open_fds", "gauge"),
        ("process_cpu_seconds_total", "counter"),
    ] {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
        let samples = text.lines().filter(|line| line.starts_with(name));
        assert!(samples.count() > 0, "{name} has no series in {text}");
    }
    for queue in text.lines().filter(|line| line.starts_with("workqueue_")) {
        assert!(
            queue.contains(
                "name=\"hello\",controller=\"hello\",tenant=\"team-a\",reconciler=\"hello\""
            ),
            "{queue}"
        );
    }
    let calls = text
        .lines()
        .filter(|line| line.starts_with("rest_client_requests_total{"));
    let calls: Vec<&str> = calls.collect();
    assert!(
        calls
            .iter()
            .any(|line| line.contains("code=\"200\",method=\"GET\",host=\"127.0.0.1:")),
        "{calls:?}"
    );
    let series = text.lines().filter(|line| !line.starts_with('#'));
    let series: Vec<&str> = series
        .filter_map(|line| Some(line.rsplit_once(' ')?.0))
        .collect();
    let distinct: BTreeSet<&str> = series.iter().copied().collect();
    assert_eq!(series.len(), distinct.len());
    let first = text.lines().next().context("a line")?;
    assert!(first.starts_with("# HELP "), "{first}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_and_the_endpoints_may_have_ipv6_addresses_alone() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let server = windlass_apiserver::Server::builder()
        .cluster("alpha")
        .tls()
        .bind("[::1]:0")
        .await?;
    project.write("clusters/fleet.kubeconfig", server.kubeconfig())?;
    let args = ["run", "-f", "windlass.yaml", "--admin", "[::1]:0"];
    let mut program = Program::start(project.path(), args)?;
    let address = address_in(&program.line_with("admin endpoints", SOON).await?)?;
    assert!(address.starts_with("[::1]:"), "{address}");
    ready(&Http {
        address: address.clone(),
    })
    .await?;
    let keys = client_of(&project, "alpha").await?;
    keys.ask("a", "world").await?;
    keys.expect_greeted("a").await?;
    // The command finds the token of the process at that address.
    let clusters = ask(&project, &address, &["get", "clusters"]).await?;
    assert_eq!(clusters["items"][0]["name"], "alpha", "{clusters}");
    Ok(())
}
