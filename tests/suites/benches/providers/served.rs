//! The hub and the clusters of a source, in a process of their own. Entry points: [`Served::start`] and [`serve_if_asked`].

use super::sources::{Source, cluster_name};
use crate::{CLUSTERS, WARM};
use anyhow::{Context as _, Result, anyhow};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use windlass_apiserver::Server;

const SERVE: &str = "--serve";
/// Makes the clusters after the first ones.
const MORE: &str = "more";
/// Tells how many watches are open.
const WATCHES: &str = "watches";

/// A server process; it ends with this value.
pub(crate) struct Served {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    address: String,
}

impl Served {
    /// Starts this very program again as the servers of a source, with the first clusters.
    pub(crate) fn start(source: Source) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([SERVE, source.as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().context("no stdin")?;
        let answers = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut served = Self {
            child,
            orders,
            answers,
            address: String::new(),
        };
        served.address = served.answer()?;
        Ok(served)
    }

    pub(crate) fn url(&self, cluster: &str) -> String {
        url(&self.address, cluster)
    }

    /// Has the hub name the other clusters too.
    pub(crate) fn more(&mut self) -> Result<()> {
        self.order(MORE).map(drop)
    }

    /// Watches that are open at the hub and in all clusters.
    pub(crate) fn watches(&mut self) -> Result<usize> {
        Ok(self.order(WATCHES)?.parse()?)
    }

    /// Writes a kubeconfig with the first clusters as its contexts.
    pub(crate) fn write_kubeconfig(&self, folder: &Path, clusters: usize) -> Result<()> {
        let names: Vec<String> = (0..clusters).map(cluster_name).collect();
        let entries =
            |entry: &dyn Fn(&String) -> String| -> String { names.iter().map(entry).collect() };
        let text = format!(
            "apiVersion: v1\nkind: Config\nusers:\n- name: admin\n  user: {{}}\nclusters:\n{}contexts:\n{}",
            entries(&|name| format!(
                "- name: {name}\n  cluster: {{server: {}}}\n",
                self.url(name)
            )),
            entries(&|name| format!(
                "- name: {name}\n  context: {{cluster: {name}, user: admin}}\n"
            )),
        );
        let next = folder.join("next");
        std::fs::write(&next, text)?;
        Ok(std::fs::rename(next, folder.join("fleet.kubeconfig"))?)
    }

    fn order(&mut self, order: &str) -> Result<String> {
        writeln!(self.orders, "{order}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn url(address: &str, cluster: &str) -> String {
    format!("http://{address}/clusters/{cluster}")
}

/// Where this process was started as a server: serves until its standard input ends.
pub(crate) fn serve_if_asked() -> Result<bool> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [first, source] = args.as_slice() else {
        return Ok(false);
    };
    if first != SERVE {
        return Ok(false);
    }
    let source = Source::named(source)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let names = (0..CLUSTERS).map(cluster_name);
    let builder = Server::builder().cluster("hub");
    let builder = names.fold(builder, |builder, name| builder.cluster(name));
    let server = runtime.block_on(builder.bind("127.0.0.1:0"))?;
    name_clusters(&server, source, 0..WARM)?;
    say(server.address())?;
    for order in std::io::stdin().lines() {
        match order?.as_str() {
            MORE => {
                name_clusters(&server, source, WARM..CLUSTERS)?;
                say("done")?;
            }
            _ => say(watches(&server))?,
        }
    }
    Ok(true)
}

fn say(answer: impl std::fmt::Display) -> Result<()> {
    println!("{answer}");
    Ok(std::io::stdout().flush()?)
}

fn watches(server: &Server) -> usize {
    let clusters = server.clusters().into_iter();
    let clusters = clusters.filter_map(|name| server.cluster(&name));
    clusters.map(|cluster| cluster.watchers()).sum()
}

/// Writes the hub's objects of some clusters.
fn name_clusters(server: &Server, source: Source, which: Range<usize>) -> Result<()> {
    let hub = server.cluster("hub").context("served")?;
    let address = server.address().to_string();
    for n in which {
        let name = cluster_name(n);
        for object in source.objects(&name, &url(&address, &name)) {
            let put = hub.apply(object);
            put.map_err(|error| anyhow!("the simulated server refused: {error:?}"))?;
        }
    }
    Ok(())
}
