//! A simulated fleet with a manager on it. Entry point: [`Fleet::start`].

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::{Hook, Server, Verb};
use windlass_fleet::api::{GetOptions, ReadMode};
use windlass_fleet::cluster::{CacheOptions, Cluster, ClusterConfig};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{Builder, ManagerHandle, ManagerOptions};
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::{
    Action, Client, ClusterName, Context, Controller, ControllerName, Failure, Grant,
    GroupVersionKind, Manager, ObjectKey, Request,
};
use windlass_harness::eventually::Seen;

/// How long anything may take before a test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn config_map() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

pub(crate) fn name(name: &str) -> ClusterName {
    ClusterName::new(name).expect("a valid name")
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

pub(crate) fn request(cluster: &str, object: &str) -> Request {
    Request::new(name(cluster), key(object))
}

pub(crate) fn object(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}

pub(crate) fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// Simulated clusters, a provider that engages them, and a running manager. Everything ends with it.
pub(crate) struct Fleet {
    pub(crate) server: Server,
    pub(crate) provider: Arc<Clusters>,
    pub(crate) handle: ManagerHandle,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl Fleet {
    /// Starts clusters and a manager whose builder `build` completes; engages nothing yet.
    pub(crate) async fn start(
        clusters: &[&str],
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        Self::start_on(Server::builder(), clusters, build).await
    }

    /// As [`Fleet::start`], with a server that misbehaves as a hook says.
    pub(crate) async fn start_with(
        hook: Arc<dyn Hook>,
        clusters: &[&str],
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        Self::start_on(Server::builder().hook(hook), clusters, build).await
    }

    /// As [`Fleet::start`], on a server with settings of its own.
    pub(crate) async fn start_on(
        mut server: windlass_apiserver::Builder,
        clusters: &[&str],
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        windlass_harness::logs::init();
        for cluster in clusters {
            server = server.cluster(*cluster);
        }
        let server = server.bind("127.0.0.1:0").await?;
        let provider = Arc::new(Clusters::new("test"));
        Self::on(
            server,
            provider.clone(),
            build(Manager::builder().provider(provider)),
        )
    }

    /// As [`Fleet::start`], without a provider: only the local cluster, `local`.
    pub(crate) async fn local_only(build: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        windlass_harness::logs::init();
        let server = Server::builder()
            .cluster("local")
            .bind("127.0.0.1:0")
            .await?;
        let local = ClusterSpec::new(
            ClusterName::local(),
            ClusterConfig::from_url(&server.url("local"))?,
        );
        Self::on(
            server,
            Arc::new(Clusters::new("unused")),
            build(Manager::builder().local(local)),
        )
    }

    fn on(server: Server, provider: Arc<Clusters>, builder: Builder) -> Result<Self> {
        let bound = builder.build()?.bind();
        let (handle, stop) = (bound.handle(), CancellationToken::new());
        let token = stop.clone();
        let running = tokio::spawn(async move {
            bound.run(token).await.expect("the manager runs");
        });
        Ok(Self {
            server,
            provider,
            handle,
            stop,
            running: Some(running),
        })
    }

    pub(crate) fn spec(&self, cluster: &str) -> Result<ClusterSpec> {
        Ok(ClusterSpec::new(
            name(cluster),
            ClusterConfig::from_url(&self.server.url(cluster))?,
        ))
    }

    /// Engages a cluster and waits until it is ready.
    pub(crate) async fn engage(&self, cluster: &str) -> Result<Arc<Cluster>> {
        self.provider.put(self.spec(cluster)?);
        self.ready(cluster).await
    }

    pub(crate) async fn ready(&self, cluster: &str) -> Result<Arc<Cluster>> {
        let wanted = name(cluster);
        wait("a ready cluster", || {
            match self.handle.fleet().cluster(&wanted) {
                Some(cluster) if cluster.status().state.as_str() == "Ready" => Seen::Yes(cluster),
                Some(cluster) => Seen::NotYet(format!("{:?}", cluster.status())),
                None => Seen::NotYet("not engaged".into()),
            }
        })
        .await
    }

    /// The cluster's own side: what an administrator does to it, past the engine.
    pub(crate) fn server(&self, cluster: &str) -> windlass_apiserver::Cluster {
        self.server
            .cluster(cluster)
            .expect("a simulated cluster of this name")
    }

    pub(crate) fn apply(&self, cluster: &str, value: Value) -> Result<()> {
        self.server(cluster)
            .apply(value)
            .map(drop)
            .map_err(|e| anyhow::anyhow!("{e:?}"))
            .context("seeding")
    }

    /// Drains the manager and waits for its end.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        let Some(running) = self.running.take() else {
            bail!("stopped twice")
        };
        tokio::time::timeout(DEADLINE, running)
            .await
            .context("the drain did not end")??;
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Lists (streamed ones too) and other watches of a resource that the cluster `alpha` has been asked for so far.
pub(crate) fn asked(fleet: &Fleet, resource: &str) -> (usize, usize) {
    let calls = fleet.server("alpha").requests();
    let of_kind = calls.iter().filter(|call| call.resource == resource);
    let (lists, others): (Vec<_>, Vec<_>) = of_kind.partition(|call| call.asks_for_all());
    let watches = others.iter().filter(|call| call.verb == Verb::Watch);
    (lists.len(), watches.count())
}

/// Options with which caches follow their servers otherwise than by default.
pub(crate) fn caches(caches: CacheOptions) -> ManagerOptions {
    ManagerOptions {
        caches,
        ..ManagerOptions::default()
    }
}

/// Waits for a condition that can be looked at without waiting.
pub(crate) async fn wait<T>(what: &str, mut look: impl FnMut() -> Seen<T>) -> Result<T> {
    windlass_harness::eventually(DEADLINE, what, || {
        let seen = look();
        async move { Ok(seen) }
    })
    .await
}

/// Everything that a reconciler was asked, and how many of one key ran at once.
#[derive(Default)]
pub(crate) struct Log {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    runs: Vec<Request>,
    running: BTreeMap<Request, usize>,
    overlapped: bool,
    /// Runs of any key that have ended.
    ended: usize,
    /// Most that ran at once, over all keys.
    most: usize,
}

impl Log {
    pub(crate) fn enter(&self, request: &Request) {
        let mut inner = self.inner.lock();
        inner.runs.push(request.clone());
        let running = inner.running.entry(request.clone()).or_default();
        *running += 1;
        let twice = *running > 1;
        inner.overlapped |= twice;
        inner.most = inner.most.max(inner.running.values().sum());
    }

    pub(crate) fn leave(&self, request: &Request) {
        let mut inner = self.inner.lock();
        *inner.running.entry(request.clone()).or_insert(1) -= 1;
        inner.ended += 1;
    }

    pub(crate) fn count(&self, request: &Request) -> usize {
        self.inner
            .lock()
            .runs
            .iter()
            .filter(|run| *run == request)
            .count()
    }

    pub(crate) fn total(&self) -> usize {
        self.inner.lock().runs.len()
    }

    /// Most runs at once, over all keys.
    pub(crate) fn most(&self) -> usize {
        self.inner.lock().most
    }

    /// Waits until so many runs have ended.
    pub(crate) async fn ended(&self, runs: usize) -> Result<()> {
        wait(&format!("the end of {runs} runs"), || {
            Seen::of(self.inner.lock().ended, |n| *n >= runs)
        })
        .await
        .map(drop)
    }

    pub(crate) fn overlapped(&self) -> bool {
        self.inner.lock().overlapped
    }

    /// Waits until a request has run at least so often.
    pub(crate) async fn ran(&self, request: &Request, times: usize) -> Result<()> {
        wait(&format!("{times} runs of {request}"), || {
            Seen::of(self.count(request), |n| *n >= times)
        })
        .await
        .map(drop)
    }
}

/// A controller of ConfigMaps that logs what it is asked and then does `work`.
pub(crate) fn controller<W, Fut>(log: &Arc<Log>, work: W) -> Controller
where
    W: Fn(Context) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Failure>> + Send + 'static,
{
    controller_with(log, ControllerOptions::default(), work)
}

/// As [`controller`], with bounds of its own.
pub(crate) fn controller_with<W, Fut>(
    log: &Arc<Log>,
    options: ControllerOptions,
    work: W,
) -> Controller
where
    W: Fn(Context) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Failure>> + Send + 'static,
{
    logged(builder().options(options), log, work)
}

/// Completes any controller with a reconciler that logs what it is asked and then does `work`.
pub(crate) fn logged<W, Fut>(
    builder: windlass_fleet::controller::Builder,
    log: &Arc<Log>,
    work: W,
) -> Controller
where
    W: Fn(Context) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Failure>> + Send + 'static,
{
    let log = log.clone();
    let reconcile = move |context: Context| {
        let (log, work) = (log.clone(), work.clone());
        async move {
            log.enter(&context.request);
            let request = context.request.clone();
            let outcome = work(context).await;
            log.leave(&request);
            outcome
        }
    };
    builder
        .build(Arc::new(reconcile))
        .expect("a valid controller")
}

/// A controller of another core kind.
pub(crate) fn builder_of(name: &str, kind: &str) -> windlass_fleet::controller::Builder {
    let name = ControllerName::new(name).expect("a valid name");
    Controller::builder(name).for_kind(GroupVersionKind::new("", "v1", kind))
}

pub(crate) fn builder() -> windlass_fleet::controller::Builder {
    Controller::builder(ControllerName::new("test").expect("a valid name")).for_kind(config_map())
}

/// A controller that only logs.
pub(crate) fn recording(log: &Arc<Log>) -> Controller {
    controller(log, |_| async { Ok(Action::Done) })
}

/// A client of an engaged cluster with everything granted.
pub(crate) fn client(cluster: &Arc<Cluster>) -> Client {
    cluster.client(Grant::all())
}

pub(crate) async fn get(client: &Client, object: &str, mode: ReadMode) -> Result<Option<Value>> {
    let options = GetOptions {
        mode,
        ..GetOptions::default()
    };
    let json = client.get(&config_map(), &key(object), &options).await?;
    Ok(json.map(|json| serde_json::from_slice(&json)).transpose()?)
}
