//! The fleets of unit tests: clusters in memory, and runs of a guest that a test begins. Entry point: [`TestFleets::serve`].
//!
//! Each connection has a fleet of its own, which ends with it. A test sends lines `{"Test": …}` ([`Asked`]), and the lines that the process
//! of a guest sends (`windlass_sandbox::Run`) between `Begin` and `End`.
//!
//! A guest's calls take the way that a component's take: through the host functions and the fleet's client, to the in-memory API server.
//! There are no watches, so that every read is answered by the server, and no rules: what is tested is the guest's code.

mod contents;
mod engine;

use super::socket::Lines;
use anyhow::{Context, Result, bail};
use contents::{Contents, kind_of};
use engine::Engine;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_apiserver::{Faults, Server};
use windlass_fleet::GroupVersionKind;
use windlass_sandbox::{Next, Run};

/// The most clusters of one fleet.
const MOST_CLUSTERS: usize = 256;

/// What a test asks for. A cluster is named as the guest names it; `""` is the local one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
enum Asked {
    /// Makes a cluster, or gives it further labels and properties.
    Cluster {
        name: String,
        #[serde(default)]
        labels: BTreeMap<String, String>,
        #[serde(default)]
        properties: BTreeMap<String, String>,
    },
    /// Takes a cluster out of the fleet. It keeps its objects, and joins again when the test makes it.
    Leave {
        cluster: String,
    },
    /// Changes labels of a cluster; one without a value is removed.
    Label {
        cluster: String,
        labels: BTreeMap<String, Option<String>>,
    },
    /// Makes the API server of a cluster fail; without a failure it heals.
    Fail {
        cluster: String,
        failure: Option<Failure>,
    },
    /// Serves a kind without a schema, in all clusters.
    Define {
        kind: Kind,
        namespaced: bool,
    },
    /// Stores an object as another writer would. Its namespace is made, and its kind is served in all clusters.
    Put {
        cluster: String,
        object: String,
    },
    /// The object as it is stored; `null` if there is none.
    Stored {
        cluster: String,
        kind: Kind,
        namespace: Option<String>,
        name: String,
    },
    /// All objects that the test and the guest have made.
    Objects {
        cluster: String,
    },
    /// Deletes an object as another writer would.
    Remove {
        cluster: String,
        kind: Kind,
        namespace: Option<String>,
        name: String,
    },
    /// Merges a patch (RFC 7386) into an object and its status as another writer would.
    Merge {
        cluster: String,
        kind: Kind,
        namespace: Option<String>,
        name: String,
        patch: Json,
    },
    /// Begins a run in a cluster, and answers its handle. One run at a time.
    Begin {
        cluster: String,
    },
    End,
}

/// A kind, as the contract has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    group: String,
    version: String,
    kind: String,
}

impl From<Kind> for GroupVersionKind {
    fn from(kind: Kind) -> Self {
        Self::new(&kind.group, &kind.version, &kind.kind)
    }
}

/// How an API server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Failure {
    /// No connection is made.
    Unreachable,
    /// Every request is answered with an error.
    Errors,
}

/// A line of a test.
#[derive(Deserialize)]
struct TestLine {
    #[serde(rename = "Test")]
    asked: Asked,
}

/// The server of all fleets.
pub(crate) struct TestFleets {
    server: Server,
    faults: Arc<Faults>,
    /// The definitions of the project, which every cluster serves.
    definitions: Vec<Json>,
    /// Fleets so far. Their numbers keep the names of their clusters apart.
    count: AtomicU64,
}

impl TestFleets {
    /// Serves clusters on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) async fn start(definitions: Vec<Json>) -> Result<Self> {
        let faults = Arc::new(Faults::default());
        let server = Server::builder().hook(faults.clone());
        Ok(Self {
            server: server.bind("127.0.0.1:0").await?,
            faults,
            definitions,
            count: AtomicU64::new(0),
        })
    }

    /// Serves one connection until it ends.
    ///
    /// # Errors
    /// When a line cannot be read or written.
    pub(crate) async fn serve(self: Arc<Self>, mut lines: Lines) -> Result<()> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let mut fleet = TestFleet {
            fleets: self,
            number,
            clusters: BTreeMap::new(),
            kinds: BTreeMap::new(),
            engine: None,
            run: None,
        };
        while let Some(line) = lines.next().await? {
            let answer = fleet.answer(&line).await;
            lines.send(answer).await?;
        }
        Ok(())
    }
}

