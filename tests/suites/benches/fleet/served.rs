//! The server's side of a simulated fleet: serves, and carries out orders from standard input. Entry point: [`serve_if_asked`].

use super::simulated::{Address, Layout, Order, SERVE, Told, name, now};
use super::trouble::Disturbance;
use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{Cluster, Server, Verb};

/// Changes that watches can resume from, per cluster: more than any workload makes.
const HISTORY: usize = 1 << 20;

/// Where this process was started as a server: serves until its standard input ends.
pub(crate) fn serve_if_asked() -> Result<bool> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [first, layout] = args.as_slice() else {
        return Ok(false);
    };
    if first != SERVE {
        return Ok(false);
    }
    let layout: Layout = serde_json::from_str(layout)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let disturbance = Arc::new(Disturbance::default());
    let names = (0..layout.clusters).map(name);
    let mut builder = names.fold(Server::builder().history(HISTORY), |builder, name| {
        builder.cluster(name)
    });
    if layout.tls {
        builder = builder.tls();
    }
    let server = runtime.block_on(builder.hook(disturbance.clone()).bind("127.0.0.1:0"))?;
    let clusters: Option<Vec<Cluster>> = (0..layout.clusters)
        .map(|cluster| server.cluster(&name(cluster)))
        .collect();
    let fleet = Fleet {
        clusters: clusters.context("served")?,
        layout,
        disturbance,
    };
    fleet.fill()?;
    let address = Address {
        host: server.address().to_string(),
        kubeconfig: server.kubeconfig(),
    };
    println!("{}", serde_json::to_string(&address)?);
    std::io::stdout().flush()?;
    for line in std::io::stdin().lock().lines() {
        let told = fleet.carry_out(serde_json::from_str(&line?)?)?;
        println!("{}", serde_json::to_string(&told)?);
        std::io::stdout().flush()?;
    }
    Ok(true)
}

/// The server's side.
struct Fleet {
    clusters: Vec<Cluster>,
    layout: Layout,
    disturbance: Arc<Disturbance>,
}

impl Fleet {
    fn fill(&self) -> Result<()> {
        let filler = "x".repeat(self.layout.filler);
        for cluster in &self.clusters {
            for (set, objects) in &self.layout.sets {
                for n in 0..*objects {
                    let name = format!("{set}-{n}");
                    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": name, "namespace": "default", "labels": {"set": set, "name": name}},
                        "data": {"sent": "0", "filler": filler}});
                    cluster.create(object).map_err(refused)?;
                }
            }
        }
        Ok(())
    }

    fn carry_out(&self, order: Order) -> Result<Told> {
        let updates = match order {
            Order::Burst {
                set,
                rounds,
                clusters,
            } => self.burst(&set, rounds, &clusters)?,
            Order::Load {
                set,
                clusters,
                rate,
                seconds,
            } => self.load(&set, &clusters, rate, seconds)?,
            Order::Disturb { clusters, trouble } => {
                self.disturbance.begin(clusters, trouble);
                0
            }
            Order::Cut {
                clusters,
                change,
                compact,
            } => self.cut(&clusters, &change, compact)?,
            Order::Tell => 0,
        };
        Ok(self.tell(updates))
    }

    fn tell(&self, updates: usize) -> Told {
        let watches = self
            .clusters
            .iter()
            .map(|c| c.count(Verb::Watch, "configmaps"));
        Told {
            updates,
            versions: self.clusters.iter().map(Cluster::version).collect(),
            lists: self.disturbance.whole_lists().iter().sum(),
            listed_bytes: self.listed_bytes(),
            watches: watches.sum(),
            watching: self.clusters.iter().map(Cluster::watchers).sum(),
            disturbed_requests: self.disturbance.requests(),
        }
    }

    fn listed_bytes(&self) -> u64 {
        let lists = self.disturbance.whole_lists();
        let size = |cluster: &Cluster| -> u64 {
            let first = |set: &str| {
                let found = cluster.get("v1", "ConfigMap", "default", &format!("{set}-0"));
                found
                    .ok()
                    .flatten()
                    .map_or(0, |object| object.to_string().len())
            };
            let sets = self.layout.sets.iter();
            sets.map(|(set, objects)| (first(set) * objects) as u64)
                .sum()
        };
        self.clusters
            .iter()
            .zip(lists)
            .map(|(cluster, lists)| size(cluster) * lists)
            .sum()
    }

    fn objects(&self, set: &str) -> Result<usize> {
        let found = self.layout.sets.iter().find(|(name, _)| name == set);
        match found {
            Some((_, objects)) if *objects > 0 => Ok(*objects),
            _ => bail!("no objects of the set {set:?}"),
        }
    }

    fn burst(&self, set: &str, rounds: usize, clusters: &Range<usize>) -> Result<usize> {
        let objects = self.objects(set)?;
        let _closed = self.disturbance.close_gate();
        let mut updates = 0;
        for round in 0..rounds {
            // The last round is told from the others by what it sends.
            let last = round + 1 == rounds;
            for n in 0..objects {
                for cluster in &self.clusters[clusters.clone()] {
                    let sent = if last { now() } else { 0 };
                    update(cluster, set, n, sent)?;
                    updates += 1;
                }
            }
        }
        Ok(updates)
    }

    fn cut(&self, clusters: &Range<usize>, change: &str, compact: bool) -> Result<usize> {
        let objects = self.objects(change)?;
        let _closed = self.disturbance.close_gate();
        let clusters = &self.clusters[clusters.clone()];
        for cluster in clusters {
            cluster.cut_watches();
            for n in 0..objects {
                update(cluster, change, n, now())?;
            }
            if compact {
                cluster.compact();
            }
        }
        Ok(objects * clusters.len())
    }

    fn load(&self, set: &str, clusters: &Range<usize>, rate: f64, seconds: f64) -> Result<usize> {
        let objects = self.objects(set)?;
        let clusters = &self.clusters[clusters.clone()];
        at_rate(rate, seconds, |updates, due| {
            let cluster = &clusters[updates % clusters.len()];
            update(cluster, set, updates / clusters.len() % objects, due)
        })
    }
}

/// Makes so many updates a second at random times, each numbered and with the time when it is due, in nanoseconds since the epoch.
/// Returns how many. Blocks the thread.
pub(crate) fn at_rate(
    rate: f64,
    seconds: f64,
    mut update: impl FnMut(usize, u64) -> Result<()>,
) -> Result<usize> {
    // One clock for waiting and for what updates say: two may drift apart by more than a latency within a load.
    let began = now();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut updates = 0;
    let mut due = 0.0;
    loop {
        // Poisson: what comes next knows nothing of what came before.
        due += -(1.0 - rng.f64()).ln() / rate;
        if due > seconds {
            return Ok(updates);
        }
        let due_at = began + (due * 1e9) as u64;
        // Not a wait: it keeps the rate.
        std::thread::sleep(Duration::from_nanos(due_at.saturating_sub(now())));
        update(updates, due_at)?;
        updates += 1;
    }
}

fn update(cluster: &Cluster, set: &str, n: usize, sent: u64) -> Result<()> {
    let patch: Value = json!({"data": {"sent": sent.to_string()}});
    cluster
        .merge("v1", "ConfigMap", "default", &format!("{set}-{n}"), &patch)
        .map(drop)
        .map_err(refused)
}

fn refused(error: windlass_apiserver::ApiError) -> anyhow::Error {
    anyhow::anyhow!("the simulated server refused: {error:?}")
}
