//! Events that are recorded in the background: what room each tenant has, and what holds them up. Those of the program stand in
//! `program::notices`.

use super::fixture::{config_map, key, object};
use anyhow::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::api::{ApiError, Event, EventType};
use windlass_fleet::cluster::{CallPolicy, Permit};
use windlass_fleet::controller::Builder;
use windlass_fleet::grant::Denied;
use windlass_fleet::{
    Action, Client, Cluster, Context, Controller, ControllerName, Grant, ObjectKey, TenantName,
};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name};

fn tenant(name: &str) -> TenantName {
    TenantName::new(name).expect("a valid name")
}

fn event(about: &str, reason: &str) -> Event {
    Event {
        kind: config_map(),
        key: key(about),
        event_type: EventType::Warning,
        reason: reason.to_owned(),
        action: "Test".into(),
        note: "from a test".into(),
    }
}

/// Two clusters, of which reconcilers of the tenants `a` and `b` run in beta, and the clients of alpha that they were given.
struct Stage {
    fleet: TestFleet,
    alpha: Arc<Cluster>,
    clients: BTreeMap<&'static str, Client>,
}

impl Stage {
    /// Alpha does not answer if it is `down`.
    async fn start(down: bool) -> Result<Self> {
        let given: Arc<Mutex<BTreeMap<&'static str, Client>>> = Arc::default();
        let reconciler = |of: &'static str| -> Controller {
            let given = given.clone();
            let reconcile = move |context: Context| {
                let given = given.clone();
                async move {
                    if let Some(alpha) = context.fleet().cluster(&name("alpha")) {
                        let client = context.client_for(&alpha, &Arc::new(Grant::all()));
                        given.lock().insert(of, client);
                    }
                    Ok(Action::Done)
                }
            };
            let builder: Builder = Controller::builder(ControllerName::new("c").expect("valid"));
            builder
                .tenant(tenant(of))
                .for_kind(config_map())
                .build(Arc::new(reconcile))
                .expect("a valid controller")
        };
        let controllers = [reconciler("a"), reconciler("b")];
        let fleet = TestFleet::start(&["alpha", "beta"], |b| {
            controllers.into_iter().fold(b, |b, one| b.controller(one))
        })
        .await?;
        fleet.simulated("alpha").down(down);
        fleet.add("alpha")?;
        let alpha = wait("a cluster", || {
            let cluster = fleet.engaged("alpha");
            cluster.map_or_else(|| Seen::NotYet("not engaged".into()), Seen::Yes)
        })
        .await?;
        fleet.engage("beta").await?;
        fleet.apply("beta", object("run", json!({})))?;
        wait("clients of both tenants", || {
            Seen::of(given.lock().len(), |given| *given == 2)
        })
        .await?;
        let clients = std::mem::take(&mut *given.lock());
        Ok(Self {
            fleet,
            alpha,
            clients,
        })
    }

    fn client(&self, tenant: &str) -> Client {
        self.clients[tenant].clone()
    }

    fn dropped(&self) -> u64 {
        self.alpha.status().events_dropped
    }

    /// How many events there are of each reason.
    fn recorded(&self) -> BTreeMap<String, usize> {
        let server = self.fleet.simulated("alpha");
        let mut reasons = BTreeMap::new();
        for event in server.list("v1", "Event", "default").unwrap_or_default() {
            let reason = event["reason"].as_str().unwrap_or_default().to_owned();
            *reasons.entry(reason).or_default() += 1;
        }
        reasons
    }
}

