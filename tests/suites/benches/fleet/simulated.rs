//! The simulated clusters of a workload, in a process of their own that takes orders. Entry point: [`Simulated::start`].
//!
//! The load is made in the server's process, so that the process under test does nothing but its work. Every update carries the
//! time for which it was scheduled (open loop): a server or driver that falls behind makes latencies longer, never rarer.

use super::trouble::Trouble;
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::{ContextConfig, Kubeconfig, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;

/// Has this program serve a layout.
pub(crate) const SERVE: &str = "--serve";

/// What the clusters hold: ConfigMaps in the namespace `default`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub(crate) clusters: usize,
    /// How many objects of each set every cluster has. They are named `<set>-<n>` and labelled `set: <set>` and `name: <set>-<n>`.
    pub(crate) sets: Vec<(String, usize)>,
    /// Bytes of ballast in each object.
    pub(crate) filler: usize,
    /// Whether the server speaks TLS, and HTTP/2 with it.
    pub(crate) tls: bool,
}

impl Layout {
    /// One set of objects of about 1 KB.
    pub(crate) fn new(clusters: usize, objects: usize) -> Self {
        Self {
            clusters,
            sets: vec![("o".into(), objects)],
            filler: 500,
            tls: false,
        }
    }
}

/// What the server is told to do. It answers with [`Told`] when it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Updates every object of a set so many times; watches tell of it only once all of it is done.
    Burst {
        set: String,
        rounds: usize,
        clusters: Range<usize>,
    },
    /// Updates the objects of a set in turn, at random times that make this many a second over all clusters named.
    Load {
        set: String,
        clusters: Range<usize>,
        rate: f64,
        seconds: f64,
    },
    /// Disturbs these clusters from now on.
    Disturb {
        clusters: Range<usize>,
        trouble: Trouble,
    },
    /// Breaks every watch of these clusters at once, updates the objects of a set before anybody can watch again, and forgets the
    /// past if asked to.
    Cut {
        clusters: Range<usize>,
        change: String,
        compact: bool,
    },
    /// Nothing: for what it tells.
    Tell,
}

/// What the server tells, counted since its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Updates that this order made.
    pub(crate) updates: usize,
    /// The newest version of each cluster.
    pub(crate) versions: Vec<u64>,
    /// Lists of all ConfigMaps of a cluster, however many pages they took.
    pub(crate) lists: u64,
    /// Bytes of the objects in those lists.
    pub(crate) listed_bytes: u64,
    /// Watches of ConfigMaps that were opened.
    pub(crate) watches: u64,
    /// Watches of all kinds that are open now.
    pub(crate) watching: usize,
    /// Requests to clusters while they were disturbed.
    pub(crate) disturbed_requests: u64,
}

/// Where a server listens, as it says when it begins.
#[derive(Serialize, Deserialize)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) kubeconfig: String,
}

/// A server process; it ends with this value.
pub(crate) struct Simulated {
    /// Killed when dropped.
    _child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    address: Address,
}

impl Simulated {
    /// Starts this very program again as a server, and waits until it serves.
    pub(crate) async fn start(layout: Layout) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SERVE)
            .arg(serde_json::to_string(&layout)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = child.stdin.take().context("no stdin")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut answers = BufReader::new(stdout).lines();
        let address = answers.next_line().await?.context("no address")?;
        Ok(Self {
            _child: child,
            orders,
            answers,
            address: serde_json::from_str(&address)?,
        })
    }

    /// Gives an order and waits until it is carried out.
    pub(crate) async fn order(&mut self, order: &Order) -> Result<Told> {
        let line = serde_json::to_string(order)? + "\n";
        self.orders.write_all(line.as_bytes()).await?;
        let answer = self.answers.next_line().await?;
        Ok(serde_json::from_str(&answer.context("the server ended")?)?)
    }

    /// Of a cluster that is served without TLS.
    pub(crate) fn url(&self, cluster: usize) -> String {
        format!("http://{}/clusters/{}", self.address.host, name(cluster))
    }

    /// How a manager reaches each cluster.
    pub(crate) fn specs(&self) -> Result<Vec<ClusterSpec>> {
        let kubeconfig = Kubeconfig::parse(&self.address.kubeconfig, None)?;
        let contexts = kubeconfig.contexts(&KubeconfigPolicy::file());
        let spec = |context: ContextConfig| {
            let name = ClusterName::new(context.name)?;
            anyhow::Ok(ClusterSpec::new(name, context.config?))
        };
        contexts.into_iter().map(spec).collect()
    }
}

pub(crate) fn name(cluster: usize) -> String {
    format!("c{cluster}")
}

/// Nanoseconds since the epoch, by which processes of one machine compare times.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
