//! Objects and controllers of the suite, and a log of their runs. Entry points: [`Log`] and [`controller`].

use anyhow::Result;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::api::{GetOptions, ReadMode};
use windlass_fleet::backoff::Backoff;
use windlass_fleet::cluster::{CacheOptions, Cluster};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::manager::ManagerOptions;
use windlass_fleet::{
    Action, Client, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind,
    ObjectKey, Request,
};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::TestFleet;

pub(crate) fn config_map() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

pub(crate) fn object(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}

pub(crate) fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// Options with which caches follow their servers otherwise than by default.
pub(crate) fn caches(caches: CacheOptions) -> ManagerOptions {
    ManagerOptions {
        caches,
        ..ManagerOptions::default()
    }
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

/// As [`controller`], with a backoff that no test waits for.
pub(crate) fn patient<W, Fut>(log: &Arc<Log>, work: W) -> Controller
where
    W: Fn(Context) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Failure>> + Send + 'static,
{
    let long = Duration::from_secs(1000);
    let options = ControllerOptions {
        backoff: Backoff::new(long, long),
        ..ControllerOptions::default()
    };
    controller_with(log, options, work)
}

/// Waits until a key of the controller `test` is in backoff.
pub(crate) async fn backs_off(fleet: &TestFleet) -> Result<()> {
    wait("a key in backoff", || {
        let all = fleet.handle.controllers();
        let test = all.into_iter().find(|of| of.name == "test");
        Seen::of(test, |of| of.as_ref().is_some_and(|of| of.backoff == 1))
    })
    .await
    .map(drop)
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
