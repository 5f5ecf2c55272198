//! The suites of controller-runtime and of kube-rs's client against clusters in memory.
//!
//! They run whole, each on a server of its own. Only `./test --release` runs them: they are built for minutes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use windlass_apiserver::{Builder, Server};
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
/// Tests of kube's client that need what clusters in memory do not have: a kubelet, and tokens that open something.
const LEFT_OUT: [&str; 3] = [
    "test::pod_can_exec_and_write_to_stdin",
    "test::can_get_pod_logs_and_evict",
    "api::util::test::create_token_request",
];
/// What the package lost when it was published: its tests name `kube`, which shall be of this very copy.
const MANIFEST: &str = "
[dev-dependencies.kube]
version = \"=5.0.0\"
features = [\"ws\"]

[patch.crates-io]
kube-client = { path = \".\" }

[workspace]
";
/// The longest suite takes two minutes on a quiet machine.
const SUITE_ENDS: Duration = Duration::from_secs(1200);

/// A fresh cluster at the root of a port, and a kubeconfig for it.
struct Place {
    server: Server,
    folder: TempDir,
}

impl Place {
    /// No controllers run where controller-runtime's suites usually do: they finalize namespaces themselves.
    async fn without_controllers() -> Result<Self> {
        Self::start(Server::builder().without_controllers()).await
    }

    async fn start(server: Builder) -> Result<Self> {
        let server = server.cluster("alpha").bind("127.0.0.1:0").await?;
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
    let place = Place::without_controllers().await?;
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a build of kube's client with its tests"]
async fn kubes_client_works_over_clusters_in_memory() -> Result<()> {
    let place = Place::start(Server::builder()).await?;
    // One that every real cluster has, and that the suite reads.
    let role = serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "cluster-admin"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    let alpha = place.server.cluster("alpha").context("the cluster")?;
    alpha.apply(role)?;
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(copy_of_kubes_client().await?);
    command.args([
        "test",
        "--lib",
        "--features",
        "ws,unstable-client,jsonpatch,rustls-tls",
    ]);
    command.args(["--", "--ignored", "--test-threads", "1", "--exact"]);
    command.args(LEFT_OUT.iter().flat_map(|test| ["--skip", test]));
    let printed = place.run(&mut command).await?;
    place.server.shutdown().await;
    let result = printed
        .lines()
        .find(|line| line.starts_with("test result:"));
    let result = result.with_context(|| printed.clone())?;
    println!("kube-client: {result}");
    ensure!(result.contains(" 18 passed; 0 failed"), "{printed}");
    Ok(())
}

/// The package that the workspace is built with, as a workspace of its own.
async fn copy_of_kubes_client() -> Result<PathBuf> {
    let repository = windlass_harness::repository();
    let mut metadata = Command::new(env!("CARGO"));
    metadata.current_dir(&repository);
    metadata.args(["metadata", "--format-version", "1", "--locked"]);
    let metadata: Value = serde_json::from_slice(&metadata.output().await?.stdout)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages
        .into_iter()
        .find(|package| package["name"] == "kube-client");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let source = Path::new(manifest.context("kube-client is among the packages")?);
    let copy = repository.join("target/foreign/kube-client");
    if copy.exists() {
        std::fs::remove_dir_all(copy.join("src"))?;
    }
    std::fs::create_dir_all(&copy)?;
    let source = source.parent().context("its folder")?;
    let copied = Command::new("cp")
        .arg("-R")
        .arg(source.join("src"))
        .arg(source.join("README.md"))
        .arg(&copy)
        .status();
    ensure!(copied.await?.success());
    let text = std::fs::read_to_string(source.join("Cargo.toml"))?;
    std::fs::write(copy.join("Cargo.toml"), text + MANIFEST)?;
    std::fs::copy(repository.join("Cargo.lock"), copy.join("Cargo.lock"))?;
    Ok(copy)
}