/// The fleet of one connection.
struct TestFleet {
    fleets: Arc<TestFleets>,
    number: u64,
    clusters: BTreeMap<String, Contents>,
    /// The kinds that the test has defined, and whether they are namespaced. Later clusters serve them too.
    kinds: BTreeMap<GroupVersionKind, bool>,
    /// Started by the first run, anew when the local cluster is another one.
    engine: Option<Engine>,
    /// The run that goes on.
    run: Option<Run>,
}

impl Drop for TestFleet {
    fn drop(&mut self) {
        for cluster in self.clusters.values_mut() {
            // The faults are those of all connections.
            cluster.fail(None, &self.fleets.faults);
            self.fleets.server.remove_cluster(cluster.served_as());
        }
    }
}

impl TestFleet {
    /// The answer to a line: of the run that goes on, or of the fleet.
    async fn answer(&mut self, line: &[u8]) -> Vec<u8> {
        if !line.starts_with(b"{\"Test\"") {
            return self.called(line).await;
        }
        let answer = match serde_json::from_slice::<TestLine>(line) {
            Ok(line) => self.asked(line.asked).await,
            Err(error) => Err(error).context("this is nothing that a test fleet does"),
        };
        written(&answer.map_err(|error| format!("{error:#}")))
    }

    /// Passes a call of the guest to its run.
    async fn called(&mut self, line: &[u8]) -> Vec<u8> {
        let Some(run) = &mut self.run else {
            return trap("the guest calls a cluster, and no run has begun");
        };
        match run.answer_live(line).await {
            Ok(Next::Answer(answer)) => answer,
            Ok(Next::Ended) => written(&()),
            Err(error) => trap(&format!("{:#}", anyhow::Error::from(error))),
        }
    }

    async fn asked(&mut self, asked: Asked) -> Result<Json> {
        match asked {
            Asked::Cluster {
                name,
                labels,
                properties,
            } => {
                let cluster = self.made(name)?;
                cluster.describe(labels, properties);
            }
            Asked::Leave { cluster } if cluster.is_empty() => {
                bail!("the local cluster does not leave: a manager has one for all its life");
            }
            Asked::Leave { cluster } => {
                self.member(&cluster)?.leave();
                if let Some(engine) = &self.engine {
                    engine.disengage(&cluster)?;
                }
            }
            Asked::Label { cluster, labels } => self.member(&cluster)?.label(labels),
            Asked::Fail { cluster, failure } => {
                let faults = self.fleets.faults.clone();
                self.member(&cluster)?.fail(failure, &faults);
            }
            Asked::Define { kind, namespaced } => {
                self.define(kind.into(), namespaced)?;
            }
            Asked::Put { cluster, object } => {
                let object: Json =
                    serde_json::from_str(&object).context("the object is no JSON")?;
                self.found(&cluster)?;
                let text = |field: &str| object[field].as_str().unwrap_or_default();
                let kind = kind_of(text("apiVersion"), text("kind"));
                let is_namespaced = object["metadata"]["namespace"].is_string();
                self.define(kind, is_namespaced)?;
                self.found(&cluster)?.put(object)?;
            }
            Asked::Stored {
                cluster,
                kind,
                namespace,
                name,
            } => {
                let namespace = namespace.unwrap_or_default();
                let object = self.found(&cluster)?.get(&kind.into(), &namespace, &name);
                return Ok(object.unwrap_or_default());
            }
            Asked::Objects { cluster } => {
                return Ok(Json::Array(self.found(&cluster)?.objects()));
            }
            Asked::Remove {
                cluster,
                kind,
                namespace,
                name,
            } => {
                let namespace = namespace.unwrap_or_default();
                let cluster = self.found(&cluster)?;
                cluster.remove(&kind.into(), &namespace, &name)?;
            }
            Asked::Merge {
                cluster,
                kind,
                namespace,
                name,
                patch,
            } => {
                let namespace = namespace.unwrap_or_default();
                let cluster = self.found(&cluster)?;
                cluster.merge(&kind.into(), &namespace, &name, patch)?;
            }
            Asked::Begin { cluster } => return self.begin(&cluster).await,
            Asked::End => self.end(),
        }
        Ok(Json::Null)
    }

    /// Serves a kind in all clusters that do not, and in later ones.
    fn define(&mut self, kind: GroupVersionKind, namespaced: bool) -> Result<()> {
        for cluster in self.clusters.values_mut() {
            cluster.define(&kind, namespaced)?;
        }
        self.kinds.insert(kind, namespaced);
        Ok(())
    }

