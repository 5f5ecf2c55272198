//! The metrics, alerts and dashboard, as a real Prometheus reads them.

use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, client_of, fleet, start};
use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use tokio::process::{Child, Command};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::testenv;

/// A Prometheus that scrapes one address every second, with the alerts of this repository. It is killed when this is dropped.
struct Prometheus {
    http: Http,
    _child: Child,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(target: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let address = format!("127.0.0.1:{}", testenv::free_port()?);
        let rules = windlass_harness::repository().join("monitoring/alerts.yaml");
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [{"job_name": "windlass", "static_configs": [{"targets": [target]}]}],
        });
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config.to_string())?;
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("start prometheus, which ./test installs where it may")?;
        Ok(Self {
            http: Http { address },
            _child: child,
            _folder: folder,
        })
    }

    /// An answer of its API, as soon as `holds`.
    async fn answers(&self, path: &str, holds: impl Fn(&Json) -> bool) -> Result<Json> {
        let path = format!("/api/v1/{path}");
        eventually(SOON, &path, || async {
            let answer = self.http.get(&path).await;
            let text = answer.map(|(_, text)| text).unwrap_or_default();
            let answer: Json = serde_json::from_str(&text).unwrap_or_default();
            Ok(Seen::of(answer["data"].clone(), &holds))
        })
        .await
    }
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_prometheus_reads_the_metrics_and_evaluates_every_alert_and_panel() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let dead = "apiVersion: v1\nkind: Config\ncurrent-context: dead\nclusters: [{name: dead, cluster: {server: \"http://127.0.0.1:1\"}}]\n\
                users: [{name: dead, user: {}}]\ncontexts: [{name: dead, context: {cluster: dead, user: dead}}]\n";
    project.write("clusters/dead.kubeconfig", dead)?;
    client_of(&project, "alpha")
        .await?
        .ask("a", "world")
        .await?;
    let (_program, address) = start(&project).await?;
    let prometheus = Prometheus::start(&address)?;

    let is_up = |data: &Json| data["activeTargets"][0]["health"] == "up";
    prometheus.answers("targets", is_up).await?;

    // Every rule of the alerts is read and evaluated; that of the cluster that is away waits to fire, and no other one about clusters does.
    let each = |data: &Json| -> Vec<Json> {
        let groups = data["groups"].as_array().into_iter().flatten();
        groups
            .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
            .collect()
    };
    let evaluated = |data: &Json| {
        let rules = each(data);
        rules.len() > 20 && rules.iter().all(|rule| rule["health"] == "ok")
    };
    prometheus.answers("rules", evaluated).await?;
    let of_dead = |data: &Json| {
        let alerts = data["alerts"].as_array().into_iter().flatten();
        let names: BTreeSet<&str> = alerts
            .filter(|alert| alert["labels"]["cluster"].is_string())
            .filter_map(|alert| alert["labels"]["alertname"].as_str())
            .collect();
        names == BTreeSet::from(["WindlassClusterNotReady"])
    };
    prometheus.answers("alerts", of_dead).await?;

    // Every metric of the dashboard is one that the program has.
    let dashboard = windlass_harness::repository().join("charts/windlass/files/dashboard.json");
    let dashboard: Json = serde_json::from_str(&fs::read_to_string(dashboard)?)?;
    let panels = dashboard["panels"].as_array().context("panels")?;
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let expressions: Vec<&str> = targets
        .filter_map(|target| target["expr"].as_str())
        .collect();
    ensure!(expressions.len() > 10, "{expressions:?}");
    let name = Regex::new("(?:windlass|workqueue|controller_runtime)_[a-z_]+")?;
    let (_, metrics) = Http { address }.get("/metrics").await?;
    for expression in expressions {
        for name in name.find_iter(expression) {
            let family = name
                .as_str()
                .trim_end_matches("_bucket")
                .trim_end_matches("_total");
            let known = metrics.lines().any(|line| {
                let mut words = line.strip_prefix("# TYPE ").unwrap_or_default().split(' ');
                words
                    .next()
                    .is_some_and(|of| of.trim_end_matches("_total") == family)
            });
            ensure!(known, "{family} of {expression} is among the metrics");
        }
    }
    Ok(())
}
