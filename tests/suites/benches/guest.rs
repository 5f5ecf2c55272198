//! What the sandbox costs: the hello guest against the same reconciler written natively, in one run. Entry point: `main`.
//!
//! * fresh reconcile: a new instance each time, nothing to do. With one cached get of 1 KB (an object that asks for no greeting) the
//!   bar is at most 20 µs beyond native; with two gets and the greeting compared there is none.
//! * event in → write out: from the start of an update to the greeting's event back at the driver, over loopback, the server in
//!   a process of its own. Bar: at most 1.2 times native at the median.

mod figures;
mod rig;
mod table;
mod turns;

use anyhow::{Context as _, Result};
use figures::percentile;
use parking_lot::Mutex;
use rig::{ServerProcess, config_map, run};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::{Table, verdict};
use turns::{Turns, one_get};
use windlass_fleet::api::{ApplyOptions, Event, EventType, GetOptions, PatchType, WriteOptions};
use windlass_fleet::cluster::Cluster;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::source::{ClusterSelection, Enqueue, Watch};
use windlass_fleet::{
    Action, Context, Controller, ControllerName, Failure, Grant, Manager, ObjectKey, Reconciler,
    TenantName,
};
use windlass_harness::fleet::RunningManager;
use windlass_sandbox::{
    Guest, GuestOptions, Isolation, Limits, Options, Sandbox, Tenant, TenantLimits,
};

const GREET: &str = "hello.windlass.dev/greet";
const UPDATES: usize = 400;
/// The guest may take so many times as long as the native reconciler, from an event to the write that answers it.
const BAR: f64 = 1.2;
/// Updated in turn: an object that changes for every run of its key would be a storm, which the queue slows down.
const OBJECTS: usize = 200;

fn main() -> Result<()> {
    if rig::serve_if_asked(|_| Vec::new())? {
        return Ok(());
    }
    run(async {
        let server = ServerProcess::start(&["native", "guest"])?;
        let sandbox = Sandbox::new(Options::default())?;
        let guest = hello(&sandbox).await?;
        let native: Arc<dyn Reconciler> = Arc::new(greet);
        let timed = Timed::new(native.clone(), guest.clone());
        let manager = Manager::builder()
            .controller(controller("native", native)?)
            .controller(controller("guest", guest)?)
            .controller(timer(timed.clone())?);
        let subject = rig::start(manager, &server, &["native", "guest"]).await?;
        let driver = Driver::start(&server).await?;
        driver.latency(OBJECTS).await?;
        driver.report(&driver.latency(UPDATES).await?);
        driver.time(&timed).await?;
        timed.report()?;
        subject.stop().await?;
        driver.manager.stop().await
    })
}

async fn hello(sandbox: &Sandbox) -> Result<Arc<Guest>> {
    let path = windlass_harness::guests::guest("hello");
    let revision = sandbox.load(path).await?;
    let options = GuestOptions {
        tenant: Tenant::new(TenantName::default(), &TenantLimits::default()),
        name: ControllerName::new("guest")?,
        grant: Arc::new(Grant::all()),
        http: Arc::default(),
        config: "{}".into(),
        limits: Limits::default(),
        isolation: Isolation::Fresh,
        record: None,
        secrets: Vec::new(),
    };
    Ok(Guest::new(sandbox, options, revision).await?)
}

/// A controller with the guest's watches, in the cluster of its own name.
fn controller(name: &str, reconciler: Arc<dyn Reconciler>) -> Result<Controller> {
    let mut watch = Watch::new(config_map(), Enqueue::Primary);
    watch.label_selector = Some(GREET.parse()?);
    watch.only.names = vec![windlass_fleet::name::NamePattern::new(name)];
    let selection = ClusterSelection {
        only: watch.only.clone(),
        ..Default::default()
    };
    let builder = Controller::builder(ControllerName::new(name)?)
        .watch(watch)
        .owns_kind(config_map())
        .engage(selection);
    Ok(builder.build(reconciler)?)
}

#[derive(Serialize, Deserialize)]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    deletion_timestamp: Option<String>,
}