    async fn begin(&mut self, cluster: &str) -> Result<Json> {
        if self.run.is_some() {
            bail!("a run goes on already: a fleet does one at a time");
        }
        // Keys of a cluster that is not reached wait. The run begins in another one, and its calls go to this one.
        let begins_in = match self.member(cluster)?.failure() {
            Some(Failure::Unreachable) => self.reached()?,
            Some(Failure::Errors) => self.reached().unwrap_or_else(|_| cluster.to_owned()),
            None => cluster.to_owned(),
        };
        // A manager has one local cluster for all its life.
        if self.clusters.get_mut("").is_some_and(Contents::has_changed) {
            self.engine = None;
        }
        let is_new = self.engine.is_none();
        let engine = match &mut self.engine {
            Some(engine) => engine,
            none => {
                let local = self.clusters.get("").map(Contents::spec);
                none.insert(Engine::start(local).await?)
            }
        };
        let members = self.clusters.iter_mut().filter(|(_, it)| !it.has_left());
        for (name, cluster) in members {
            if (cluster.has_changed() || is_new) && !name.is_empty() {
                engine.engage(cluster.spec())?;
            }
        }
        let failing = self.clusters.iter();
        let failing = failing.filter_map(|(name, it)| Some((name.clone(), it.failure()?)));
        let failing = failing.collect();
        let begun = engine.begin(&begins_in, &failing).await;
        if begun.is_err() {
            // The run may begin later. It must not be taken for the next one.
            self.engine = None;
        }
        let mut run = begun?;
        let handle = if begins_in == cluster {
            run.cluster().into()
        } else {
            opened(&mut run, cluster).await?
        };
        self.run = Some(run);
        Ok(handle)
    }

    /// A cluster whose server does not fail.
    fn reached(&self) -> Result<String> {
        let mut members = self.clusters.iter().filter(|(_, it)| !it.has_left());
        let reached = members.find(|(_, it)| it.failure().is_none());
        let (name, _) = reached.context(
            "no cluster is reached, so that nothing runs: make another one, or heal one",
        )?;
        Ok(name.clone())
    }

    /// Ends the run, and lets its clusters do what follows from it.
    fn end(&mut self) {
        if let Some(run) = self.run.take() {
            run.done();
        }
        self.clusters.values().for_each(Contents::settle);
    }

    fn made(&mut self, name: String) -> Result<&mut Contents> {
        if self.clusters.len() == MOST_CLUSTERS && !self.clusters.contains_key(&name) {
            bail!("a test fleet has at most {MOST_CLUSTERS} clusters");
        }
        let count = self.clusters.len();
        Ok(match self.clusters.entry(name) {
            Entry::Occupied(there) => {
                let there = there.into_mut();
                there.join();
                there
            }
            Entry::Vacant(place) => {
                let served_as = format!("fleet-{}-cluster-{count}", self.number);
                let mut made = Contents::new(&self.fleets, place.key(), &served_as)?;
                for (kind, namespaced) in &self.kinds {
                    made.define(kind, *namespaced)?;
                }
                place.insert(made)
            }
        })
    }

    /// A cluster that has not left.
    fn member(&mut self, name: &str) -> Result<&mut Contents> {
        let found = self.found(name)?;
        if found.has_left() {
            bail!("cluster {name:?} has left the fleet: the test makes it again");
        }
        Ok(found)
    }

    fn found(&mut self, name: &str) -> Result<&mut Contents> {
        let found = self.clusters.get_mut(name);
        found.with_context(|| format!("this fleet has no cluster {name:?}: the test makes it"))
    }
}

/// The handle of a cluster in which the run has not begun.
async fn opened(run: &mut Run, cluster: &str) -> Result<Json> {
    let call = written(&serde_json::json!({"Call": {"Open": {"name": cluster}}}));
    let Next::Answer(answer) = run.answer_live(&call).await? else {
        bail!("the run has ended");
    };
    let mut answer: Json = serde_json::from_slice(&answer)?;
    Ok(answer["Ok"].take())
}

/// The answer where a component would trap.
fn trap(problem: &str) -> Vec<u8> {
    written(&serde_json::json!({ "Trap": problem }))
}

fn written(answer: &impl Serialize) -> Vec<u8> {
    // JSON, texts and numbers: nothing here fails to be written.
    serde_json::to_vec(answer).unwrap_or_default()
}
