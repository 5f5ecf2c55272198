//! The metrics, alerts and dashboard, as a real Prometheus reads them.

use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, client_of, fleet, start};
use anyhow::{Context, Result, ensure};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use regex::Regex;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use tokio::process::{Child, Command};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::testenv;

/// Panels about what does not happen here: their answers may be empty.
const QUIET: [&str; 8] = [
    "Alerts that fire",
    "Failures by blame and reason",
    "Traps and other failures of guests",
    "Limits that guests hit",
    "Clusters that throttle",
    "Who leads",
    "Shards held",
    "Shards without an owner",
];

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
            "scrape_configs": [{"job_name": "windlass", "static_configs": [{"targets": [target], "labels": {"namespace": "windlass"}}]}],
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

    // The rates are of an attempt and a reload that it has seen.
    client_of(&project, "alpha")
        .await?
        .ask("b", "world")
        .await?;
    let changed = reconciler("hello", &guest("hello")).replace("greeting: hello", "greeting: hi");
    project.write_config(&[changed])?;
    let some = |data: &Json| data["result"].as_array().is_some_and(|all| !all.is_empty());
    let reloads = "query?query=windlass_guest_reloads_total";
    prometheus.answers(reloads, some).await?;
    let (_, metrics) = Http { address }.get("/metrics").await?;
    for query in queries()? {
        query.names_metrics(&metrics)?;
        prometheus
            .answers(&query.path(), |data| query.holds(data))
            .await?;
    }
    Ok(())
}

/// What a panel of the dashboard asks.
#[derive(Debug)]
struct Query {
    panel: String,
    expression: String,
    /// The labels of which the panel makes its legend.
    labels: Vec<String>,
}

/// All of the dashboard, whose panels have what everybody expects of them.
fn queries() -> Result<Vec<Query>> {
    let dashboard = windlass_harness::repository().join("monitoring/dashboard.json");
    let dashboard: Json = serde_json::from_str(&fs::read_to_string(dashboard)?)?;
    let label = Regex::new(r"\{\{([a-z_]+)\}\}")?;
    let mut queries = Vec::new();
    let (mut titles, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().context("panels")? {
        ensure!(places.insert(panel["gridPos"].to_string()), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        let title = panel["title"].as_str().context("a title")?;
        let tells = panel["description"].as_str().unwrap_or_default();
        ensure!(titles.insert(title) && tells.len() > 40, "{panel}");
        ensure!(panel["datasource"]["uid"] == "${datasource}", "{panel}");
        ensure!(panel["fieldConfig"]["defaults"]["unit"].is_string());
        for target in panel["targets"].as_array().context("targets")? {
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            let labels = label.captures_iter(legend).map(|found| found[1].to_owned());
            queries.push(Query {
                panel: title.to_owned(),
                expression: target["expr"].as_str().context("expr")?.to_owned(),
                labels: labels.collect(),
            });
        }
    }
    for quiet in QUIET {
        ensure!(titles.contains(quiet), "{quiet}");
    }
    ensure!(queries.len() > 40, "{queries:?}");
    Ok(queries)
}

impl Query {
    /// The path that asks it, with values for the dashboard's variables: a selector by a label that its series lack finds nothing.
    fn path(&self) -> String {
        let chosen = [
            ("$namespace", "windlass"),
            ("$job", "windlass"),
            ("$tenant", "team-a"),
            ("$reconciler", "hello"),
            ("$cluster", "alpha|dead"),
            ("$__rate_interval", "1m"),
        ];
        let expression = chosen.iter().fold(self.expression.clone(), |text, one| {
            text.replace(one.0, one.1)
        });
        let query = utf8_percent_encode(&expression, NON_ALPHANUMERIC);
        format!("query?query={query}")
    }

    /// Whether this is an answer with series that have its labels.
    fn holds(&self, data: &Json) -> bool {
        let Some(series) = data["result"].as_array() else {
            return false;
        };
        let has = |label: &String| series.iter().any(|one| one["metric"][label].is_string());
        QUIET.contains(&&*self.panel) || (!series.is_empty() && self.labels.iter().all(has))
    }

    /// Fails unless the program has all of its metrics. Recorded ones are what the rules make of such.
    fn names_metrics(&self, metrics: &str) -> Result<()> {
        let families: BTreeSet<&str> = metrics
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .map(|family| family.trim_end_matches("_total"))
            .collect();
        let name = "(?:windlass|workqueue|controller_runtime|process|leader_election)_[a-z_]+";
        let name = Regex::new(&format!(r"(?:^|[^a-z_:])({name})(?:[^a-z_:]|$)"))?;
        for found in name.captures_iter(&self.expression) {
            let family = found[1].trim_end_matches("_total");
            ensure!(
                families.contains(family),
                "{family} of {} is among the metrics",
                self.panel
            );
        }
        Ok(())
    }
}