/// What the hello guest does, natively.
async fn greet(context: Context) -> Result<Action, Failure> {
    let grant = Arc::new(Grant::all());
    let client = context.client(&grant);
    let parse = |json: bytes::Bytes| {
        serde_json::from_slice::<ConfigMap>(&json).map_err(|e| Failure::terminal(e.to_string()))
    };
    let Some(asking) = client
        .get(&config_map(), &context.request.key, &GetOptions::default())
        .await?
        .map(parse)
        .transpose()?
    else {
        return Ok(Action::Done);
    };
    let Some(who) = asking
        .metadata
        .labels
        .get(GREET)
        .filter(|_| asking.metadata.deletion_timestamp.is_none())
    else {
        return Ok(Action::Done);
    };
    let name = format!("{}-greeting", asking.metadata.name);
    let key = ObjectKey {
        namespace: context.request.key.namespace.clone(),
        name: name.as_str().into(),
    };
    let text = format!("hello, {who}, from {}", context.request.cluster);
    let present = client
        .get(&config_map(), &key, &GetOptions::default())
        .await?
        .map(parse)
        .transpose()?;
    if present.is_some_and(|present| present.data.get("greeting") == Some(&text)) {
        return Ok(Action::Done);
    }
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": key.namespace, "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": asking.metadata.name, "uid": asking.metadata.uid, "controller": true, "blockOwnerDeletion": true}]},
        "data": {"greeting": text}});
    client
        .apply(
            &config_map(),
            wanted.to_string().into(),
            &ApplyOptions {
                force: true,
                ..Default::default()
            },
        )
        .await?;
    client.record_event(Event {
        kind: config_map(),
        key: context.request.key.clone(),
        event_type: EventType::Normal,
        reason: "GreetingChanged".into(),
        action: "Greet".into(),
        note: format!("{who} is greeted by {name}"),
    });
    Ok(Action::Done)
}

/// Runs both reconcilers many times within one run.
struct Timed {
    native: Arc<dyn Reconciler>,
    guest: Arc<dyn Reconciler>,
    /// By the object that was looked at.
    turns: Mutex<BTreeMap<String, Turns<2>>>,
    done: tokio::sync::Notify,
}

impl Timed {
    fn new(native: Arc<dyn Reconciler>, guest: Arc<dyn Reconciler>) -> Arc<Self> {
        Arc::new(Self {
            native,
            guest,
            turns: Mutex::default(),
            done: tokio::sync::Notify::new(),
        })
    }

    async fn measure(self: Arc<Self>, context: Context) -> Result<Action, Failure> {
        let turns = Turns::take([&*self.native, &*self.guest], &context).await?;
        let object = context.request.key.name.to_string();
        self.turns.lock().insert(object, turns);
        self.done.notify_one();
        Ok(Action::Done)
    }

    fn report(&self) -> Result<()> {
        let heads = [
            "reads           ",
            "native",
            "guest ",
            "beyond",
            "bar      ",
        ];
        let table = Table::begin("a fresh reconcile; middle of 101 batches, µs", &heads);
        for (object, what) in [
            ("plain", "one get of 1 KB"),
            ("asking-0", "two gets, a text"),
        ] {
            let turns = self.turns.lock().remove(object);
            let turns = turns.context("nothing was measured")?;
            let ([native, guest], beyond) = (turns.medians(), turns.beyond(1));
            let mut row = vec![what.to_owned()];
            row.extend([native, guest, beyond].map(|time| format!("{time:.2}")));
            if object == "plain" {
                row.push(one_get(beyond));
            }
            table.row(&row);
        }
        Ok(())
    }
}

fn timer(timed: Arc<Timed>) -> Result<Controller> {
    let mut watch = Watch::new(config_map(), Enqueue::Primary);
    watch.label_selector = Some("bench.windlass.dev/timed".parse()?);
    let options = ControllerOptions {
        timeout: Duration::from_secs(300),
        ..Default::default()
    };
    let reconcile = move |context: Context| timed.clone().measure(context);
    Ok(Controller::builder(ControllerName::new("timer")?)
        .watch(watch)
        .options(options)
        .build(Arc::new(reconcile))?)
}

/// Updates objects and waits for the result.
struct Driver {
    manager: RunningManager,
    seen: Arc<Seen>,
}

/// When each greeting was first seen.
#[derive(Default)]
struct Seen {
    at: Mutex<HashMap<String, Instant>>,
    arrived: tokio::sync::Notify,
}