#[tokio::test]
async fn what_a_tenant_records_leaves_room_for_other_tenants_and_the_program() -> Result<()> {
    /// More than wait to be written of one tenant.
    const MANY: u64 = 300;
    let stage = Stage::start(true).await?;
    for at in 0..MANY {
        stage
            .client("a")
            .record_event(event(&format!("n{at}"), "Many"));
    }
    let dropped = stage.dropped();
    assert!((1..MANY).contains(&dropped), "{dropped}");
    stage.client("b").record_event(event("n", "Other"));
    let own = |reason, of| {
        stage.alpha.record_own_event(event("n", reason), "here", of);
    };
    own("Own", None);
    assert_eq!(stage.dropped(), dropped);
    own("BroughtAbout", Some(&tenant("a")));
    assert_eq!(stage.dropped(), dropped + 1);

    stage.fleet.simulated("alpha").down(false);
    let all = wait("all that wait", || {
        Seen::of(stage.recorded(), |reasons| {
            reasons.get("Many") == Some(&((MANY - dropped) as usize))
                && reasons.contains_key("Own")
                && reasons.contains_key("Other")
        })
    })
    .await?;
    assert!(!all.contains_key("BroughtAbout"), "{all:?}");
    stage.fleet.stop().await
}

/// Lets no call begin.
#[derive(Default)]
struct Never {
    /// How long calls would have waited.
    asked: Mutex<Vec<Duration>>,
}

impl CallPolicy for Never {
    fn acquire(&self, patience: Duration) -> BoxFuture<'_, Result<Permit, ApiError>> {
        self.asked.lock().push(patience);
        futures::future::pending().boxed()
    }

    fn denied(&self, _: &Denied) {}
}

#[tokio::test]
async fn an_event_waits_for_the_limits_of_its_caller_and_delays_no_other() -> Result<()> {
    let stage = Stage::start(false).await?;
    stage.fleet.ready("alpha").await?;
    let never = Arc::new(Never::default());
    let limited = stage.client("a").with_policy(never.clone());
    limited.record_event(event("n", "Limited"));
    wait("the event to be held up", || {
        Seen::of(never.asked.lock().len(), |asked| *asked == 1)
    })
    .await?;
    stage.client("b").record_event(event("n", "Other"));
    stage
        .alpha
        .record_own_event(event("n", "Own"), "here", None);
    let all = wait("the other events", || {
        Seen::of(stage.recorded(), |reasons| {
            reasons.contains_key("Own") && reasons.contains_key("Other")
        })
    })
    .await?;
    assert!(!all.contains_key("Limited"), "{all:?}");
    let asked = never.asked.lock().clone();
    assert!(
        asked
            .iter()
            .all(|patience| *patience <= Duration::from_secs(10)),
        "{asked:?}"
    );
    stage.fleet.stop().await
}

#[tokio::test]
async fn events_about_what_nothing_can_be_called_are_refused_before_they_wait() -> Result<()> {
    let stage = Stage::start(true).await?;
    let long = "x".repeat(2 << 20);
    let keys = [
        key(&long),
        key(""),
        key("a/b"),
        ObjectKey::namespaced(&long, "n"),
        ObjectKey::namespaced("", "n"),
        ObjectKey::namespaced(&"x".repeat(64), "n"),
    ];
    let client = stage.client("a");
    for key in keys.clone() {
        client.record_event(Event {
            key,
            ..event("n", "Odd")
        });
    }
    let mut kind = config_map();
    kind.kind = long.as_str().into();
    client.record_event(Event {
        kind,
        ..event("n", "Odd")
    });
    assert_eq!(stage.dropped(), keys.len() as u64 + 1);
    stage.fleet.stop().await
}

#[tokio::test]
async fn what_waits_ends_with_its_cluster() -> Result<()> {
    let stage = Stage::start(true).await?;
    stage.client("a").record_event(event("n", "Late"));
    let Stage {
        fleet,
        alpha,
        clients,
    } = stage;
    drop(clients);
    let held = Arc::downgrade(&alpha);
    drop(alpha);
    fleet.provider.remove(&name("alpha"));
    wait("the cluster to be gone", || {
        Seen::of(held.strong_count(), |held| *held == 0)
    })
    .await?;
    fleet.stop().await
}
