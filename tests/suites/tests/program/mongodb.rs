//! The example `mongodb`: in memory by its README's commands as they are written, and on real servers with MongoDB's own operator.

use crate::examples::USER;
use crate::pod::printed;
use crate::readme;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::kcp::{Client, Workspace};
use windlass_harness::testenv::{Binaries, Environment, Kcp, Kubelet, MongoOperator, Spec};

const SOON: Duration = Duration::from_secs(60);
/// A database of three members begins one after the other.
const DATABASE: Duration = Duration::from_secs(180);
const DATABASES: &str =
    "apis/mongodbcommunity.mongodb.com/v1/namespaces/default/mongodbcommunity/my-database";
const CONNECTION: &str = "api/v1/namespaces/default/secrets/my-database-admin-admin";
const KIND: &str = "mongodbcommunity.mongodbcommunity.mongodb.com";

#[tokio::test]
#[ignore = "needs kubectl"]
async fn the_commands_of_the_readme_do_what_it_says_in_memory() -> Result<()> {
    readme::in_memory("mongodb", 20).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_commands_of_the_readme_do_what_it_says_on_real_servers() -> Result<()> {
    let spec = Spec::new("compute").with_stateful_sets().with_user(USER);
    let environment = Environment::start([spec]).await?;
    let server = environment.server("compute");
    let _kubelet = Kubelet::start(server).await?;
    let operator = MongoOperator::start(server).await?;
    let kcp = Kcp::start(&[]).await?;
    let run = readme::with_kcp(&kcp, server, "mongodb", "COMPUTE", 16).await;
    run.with_context(|| operator.log_tail())
}

/// A file of the example.
fn example(file: &str) -> PathBuf {
    let repository = windlass_harness::repository();
    repository.join("examples/mongodb").join(file)
}

/// Runs kubectl with a kubeconfig, and returns what it prints.
async fn kubectl<A: AsRef<OsStr>>(kubeconfig: &Path, args: &[A]) -> Result<String> {
    printed(&Binaries::find()?.kubectl(), kubeconfig, args).await
}

/// A kcp with the export and its consumers, a compute cluster with the operator, and the program between them.
struct Service {
    kcp: Kcp,
    client: Client,
    compute: Environment,
    folder: tempfile::TempDir,
    _kubelet: Kubelet,
    operator: MongoOperator,
}

impl Service {
    async fn start() -> Result<Self> {
        let compute = Environment::start([Spec::new("compute").with_stateful_sets()]).await?;
        let server = compute.server("compute");
        let kubelet = Kubelet::start(server).await?;
        let operator = MongoOperator::start(server).await?;
        let kcp = Kcp::start(&[]).await?;
        let folder = tempfile::tempdir()?;
        let clusters = folder.path().join("clusters");
        fs::create_dir(&clusters)?;
        server.write_kubeconfig(&clusters.join("compute.kubeconfig"))?;
        let documents = fs::read_to_string(example("windlass.yaml"))?;
        let built = format!("{:?}", guest("mongodb"));
        let documents = documents.replace("../../guests/mongodb", built.trim_matches('"'));
        fs::write(folder.path().join("windlass.yaml"), documents)?;
        let service = Self {
            client: kcp.client().await?,
            kcp,
            compute,
            folder,
            _kubelet: kubelet,
            operator,
        };
        let provider = service.client.workspace("root", "mongodb").await?;
        let kubeconfig = service.kubeconfig("kcp", &provider)?;
        service
            .apply(&kubeconfig, &example("seed/kcp/mongodb/export.yaml"))
            .await?;
        Ok(service)
    }

    fn path(&self, name: &str) -> PathBuf {
        let clusters = self.folder.path().join("clusters");
        clusters.join(format!("{name}.kubeconfig"))
    }

    fn kubeconfig(&self, name: &str, workspace: &Workspace) -> Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, self.kcp.kubeconfig(&workspace.path))?;
        Ok(path)
    }

    /// Applies a file, as soon as the server takes it.
    async fn apply(&self, kubeconfig: &Path, file: &Path) -> Result<()> {
        let args = [OsStr::new("apply"), OsStr::new("-f"), file.as_os_str()];
        eventually(SOON, &format!("{} to be taken", file.display()), || async {
            Ok(match kubectl(kubeconfig, &args).await {
                Ok(_) => Seen::Yes(()),
                Err(error) => Seen::NotYet(format!("{error:#}")),
            })
        })
        .await
    }

    /// Makes a workspace that binds the export and asks for a database.
    async fn consumer(&self, name: &str) -> Result<Workspace> {
        let consumer = self.client.workspace("root", name).await?;
        let kubeconfig = self.kubeconfig(name, &consumer)?;
        for file in ["binding.yaml", "database.yaml"] {
            let file = example("seed/kcp/consumers/blue").join(file);
            self.apply(&kubeconfig, &file).await?;
        }
        Ok(consumer)
    }

    /// Waits until an object of a consumer is as wanted.
    async fn until(
        &self,
        consumer: &Workspace,
        path: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let what = format!("{path} of {}", consumer.path);
        let seen = eventually(DATABASE, &what, || async {
            let answer = self.client.get(&consumer.at(path)).await?;
            Ok(Seen::of(answer.json(), &holds))
        });
        seen.await.with_context(|| self.operator.log_tail())
    }

    /// Waits until the copy of a consumer's database has so many members.
    async fn members(&self, consumer: &Workspace, wanted: &str) -> Result<()> {
        let namespace = format!("default-{}", consumer.cluster);
        let path = "jsonpath={.spec.members}";
        let args = ["get", KIND, "my-database", "-n", &namespace, "-o", path];
        eventually(SOON, "the members of the copy", || async {
            let members = kubectl(&self.path("compute"), &args).await?;
            Ok(Seen::of(members, |members| members == wanted))
        })
        .await
        .map(drop)
    }
}