impl Driver {
    async fn start(server: &ServerProcess) -> Result<Self> {
        let seen = Arc::new(Seen::default());
        let noting = seen.clone();
        let observe = move |context: Context| {
            let seen = noting.clone();
            async move {
                let now = Instant::now();
                let json = context
                    .client(&Arc::new(Grant::all()))
                    .get(&config_map(), &context.request.key, &GetOptions::default())
                    .await?;
                let greeting = json
                    .and_then(|json| serde_json::from_slice::<ConfigMap>(&json).ok())
                    .and_then(|map| map.data.get("greeting").cloned());
                if let Some(greeting) = greeting {
                    seen.at.lock().entry(greeting).or_insert(now);
                    seen.arrived.notify_waiters();
                }
                Ok(Action::Done)
            }
        };
        let observer = Controller::builder(ControllerName::new("observer")?)
            .for_kind(config_map())
            .build(Arc::new(observe))?;
        let manager = rig::start(
            Manager::builder().controller(observer),
            server,
            &["native", "guest"],
        )
        .await?;
        Ok(Self { manager, seen })
    }

    fn cluster(&self, name: &str) -> Result<Arc<Cluster>> {
        self.manager
            .handle
            .fleet()
            .cluster(&windlass_fleet::ClusterName::new(name)?)
            .context("engaged")
    }

    /// Times of updates to each cluster in turn, in milliseconds.
    async fn latency(&self, updates: usize) -> Result<[Vec<f64>; 2]> {
        let mut times = [Vec::new(), Vec::new()];
        for n in 0..updates {
            for (i, name) in ["native", "guest"].into_iter().enumerate() {
                let object = format!("asking-{}", n % OBJECTS);
                times[i].push(
                    self.update(name, &object, &format!("{updates}-{n}"))
                        .await?,
                );
            }
        }
        Ok(times)
    }

    async fn update(&self, cluster: &str, name: &str, who: &str) -> Result<f64> {
        let client = self.cluster(cluster)?.client(Grant::all());
        let key = ObjectKey::namespaced("default", name);
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default",
            "labels": {GREET: who}}, "data": {"filler": "x".repeat(1000)}});
        let expected = format!("hello, {who}, from {cluster}");
        let started = Instant::now();
        if client
            .get(&config_map(), &key, &GetOptions::default())
            .await?
            .is_none()
        {
            client
                .create(
                    &config_map(),
                    object.to_string().into(),
                    &WriteOptions::default(),
                )
                .await?;
        } else {
            let patch = json!({"metadata": {"labels": {GREET: who}}})
                .to_string()
                .into();
            client
                .patch(
                    &config_map(),
                    &key,
                    PatchType::Merge,
                    patch,
                    &WriteOptions::default(),
                )
                .await?;
        }
        loop {
            let arrived = self.seen.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if let Some(at) = self.seen.at.lock().remove(&expected) {
                return Ok(at.duration_since(started).as_secs_f64() * 1e3);
            }
            tokio::time::timeout(Duration::from_secs(10), arrived)
                .await
                .with_context(|| format!("no greeting {expected:?}"))?;
        }
    }

    fn report(&self, [native, guest]: &[Vec<f64>; 2]) {
        let heads = [
            "subject",
            "p50   ",
            "p90   ",
            "p99   ",
            "p50 ratio",
            "bar      ",
        ];
        let table = Table::begin("event in to write out, ms", &heads);
        let row = |name: &str, times: &[f64]| {
            let mut row = vec![name.to_owned()];
            row.extend([0.5, 0.9, 0.99].map(|share| format!("{:.3}", percentile(times, share))));
            row
        };
        table.row(&row("native", native));
        let ratio = percentile(guest, 0.5) / percentile(native, 0.5);
        let mut guest = row("guest", guest);
        guest.extend([format!("{ratio:.2}"), verdict("1.2", ratio <= BAR)]);
        table.row(&guest);
    }

    /// Has the timer run for an object that asks for a greeting, and for one that does not.
    async fn time(&self, timed: &Timed) -> Result<()> {
        let client = self.cluster("guest")?.client(Grant::all());
        let label = json!({"bench.windlass.dev/timed": "yes"});
        let plain = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain", "namespace": "default", "labels": label},
            "data": {"filler": "x".repeat(700)}});
        client
            .create(
                &config_map(),
                plain.to_string().into(),
                &WriteOptions::default(),
            )
            .await?;
        self.timed(timed).await?;
        let patch = json!({"metadata": {"labels": label}}).to_string().into();
        client
            .patch(
                &config_map(),
                &ObjectKey::namespaced("default", "asking-0"),
                PatchType::Merge,
                patch,
                &WriteOptions::default(),
            )
            .await?;
        self.timed(timed).await
    }

    async fn timed(&self, timed: &Timed) -> Result<()> {
        tokio::time::timeout(Duration::from_secs(300), timed.done.notified())
            .await
            .context("the timer did not run")
    }
}
