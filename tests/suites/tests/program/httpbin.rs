//! The example `httpbin`, whose guest is `sync`: in memory by its README's commands as they are written, and on real servers.

use crate::examples::USER;
use crate::pod::printed;
use crate::readme;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::kcp::{Client, Workspace};
use windlass_harness::testenv::{Binaries, Environment, Kcp, Spec};

const SOON: Duration = Duration::from_secs(60);
const BIN: &str = "apis/example.com/v1/namespaces/default/httpbins/my-bin";
const ACCESS: &str = "api/v1/namespaces/default/secrets/my-bin-access";

#[tokio::test]
#[ignore = "needs kubectl"]
async fn the_commands_of_the_readme_do_what_it_says_in_memory() -> Result<()> {
    readme::in_memory("httpbin", 25).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_commands_of_the_readme_do_what_it_says_on_real_servers() -> Result<()> {
    let environment =
        Environment::start([Spec::new("compute").with_controllers().with_user(USER)]).await?;
    let server = environment.server("compute");
    let kcp = Kcp::start(&[]).await?;
    readme::with_kcp(&kcp, server, "httpbin", "COMPUTE", 25).await
}

/// A file of the example.
fn example(file: &str) -> PathBuf {
    let repository = windlass_harness::repository();
    repository.join("examples/httpbin").join(file)
}

/// The export lies beside the definition that it is printed from.
#[tokio::test]
async fn the_export_is_what_the_program_prints() -> Result<()> {
    let crd = example("seed/local/crd.yaml");
    let crd = crd.to_string_lossy();
    let publish = ["kcp", "publish", "-f", &crd, "--export", "httpbin"];
    let publish = publish.iter().chain(&["--claim", "secrets"]);
    let finished = Program::run(&windlass_harness::repository(), publish, SOON).await?;
    let printed = finished.expect_code(0)?.stdout.clone();
    let export = fs::read_to_string(example("seed/kcp/httpbin/export.yaml"))?;
    let export: Vec<&str> = export
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    ensure!(printed.lines().collect::<Vec<_>>() == export, "{printed}");
    Ok(())
}

#[tokio::test]
async fn a_config_that_does_not_fit_is_named_with_its_line() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let documents = fs::read_to_string(example("windlass.yaml"))?;
    let schema = windlass_harness::repository().join("guests/sync/config.schema.json");
    let schema = fs::read_to_string(schema)?;
    let built = windlass_sandbox::with_config_schema(fs::read(guest("sync"))?, &schema)?;
    fs::write(folder.path().join("sync.wasm"), built)?;
    let documents = documents.replace("../../guests/sync", "sync.wasm");
    let wrong = documents.replace("origin: service", "origin: operator");
    let line = wrong.lines().position(|line| line.contains("operator,"));
    let at = format!("windlass.yaml:{}:", line.map_or(0, |line| line + 1));
    fs::write(folder.path().join("windlass.yaml"), wrong)?;
    let check = ["check", "sync.wasm", "-f", "windlass.yaml"];
    let finished = Program::run(folder.path(), check, SOON).await?;
    let text = finished.expect_code(1)?.stderr.clone();
    let field = "spec.config.resources[0].related[1].origin";
    ensure!(text.contains(&at) && text.contains(field), "{text}");
    Ok(())
}

/// Runs kubectl with a kubeconfig, as soon as the server takes it.
async fn kubectl<A: AsRef<OsStr>>(kubeconfig: &Path, args: &[A]) -> Result<String> {
    let kubectl = Binaries::find()?.kubectl();
    eventually(SOON, "kubectl to succeed", || async {
        Ok(match printed(&kubectl, kubeconfig, args).await {
            Ok(text) => Seen::Yes(text),
            Err(error) => Seen::NotYet(format!("{error:#}")),
        })
    })
    .await
}

async fn apply(kubeconfig: &Path, file: &str) -> Result<()> {
    let file = example(file);
    let args = [OsStr::new("apply"), OsStr::new("-f"), file.as_os_str()];
    kubectl(kubeconfig, &args).await.map(drop)
}

/// A kcp with the export and its consumers, and a compute cluster.
struct Service {
    kcp: Kcp,
    client: Client,
    compute: Environment,
    folder: tempfile::TempDir,
}

