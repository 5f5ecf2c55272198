//! The suites of controller-runtime against clusters in memory.
//!
//! They run whole, each on a server of its own. Only `./test --release` runs them: they are built for minutes.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use windlass_apiserver::Server;
use windlass_harness::testenv::controller_runtime;

/// The packages of controller-runtime whose suites ask a server, and the functions that run them.
const SUITES: [(&str, &str); 6] = [
    ("builder", "TestBuilder"),
    ("cache", "TestSource"),
    ("client", "TestClient"),
    ("controller", "TestSource"),
    ("manager", "TestSource"),
    ("source", "TestSource"),
];
/// The longest suite takes two minutes on a quiet machine.
const SUITE_ENDS: Duration = Duration::from_secs(1200);

/// A fresh cluster at the root of a port, and a kubeconfig for it. No controllers run, as where the suites usually do: they finalize
/// namespaces themselves.
struct Place {
    server: Server,
    folder: TempDir,
}

impl Place {
    async fn start() -> Result<Self> {
        let server = Server::builder()
            .cluster("alpha")
            .without_controllers()
            .bind("127.0.0.1:0")
            .await?;
        let address = server.expose("alpha", "127.0.0.1:0").await?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "alpha",
            "clusters": [{"name": "alpha", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "admin", "user": {"token": "any"}}],
            "contexts": [{"name": "alpha", "context": {"cluster": "alpha", "user": "admin"}}],
        });
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string())?;
        Ok(Self { server, folder })
    }

    /// Runs a program against the cluster; returns what it printed.
    async fn run(&self, command: &mut Command) -> Result<String> {
        let kubeconfig = self.folder.path().join("kubeconfig");
        let running = command
            .env("KUBECONFIG", kubeconfig)
            .env("USE_EXISTING_CLUSTER", "true")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(SUITE_ENDS, running).await??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(text(&output.stdout) + &text(&output.stderr))
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the suites of controller-runtime"]
async fn controller_runtime_works_over_clusters_in_memory() -> Result<()> {
    let built = controller_runtime()?;
    let mut failed = Vec::new();
    for (package, function) in SUITES {
        let suite = suite(&built, package, function).await;
        failed.extend(suite.with_context(|| format!("the suite of pkg/{package}"))?);
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// Runs one suite; returns what failed. A spec is called by its package and all texts around it.
async fn suite(built: &Path, package: &str, function: &str) -> Result<Vec<String>> {
    let place = Place::start().await?;
    let report = place.folder.path().join("report.json");
    let mut command = Command::new(built.join(format!("{package}.test")));
    command
        .current_dir(built.join("source/pkg").join(package))
        .arg(format!("-test.run=^{function}$"))
        .arg(format!("-test.timeout={}s", SUITE_ENDS.as_secs()))
        .arg(format!("-ginkgo.json-report={}", report.display()));
    let printed = place.run(&mut command).await?;
    place.server.shutdown().await;
    let report = std::fs::read(&report).with_context(|| format!("it ended with {printed}"))?;
    let report: Value = serde_json::from_slice(&report)?;
    let (mut passed, mut failed) = (0, Vec::new());
    for spec in report[0]["SpecReports"].as_array().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let around = spec["ContainerHierarchyTexts"].as_array();
        let mut words: Vec<String> = vec![package.to_owned()];
        words.extend(around.into_iter().flatten().map(text));
        words.push(text(&spec["LeafNodeText"]));
        match &*text(&spec["State"]) {
            "skipped" | "pending" => {}
            "passed" => passed += usize::from(spec["LeafNodeType"] == "It"),
            _ => failed.push(format!(
                "{}\n    {}",
                words.join(" "),
                text(&spec["Failure"]["Message"])
            )),
        }
    }
    println!("pkg/{package}: {passed} passed, {} failed", failed.len());
    ensure!(passed > 0, "it ran nothing: {printed}");
    Ok(failed)
}