fn is_ready(database: &Value) -> bool {
    let conditions = database["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn databases_of_two_workspaces_run_under_the_real_operator() -> Result<()> {
    let service = Service::start().await?;
    let run = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
    let program = Program::start(service.folder.path(), run)?;
    let blue = service.consumer("blue").await?;
    let green = service.consumer("green").await?;
    for consumer in [&blue, &green] {
        service.until(consumer, DATABASES, is_ready).await?;
        let connection = service.client.get(&consumer.at(CONNECTION)).await?.ok()?;
        ensure!(connection["data"]["password"].is_string(), "{connection}");
    }

    // Drift on either side is put right.
    let namespace = format!("default-{}", blue.cluster);
    let spoil = [
        "patch",
        KIND,
        "my-database",
        "-n",
        &namespace,
        "--type",
        "merge",
        "-p",
        r#"{"spec":{"members":1}}"#,
    ];
    kubectl(&service.path("compute"), &spoil).await?;
    service.members(&blue, "3").await?;
    service.client.delete(&blue.at(CONNECTION)).await?.ok()?;
    let is_there = |secret: &Value| secret["data"]["password"].is_string();
    service.until(&blue, CONNECTION, is_there).await?;

    // While the compute cluster is away, a deletion waits for it.
    let server = service.compute.server("compute");
    server.kill();
    service.client.delete(&blue.at(DATABASES)).await?.ok()?;
    let waits = |database: &Value| {
        let conditions = &database["status"]["conditions"][0];
        database["metadata"]["deletionTimestamp"].is_string() && conditions["status"] == "False"
    };
    service.until(&blue, DATABASES, waits).await?;
    server.restart().await?;
    let is_gone = |answer: &Value| answer["code"] == json!(404);
    service.until(&blue, DATABASES, is_gone).await?;
    let all = ["get", KIND, "--all-namespaces", "-o", "name"];
    let left = kubectl(&service.path("compute"), &all).await?;
    ensure!(left.lines().count() == 1, "only green's is left: {left}");
    service.until(&green, DATABASES, is_ready).await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}