impl Service {
    async fn start() -> Result<Self> {
        let compute = Environment::start([Spec::new("compute")]).await?;
        let kcp = Kcp::start(&[]).await?;
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("clusters"))?;
        for file in ["windlass.yaml", "dev.yaml"] {
            let mut documents = fs::read_to_string(example(file))?;
            for (of, built) in [
                ("sync", guest("sync")),
                ("httpbin-operator", guest("httpbin-operator")),
            ] {
                let from = format!("../../guests/{of}}}");
                documents = documents.replace(&from, &format!("{}}}", built.display()));
            }
            fs::write(folder.path().join(file), documents)?;
        }
        let client = kcp.client().await?;
        let service = Self {
            kcp,
            client,
            compute,
            folder,
        };
        let server = service.compute.server("compute");
        server.write_kubeconfig(&service.path("compute"))?;
        apply(&service.path("compute"), "seed/local/crd.yaml").await?;
        let provider = service.client.workspace("root", "httpbin").await?;
        let kubeconfig = service.kubeconfig("kcp", &provider)?;
        apply(&kubeconfig, "seed/kcp/httpbin/export.yaml").await?;
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

    /// Makes a workspace that binds the export and asks for an HttpBin.
    async fn consumer(&self, name: &str) -> Result<Workspace> {
        let consumer = self.client.workspace("root", name).await?;
        let kubeconfig = self.kubeconfig(name, &consumer)?;
        for file in ["binding.yaml", "bin.yaml"] {
            apply(&kubeconfig, &format!("seed/kcp/consumers/blue/{file}")).await?;
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
        eventually(SOON, &what, || async {
            let answer = self.client.get(&consumer.at(path)).await?;
            Ok(Seen::of(answer.json(), &holds))
        })
        .await
    }

    /// Waits until there are so many copies of this region.
    async fn copies(&self, region: &str, wanted: usize) -> Result<()> {
        let path = "jsonpath={range .items[*]}{.spec.region}{\"\\n\"}{end}";
        let args = ["get", "httpbins", "--all-namespaces", "-o", path];
        eventually(SOON, "the copies", || async {
            let regions = kubectl(&self.path("compute"), &args).await?;
            let seen = regions.lines().filter(|line| *line == region).count();
            Ok(Seen::of(seen, |seen| *seen == wanted))
        })
        .await
        .map(drop)
    }
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn objects_of_two_real_workspaces_are_kept_on_a_real_compute_cluster() -> Result<()> {
    let service = Service::start().await?;
    let run = ["run", "-f", "windlass.yaml", "-f", "dev.yaml"];
    let run = run.iter().chain(&["--admin", "127.0.0.1:0"]);
    let program = Program::start(service.folder.path(), run)?;
    let blue = service.consumer("blue").await?;
    let green = service.consumer("green").await?;
    let is_ready = |bin: &Value| bin["status"]["ready"] == true;
    for consumer in [&blue, &green] {
        service.until(consumer, BIN, is_ready).await?;
        let is_there = |secret: &Value| secret["data"]["url"].is_string();
        service.until(consumer, ACCESS, is_there).await?;
    }
    service.copies("eu", 2).await?;

    // Drift on either side is put right.
    let patch = r#"{"spec":{"region":"us"}}"#;
    let namespace = "jsonpath={.items[0].metadata.namespace}";
    let first = ["get", "httpbins", "--all-namespaces", "-o", namespace];
    let namespace = kubectl(&service.path("compute"), &first).await?;
    let spoil = [
        "patch", "httpbin", "my-bin", "-n", &namespace, "--type", "merge", "-p", patch,
    ];
    kubectl(&service.path("compute"), &spoil).await?;
    service.copies("eu", 2).await?;
    service.client.delete(&blue.at(ACCESS)).await?.ok()?;
    let is_there = |secret: &Value| secret["data"]["url"].is_string();
    service.until(&blue, ACCESS, is_there).await?;

    // While the compute cluster is away, a deletion waits for it.
    let server = service.compute.server("compute");
    server.kill();
    service.client.delete(&blue.at(BIN)).await?.ok()?;
    let waits = |bin: &Value| {
        let conditions = bin["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        bin["metadata"]["deletionTimestamp"].is_string()
            && conditions.any(|one| one["type"] == "Synced" && one["status"] == "False")
    };
    service.until(&blue, BIN, waits).await?;
    server.restart().await?;
    let is_gone = |answer: &Value| answer["code"] == json!(404);
    service.until(&blue, BIN, is_gone).await?;
    service.copies("eu", 1).await?;
    service.until(&green, BIN, is_ready).await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}
