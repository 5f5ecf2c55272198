//! A plan over 1,000 clusters with 50 objects each: its time, and the most memory that it takes, by how many clusters are copied at once.
//! Entry point: `main`.
//!
//! ```text
//! cargo bench --bench plan            50, 200 and 1,000 clusters at once
//! cargo bench --bench plan -- 100     so many at once
//! ```
//!
//! The clusters are in memory, in this process. Half of the objects ask for a greeting, so that 25 objects are created in each.

mod table;
mod usage;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use table::Table;
use usage::Usage;
use windlass_apiserver::{Cluster, Server};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

const CLUSTERS: usize = 1000;
const OBJECTS: usize = 50;
/// Clusters at once.
const WIDTHS: [usize; 3] = [50, 200, 1000];
const PATIENCE: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure())
}

async fn measure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = fleet().await?;
    let file = folder.path().join("fleet.kubeconfig");
    fs::write(&file, server.kubeconfig())?;
    let path = guest("hello");
    fs::write(folder.path().join("windlass.yaml"), documents(&path))?;
    let heads = ["at once", "seconds", "clusters/s", "CPU s", "most MiB"];
    let title = format!("a plan over {CLUSTERS} clusters with {OBJECTS} objects each");
    let table = Table::begin(&title, &heads);
    let asked: Vec<usize> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let widths = if asked.is_empty() {
        WIDTHS.to_vec()
    } else {
        asked
    };
    for width in widths {
        table.row(&row(folder.path(), width).await?);
    }
    Ok(())
}

async fn row(folder: &Path, width: usize) -> Result<[String; 5]> {
    let parallel = width.to_string();
    let args = [
        "plan",
        "-f",
        "windlass.yaml",
        "-o",
        "json",
        "--parallel",
        &parallel,
    ];
    let began = Instant::now();
    let program = Program::start(folder, args)?;
    let pid = program.pid().context("a process")?;
    let watching = tokio::spawn(async move {
        let mut last = None;
        let mut look = tokio::time::interval(Duration::from_millis(20));
        while let Ok(usage) = Usage::of(pid) {
            last = Some(usage);
            look.tick().await;
        }
        last
    });
    let finished = program.wait(PATIENCE).await?.expect_code(0)?;
    let seconds = began.elapsed().as_secs_f64();
    let plan: Value = serde_json::from_str(&finished.stdout)?;
    let created = &plan["total"]["create"];
    ensure!(*created == CLUSTERS * OBJECTS / 2, "{created} are created");
    let usage = watching.await?.context("a look at the process")?;
    Ok([
        width.to_string(),
        format!("{seconds:.1}"),
        format!("{:.0}", CLUSTERS as f64 / seconds),
        format!("{:.1}", usage.cpu.as_secs_f64()),
        format!("{:.0}", usage.peak as f64 / 1_048_576.0),
    ])
}

async fn fleet() -> Result<Server> {
    let names = (0..CLUSTERS).map(|number| format!("cluster-{number:04}"));
    let builder = names.fold(Server::builder(), |builder, name| builder.cluster(name));
    let server = builder.bind("127.0.0.1:0").await?;
    for name in server.clusters() {
        fill(&server.cluster(&name).context("a cluster")?)?;
    }
    Ok(server)
}

fn fill(cluster: &Cluster) -> Result<()> {
    for number in 0..OBJECTS {
        let labels = if number % 2 == 0 {
            json!({"hello.windlass.dev/greet": "world"})
        } else {
            json!({})
        };
        cluster.create(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x".repeat(1000)},
            "metadata": {"name": format!("m-{number}"), "namespace": "default", "labels": labels}}),
        )?;
    }
    Ok(())
}

fn documents(guest: &Path) -> String {
    format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: fleet}}\nspec:\n  \
         kubeconfigFiles: {{paths: [./fleet.kubeconfig]}}\n---\n\
         apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: hello}}\nspec:\n  guest: {{path: {guest:?}}}\n  \
         config: {{greeting: hello}}\n  rules: [{{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, patch], \
         namespaces: [\"*\"]}}]\n"
    )
}
