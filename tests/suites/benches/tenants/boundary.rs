//! What the way through the sandbox's border costs, by language and isolation, beside native code. Entry point: [`measure`].

use super::stage::{Setup, Stage, component};
use crate::fleet::simulated::{Layout, Order, Simulated};
use crate::fleet::subject::watching;
use crate::rig::{self, config_map};
use crate::turns::{Turns, one_get};
use crate::workload::{Workload, tell};
use anyhow::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::api::{GetOptions, ListOptions};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::{Action, Context, Failure, Grant, Reconciler};
use windlass_sandbox::{Isolation, Reuse};

const OBJECTS: usize = 50;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "boundary",
    title: "a reconcile that reads objects of about 1 KB from the cache and is done; middle of 101 batches, µs",
    heads: &[
        "what                 ",
        "guest   ",
        "isolation",
        "native",
        "guest ",
        "beyond",
        "bar      ",
    ],
    runs: &[&[]],
};

/// What is compared: how much is read, by which guest, how it is kept apart.
const ROWS: [(&str, [u32; 2], &str, bool); 8] = [
    ("one get", [1, 0], "reader", false),
    ("one get", [1, 0], "reader", true),
    ("one list of 50", [0, 1], "reader", false),
    ("one list of 50", [0, 1], "reader", true),
    ("nothing", [0, 0], "reader", false),
    ("nothing", [0, 0], "reader", true),
    ("one get, parsed", [1, 0], "js/hello", false),
    ("one get, parsed", [1, 0], "js/hello", true),
];

pub(crate) async fn measure() -> Result<()> {
    for (what, reads, name, reused) in ROWS {
        let isolation = if reused { "reuse" } else { "fresh" };
        let mut row = vec![what.to_owned(), name.to_owned(), isolation.to_owned()];
        let turns = row_of(reads, name, reused).await?;
        let ([native, guest], beyond) = (turns.medians(), turns.beyond(1));
        row.extend([native, guest, beyond].map(|time| format!("{time:.2}")));
        if (what, name, reused) == ("one get", "reader", false) {
            row.push(one_get(beyond));
        }
        tell(row)?;
    }
    Ok(())
}

/// Times of the native reconciler and of the guest.
async fn row_of([gets, lists]: [u32; 2], name: &str, reused: bool) -> Result<Turns<2>> {
    let mut server = Simulated::start(Layout::new(1, OBJECTS)).await?;
    let stage = Stage::new()?;
    let config = format!(r#"{{"gets": {gets}, "lists": {lists}, "limit": {OBJECTS}}}"#);
    let isolation = if reused {
        Isolation::Reuse(Reuse {
            calls: u32::MAX,
            ..Reuse::default()
        })
    } else {
        Isolation::Fresh
    };
    let setup = Setup {
        config: &config,
        isolation,
        ..Setup::default()
    };
    let guest = stage
        .guest(stage.load(component(name)).await?, setup)
        .await?;
    let timed = Timed::new(Arc::new(Native { gets, lists }), guest);
    let options = ControllerOptions {
        timeout: Duration::from_secs(300),
        ..ControllerOptions::default()
    };
    let controller = watching("timer", Some("name=o-0"), 1)?
        .options(options)
        .build(timed.clone())?;
    let manager = rig::engage(
        windlass_fleet::Manager::builder().controller(controller),
        server.specs()?,
    )
    .await?;
    let update = Order::Burst {
        set: "o".into(),
        rounds: 1,
        clusters: 0..1,
    };
    let times = loop {
        if let Some(times) = timed.times.lock().take() {
            break times;
        }
        server.order(&update).await?;
        let done = timed.done.notified();
        let _ = tokio::time::timeout(Duration::from_secs(60), done).await;
    };
    manager.stop().await?;
    Ok(times)
}

/// Reads as much as the guest does.
struct Native {
    gets: u32,
    lists: u32,
}

impl Native {
    async fn read(&self, context: Context) -> Result<Action, Failure> {
        let client = context.client(&Arc::new(Grant::all()));
        let kind = config_map();
        for _ in 0..self.gets {
            let options = GetOptions::default();
            let object = client.get(&kind, &context.request.key, &options).await?;
            std::hint::black_box(object);
        }
        for _ in 0..self.lists {
            let options = ListOptions {
                limit: OBJECTS as u32,
                ..ListOptions::default()
            };
            std::hint::black_box(client.list(&kind, &options).await?);
        }
        Ok(Action::Done)
    }
}

impl Reconciler for Native {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        self.read(context).boxed()
    }
}

/// Calls two reconcilers many times within one run.
struct Timed {
    subjects: [Arc<dyn Reconciler>; 2],
    times: Mutex<Option<Turns<2>>>,
    done: tokio::sync::Notify,
}

impl Timed {
    fn new(native: Arc<dyn Reconciler>, guest: Arc<dyn Reconciler>) -> Arc<Self> {
        Arc::new(Self {
            subjects: [native, guest],
            times: Mutex::default(),
            done: tokio::sync::Notify::new(),
        })
    }

    async fn measure(&self, context: Context) -> Result<Action, Failure> {
        let [native, guest] = &self.subjects;
        let times = Turns::take([&**native, &**guest], &context).await?;
        *self.times.lock() = Some(times);
        self.done.notify_one();
        Ok(Action::Done)
    }
}

impl Reconciler for Timed {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        self.measure(context).boxed()
    }
}
