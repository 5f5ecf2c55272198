//! How things end: runs, drains, removed controllers, clusters that come and go many times.

use super::fixture::{
    Log, builder, config_map, controller, controller_with, get, object, recording,
};
use super::keys::wait_idle;
use anyhow::Result;
use futures::future::BoxFuture;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use windlass_fleet::api::ReadMode;
use windlass_fleet::controller::{ControllerOptions, Reconciler};
use windlass_fleet::{Action, Context, ControllerName, Failure, Grant, TenantName};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name, request};

/// Panics before there is a future, the first time.
struct PanicsAtOnce(Arc<Log>, AtomicBool);

impl Reconciler for PanicsAtOnce {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        self.0.enter(&context.request);
        self.0.leave(&context.request);
        assert!(self.1.swap(true, Ordering::SeqCst), "the first time");
        Box::pin(async { Ok(Action::Done) })
    }
}

#[tokio::test]
async fn a_panic_before_the_first_await_is_one_failed_run() -> Result<()> {
    let log = Arc::new(Log::default());
    let panicking = builder().build(Arc::new(PanicsAtOnce(log.clone(), AtomicBool::new(false))))?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(panicking)).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 2).await?;
    wait_idle(&fleet).await?;
    fleet.stop().await
}

#[tokio::test]
async fn a_drain_lets_what_runs_finish() -> Result<()> {
    let (log, gate) = (Arc::new(Log::default()), Arc::new(Semaphore::new(0)));
    let cancelled = Arc::new(AtomicBool::new(false));
    let (held, noted) = (gate.clone(), cancelled.clone());
    let waiting = controller(&log, move |context| {
        let (gate, noted) = (held.clone(), noted.clone());
        async move {
            gate.acquire().await.expect("never closed").forget();
            noted.store(context.cancelled().is_cancelled(), Ordering::SeqCst);
            Ok(Action::Done)
        }
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(waiting)).await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    let handle = fleet.handle.clone();
    let refused = tokio::spawn({
        let log = log.clone();
        async move {
            // The drain has begun once no controller is taken any more.
            wait("the drain", || {
                Seen::of(handle.put_controller(recording(&log)).is_err(), |no| *no)
            })
            .await?;
            gate.add_permits(1);
            anyhow::Ok(())
        }
    });
    fleet.stop().await?;
    refused.await??;
    assert!(!cancelled.load(Ordering::SeqCst), "it had time left");
    Ok(())
}

/// Success, a time asked for, a retry, a terminal failure, a panic and an overrun deadline: what became of six objects in a running
/// manager is what its metrics count.
#[tokio::test]
async fn every_end_of_a_run_is_counted_by_its_own_metric() -> Result<()> {
    let log = Arc::new(Log::default());
    let options = ControllerOptions {
        timeout: Duration::from_secs(1),
        ..ControllerOptions::default()
    };
    let work = |context: Context| async move {
        match (&*context.request.key.name, context.attempt()) {
            ("later", _) => Ok(Action::RequeueAfter(Duration::from_secs(3600))),
            ("retried", 1..=3) => Err(Failure::retry("not yet")),
            ("terminal", _) => Err(Failure::terminal("never")),
            ("panics", 1) => panic!("oh"),
            ("overruns", 1) => std::future::pending().await,
            _ => Ok(Action::Done),
        }
    };
    let controller = controller_with(&log, options, work);
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    fleet.engage("alpha").await?;
    for object_name in ["done", "later", "retried", "terminal", "panics", "overruns"] {
        fleet.apply("alpha", object(object_name, json!({})))?;
    }
    log.ran(&request("alpha", "overruns"), 2).await?;
    log.ran(&request("alpha", "retried"), 4).await?;
    wait_idle(&fleet).await?;
    let text = fleet.metrics()?;
    let of = r#"controller="test",tenant="default",reconciler="test""#;
    let counted = |metric: &str, more: &str| -> Option<f64> {
        let series = format!("{metric}{{{more}");
        let line = text
            .lines()
            .find(|line| line.starts_with(&series) && line.contains(of))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    let result = |result: &str| {
        let more = format!(r#"{of},cluster="alpha",result="{result}""#);
        counted("controller_runtime_reconcile_total", &more)
    };
    assert_eq!(result("success"), Some(4.0), "{text}");
    assert_eq!(result("requeue_after"), Some(1.0), "{text}");
    assert_eq!(result("error"), Some(6.0), "{text}");
    for (metric, count) in [
        ("controller_runtime_reconcile_errors_total", 6.0),
        ("controller_runtime_terminal_reconcile_errors_total", 1.0),
        ("controller_runtime_reconcile_panics_total", 1.0),
        ("controller_runtime_reconcile_timeouts_total", 1.0),
        ("workqueue_retries_total", 5.0),
        ("windlass_queue_delayed", 1.0),
        ("windlass_queue_terminal", 1.0),
        ("windlass_queue_backoff", 0.0),
    ] {
        assert_eq!(counted(metric, ""), Some(count), "{metric} in {text}");
    }
    fleet.stop().await
}

#[tokio::test]
async fn series_of_a_cluster_and_of_a_controller_leave_with_them() -> Result<()> {
    let (log, gate) = (Arc::new(Log::default()), Arc::new(Semaphore::new(0)));
    let held = gate.clone();
    let stubborn = controller(&log, move |context| {
        let gate = held.clone();
        async move {
            // Does not listen to its cancellation, and succeeds in the end.
            if &*context.request.key.name == "slow" {
                let _ = tokio::time::timeout(Duration::from_millis(500), gate.acquire()).await;
            }
            Ok(Action::Done)
        }
    });
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(stubborn)).await?;
    for cluster in ["alpha", "beta"] {
        fleet.apply(cluster, object("quick", json!({})))?;
        fleet.engage(cluster).await?;
        log.ran(&request(cluster, "quick"), 1).await?;
    }
    wait_idle(&fleet).await?;
    assert!(fleet.metrics()?.contains(r#"cluster="alpha""#));
    fleet.apply("alpha", object("slow", json!({})))?;
    log.ran(&request("alpha", "slow"), 1).await?;
    fleet.provider.remove(&name("alpha"));
    wait("the end of what ran there", || {
        Seen::of(fleet.handle.controllers()[0].running, |n| *n == 0)
    })
    .await?;
    assert!(
        !fleet.metrics()?.contains(r#"cluster="alpha""#),
        "{}",
        fleet.metrics()?
    );
    assert!(fleet.metrics()?.contains(r#"cluster="beta""#));
    let (tenant, controller) = (TenantName::default(), ControllerName::new("test")?);
    assert!(fleet.handle.remove_controller(&tenant, &controller).await);
    assert!(
        !fleet.metrics()?.contains(r#"reconciler="test""#),
        "{}",
        fleet.metrics()?
    );
    fleet.stop().await
}

#[tokio::test]
async fn clusters_that_come_and_go_leave_nothing_behind() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(recording(&log))).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    fleet.apply("beta", object("b", json!({})))?;
    fleet.engage("beta").await?;
    log.ran(&request("beta", "b"), 1).await?;
    wait_idle(&fleet).await?;
    // A first time, so that what is made once and shared is there.
    let mut weak = vec![Arc::downgrade(&fleet.engage("alpha").await?)];
    fleet.provider.remove(&name("alpha"));
    let gone = || {
        wait("closed watches", || {
            Seen::of(fleet.simulated("alpha").watchers(), |n| *n == 0)
        })
    };
    gone().await?;
    let metrics = Handle::current().metrics();
    let baseline = metrics.num_alive_tasks();
    for round in 0..200 {
        fleet.add("alpha")?;
        let engaged = wait("an engaged cluster", || match fleet.engaged("alpha") {
            Some(cluster) => Seen::Yes(cluster),
            None => Seen::NotYet("not engaged".into()),
        })
        .await?;
        weak.push(Arc::downgrade(&engaged));
        // At every stage: before it connects, while it syncs, when it is ready, and with a cache that a read brought up.
        match round % 4 {
            0 => {}
            1 => tokio::task::yield_now().await,
            2 => drop(fleet.ready("alpha").await?),
            _ => {
                let client = super::fixture::client(&engaged);
                let kind = windlass_fleet::GroupVersionKind::new("", "v1", "Secret");
                let _ = client.list(&kind, &Default::default()).await?;
            }
        }
        drop(engaged);
        fleet.provider.remove(&name("alpha"));
        wait("a cluster that has left", || {
            Seen::of(fleet.engaged("alpha").is_none(), |gone| *gone)
        })
        .await?;
    }
    gone().await?;
    wait("freed clusters", || {
        let alive = weak
            .iter()
            .filter(|cluster| cluster.upgrade().is_some())
            .count();
        Seen::of(alive, |n| *n == 0)
    })
    .await?;
    // Idle connections of the pool, on both ends, come and go by themselves.
    wait("as many tasks as before", || {
        Seen::of(metrics.num_alive_tasks(), |n| *n <= baseline + 40)
    })
    .await?;
    wait_idle(&fleet).await?;
    assert!(
        fleet.handle.keys(&Default::default()).iter().all(|key| !key
            .queued
            .request
            .to_string()
            .contains("alpha"))
    );
    fleet.apply("beta", object("b", json!({"still": "here"})))?;
    log.ran(&request("beta", "b"), 2).await?;
    assert_eq!(config_map().kind.as_ref(), "ConfigMap");
    fleet.stop().await
}

/// What is deleted while one watch takes another's place is in no list that the other gets, and is told all the same.
#[tokio::test]
async fn a_deletion_while_a_controller_is_replaced_under_another_grant_is_not_missed() -> Result<()>
{
    let gone = Arc::new(parking_lot::Mutex::new(BTreeSet::new()));
    let with = |verbs: &[&str]| {
        let gone = gone.clone();
        let rule = super::clients::rule(&["configmaps"], verbs, &["*"]);
        let grant = Arc::new(Grant::new([rule]));
        let reader = grant.clone();
        let reconcile = move |context: Context| {
            let (gone, reader) = (gone.clone(), reader.clone());
            async move {
                let name = context.request.key.name.to_string();
                let client = context.client(&reader);
                if get(&client, &name, ReadMode::Cached)
                    .await
                    .is_ok_and(|object| object.is_none())
                {
                    gone.lock().insert(name);
                }
                Ok(Action::Done)
            }
        };
        builder().grant(grant).build(Arc::new(reconcile))
    };
    let (one, other) = (["get", "list", "watch"], ["get", "list", "watch", "patch"]);
    let first = with(&one)?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(first)).await?;
    const OBJECTS: usize = 60;
    for n in 0..OBJECTS {
        fleet.apply("alpha", object(&format!("n{n}"), json!({})))?;
    }
    fleet.engage("alpha").await?;
    wait_idle(&fleet).await?;
    for n in 0..OBJECTS {
        let deleted =
            fleet
                .simulated("alpha")
                .delete("v1", "ConfigMap", "default", &format!("n{n}"));
        assert!(deleted.is_ok(), "{deleted:?}");
        let verbs: &[&str] = if n % 2 == 0 { &other } else { &one };
        fleet.handle.put_controller(with(verbs)?)?;
        tokio::task::yield_now().await;
    }
    wait("every deletion to be seen", || {
        Seen::of(gone.lock().len(), |gone| *gone == OBJECTS)
    })
    .await?;
    fleet.stop().await
}

#[tokio::test]
async fn a_controller_put_again_while_events_flow_misses_none() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    fleet.engage("alpha").await?;
    for round in 0..60 {
        fleet.apply("alpha", object(&format!("n{round}"), json!({})))?;
        // Every other time with other watches, so that sources are exchanged.
        let next = if round % 2 == 0 {
            recording(&log)
        } else {
            let log = log.clone();
            let reconcile = move |context: Context| {
                log.enter(&context.request);
                log.leave(&context.request);
                async { Ok(Action::Done) }
            };
            let mut watch = windlass_fleet::source::Watch::new(
                config_map(),
                windlass_fleet::source::Enqueue::Primary,
            );
            watch.projection = windlass_fleet::api::Projection::Metadata;
            windlass_fleet::Controller::builder(ControllerName::new("test")?)
                .watch(watch)
                .build(Arc::new(reconcile))?
        };
        fleet.handle.put_controller(next)?;
        tokio::task::yield_now().await;
    }
    for round in 0..60 {
        log.ran(&request("alpha", &format!("n{round}")), 1).await?;
    }
    let (tenant, controller) = (TenantName::default(), ControllerName::new("test")?);
    assert!(fleet.handle.remove_controller(&tenant, &controller).await);
    wait("closed watches", || {
        Seen::of(fleet.simulated("alpha").watchers(), |n| *n == 0)
    })
    .await?;
    assert!(!log.overlapped());
    fleet.stop().await
}
