//! Who gets the slots and the room: limits at every level, priorities, failing neighbours, a full queue.

use super::fixture::{
    Log, builder, bytes, client, config_map, controller_with, key, logged, object, recording,
};
use super::keys::wait_idle;
use anyhow::Result;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::manager::{Concurrency, ManagerOptions, TenantOptions};
use windlass_fleet::predicate::Predicate;
use windlass_fleet::source::{Enqueue, Watch};
use windlass_fleet::{
    Action, Context, Controller, ControllerName, Failure, GroupVersionKind, TenantName,
};
use windlass_harness::eventually::{DEADLINE, Seen, wait};
use windlass_harness::fleet::{TestFleet, name, request};

/// Most that ran at once, by whatever name.
#[derive(Default)]
struct Peaks(Mutex<BTreeMap<String, (usize, usize)>>);

impl Peaks {
    fn change(&self, names: &[String], by: isize) {
        let mut peaks = self.0.lock();
        for name in names {
            let (now, most) = peaks.entry(name.clone()).or_default();
            *now = now.saturating_add_signed(by);
            *most = (*most).max(*now);
        }
    }

    fn most(&self, name: &str) -> usize {
        self.0.lock().get(name).map_or(0, |peak| peak.1)
    }
}

#[tokio::test]
async fn limits_hold_at_every_level_of_a_running_manager() -> Result<()> {
    const CLUSTERS: usize = 10;
    const OBJECTS: usize = 4;
    let (peaks, gate) = (Arc::new(Peaks::default()), Arc::new(Semaphore::new(0)));
    let of = |tenant: &str, controller: &str, concurrency, concurrency_per_cluster| {
        let (peaks, gate) = (peaks.clone(), gate.clone());
        let owner = [tenant.to_owned(), format!("{tenant}/{controller}")];
        let reconcile = move |context: Context| {
            let (peaks, gate) = (peaks.clone(), gate.clone());
            let cluster = context.request.cluster.to_string();
            let [tenant, controller] = owner.clone();
            let there = format!("{controller}@{cluster}");
            let names = [tenant, controller, cluster, there, "all".to_owned()];
            async move {
                peaks.change(&names, 1);
                gate.acquire().await.expect("never closed").forget();
                peaks.change(&names, -1);
                Ok(Action::Done)
            }
        };
        Controller::builder(ControllerName::new(controller).expect("a valid name"))
            .tenant(TenantName::new(tenant).expect("a valid name"))
            .for_kind(config_map())
            .options(ControllerOptions {
                concurrency,
                concurrency_per_cluster,
                ..Default::default()
            })
            .build(Arc::new(reconcile))
            .expect("a valid controller")
    };
    let options = ManagerOptions {
        concurrency: Concurrency {
            global: 9,
            per_cluster: 3,
            ..Concurrency::default()
        },
        ..Default::default()
    };
    let six = TenantOptions {
        concurrency: Some(6),
        ..Default::default()
    };
    let clusters: Vec<String> = (0..CLUSTERS).map(|n| format!("c{n}")).collect();
    let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
    let fleet = TestFleet::start(&clusters, |b| {
        b.options(options)
            .tenant(TenantName::new("a").expect("valid"), six)
            .controller(of("a", "narrow", Some(2), 4))
            .controller(of("a", "wide", None, 4))
            .controller(of("b", "wide", None, 2))
    })
    .await?;
    for cluster in &clusters {
        for n in 0..OBJECTS {
            fleet.apply(cluster, object(&format!("n{n}"), json!({})))?;
        }
        fleet.engage(cluster).await?;
    }
    let count = |of: fn(&windlass_fleet::manager::ControllerStatus) -> usize| {
        fleet.handle.controllers().iter().map(of).sum::<usize>()
    };
    wait("all slots taken, and all keys in line", || {
        let seen = (count(|c| c.running), count(|c| c.ready));
        Seen::of(seen, |seen| *seen == (9, 3 * CLUSTERS * OBJECTS - 9))
    })
    .await?;
    for _ in 0..3 * CLUSTERS * OBJECTS {
        gate.add_permits(1);
        tokio::task::yield_now().await;
    }
    wait_idle(&fleet).await?;
    let mut limits = vec![
        ("all".to_owned(), 9),
        ("a".to_owned(), 6),
        // Half of all, as nothing is said of it.
        ("b".to_owned(), 5),
        ("a/narrow".to_owned(), 2),
    ];
    for cluster in &clusters {
        limits.push(((*cluster).to_owned(), 3));
        limits.push((format!("b/wide@{cluster}"), 2));
    }
    for (name, limit) in limits {
        let most = peaks.most(&name);
        assert!(most <= limit, "{name}: {most} at once");
    }
    assert_eq!(peaks.most("all"), 9, "and no slot stays empty");
    fleet.stop().await
}

/// A controller that runs one key at a time, each when it is let.
fn one_at_a_time(
    log: &Arc<Log>,
    gate: &Arc<Semaphore>,
    outcome: fn(&Context) -> Result<Action, Failure>,
) -> Controller {
    let options = ControllerOptions {
        concurrency: Some(1),
        ..Default::default()
    };
    let gate = gate.clone();
    controller_with(log, options, move |context| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.expect("never closed").forget();
            outcome(&context)
        }
    })
}

async fn in_line(fleet: &TestFleet, ready: usize) -> Result<()> {
    wait("keys in line", || {
        Seen::of(fleet.handle.controllers()[0].ready, |n| *n == ready)
    })
    .await
    .map(drop)
}

/// Low priority for the initial list.
#[tokio::test]
async fn a_new_event_overtakes_a_thousand_objects_of_the_first_list() -> Result<()> {
    let (log, gate) = (Arc::new(Log::default()), Arc::new(Semaphore::new(0)));
    let controller = one_at_a_time(&log, &gate, |_| Ok(Action::Done));
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    for n in 0..1000 {
        fleet.apply("alpha", object(&format!("n{n:03}"), json!({})))?;
    }
    fleet.engage("alpha").await?;
    in_line(&fleet, 999).await?;
    // One is new, one of the list is changed.
    fleet.apply("alpha", object("zz", json!({})))?;
    in_line(&fleet, 1000).await?;
    fleet.apply("alpha", object("n999", json!({"changed": "yes"})))?;
    wait("the change", || {
        let keys = fleet.handle.keys(&Default::default());
        let changed = keys
            .iter()
            .find(|key| key.queued.request.to_string().ends_with("/n999"));
        Seen::of(changed.map(|key| key.queued.priority), |priority| {
            *priority == Some(0)
        })
    })
    .await?;
    gate.add_permits(3);
    log.ended(3).await?;
    assert_eq!(log.count(&request("alpha", "zz")), 1);
    assert_eq!(log.count(&request("alpha", "n999")), 1);
    gate.add_permits(2000);
    wait_idle(&fleet).await?;
    assert_eq!(log.total(), 1001, "and each is run once");
    fleet.stop().await
}

/// Fairness and backoff by cluster: a reconciler that fails for every object of one cluster leaves the latency of another bounded.
#[tokio::test]
async fn failing_keys_of_one_cluster_delay_no_other_cluster() -> Result<()> {
    let (log, gate) = (Arc::new(Log::default()), Arc::new(Semaphore::new(0)));
    let controller = one_at_a_time(&log, &gate, |context| {
        if context.request.cluster.as_str() == "alpha" {
            Err(Failure::retry("this cluster never works"))
        } else {
            Ok(Action::Done)
        }
    });
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(controller)).await?;
    for n in 0..100 {
        fleet.apply("alpha", object(&format!("n{n}"), json!({})))?;
    }
    fleet.engage("alpha").await?;
    fleet.engage("beta").await?;
    in_line(&fleet, 99).await?;
    // Every key has failed once, and is soon to be tried again.
    gate.add_permits(100);
    log.ended(100).await?;
    in_line(&fleet, 99).await?;
    for round in 0..3 {
        let (before, quiet) = (log.total(), format!("quiet{round}"));
        fleet.apply("beta", object(&quiet, json!({})))?;
        in_line(&fleet, 100).await?;
        gate.add_permits(5);
        log.ran(&request("beta", &quiet), 1).await?;
        assert!(log.total() - before <= 6, "a hundred others are in line");
        in_line(&fleet, 99).await?;
    }
    let failing = fleet.handle.keys(&Default::default());
    assert!(
        failing
            .iter()
            .all(|key| key.queued.request.to_string().contains("alpha"))
    );
    gate.add_permits(10_000);
    fleet.stop().await
}

#[tokio::test]
async fn a_full_queue_loses_neither_objects_nor_deletions() -> Result<()> {
    const OBJECTS: usize = 120;
    let (log, gate) = (Arc::new(Log::default()), Arc::new(Semaphore::new(0)));
    let controller = one_at_a_time(&log, &gate, |_| Ok(Action::Done));
    let options = ManagerOptions {
        keys_per_controller: 10,
        ..Default::default()
    };
    let fleet = TestFleet::start(&["alpha"], |b| b.options(options).controller(controller)).await?;
    for n in 0..OBJECTS {
        fleet.apply("alpha", object(&format!("n{n:03}"), json!({})))?;
    }
    let cluster = fleet.engage("alpha").await?;
    in_line(&fleet, 9).await?;
    assert!(!fleet.handle.idle().await.idle);
    // The last ones have found no room, and go; others come, and change. The watch goes on meanwhile.
    for n in OBJECTS - 20..OBJECTS {
        fleet
            .simulated("alpha")
            .delete("v1", "ConfigMap", "default", &format!("n{n:03}"))
            .map_err(|e| anyhow::anyhow!("{e:?}"))?;
    }
    fleet.apply("alpha", object("late", json!({})))?;
    fleet.apply("alpha", object("n050", json!({"changed": "yes"})))?;
    let seen = || async {
        let mode = windlass_fleet::api::ReadMode::Cached;
        let late = super::fixture::get(&client(&cluster), "n050", mode).await?;
        Ok(Seen::of(late, |o| {
            o.as_ref().is_some_and(|o| o["data"]["changed"] == "yes")
        }))
    };
    windlass_harness::eventually(DEADLINE, "the change in the cache", seen).await?;
    in_line(&fleet, 9).await?;
    gate.add_permits(100_000);
    wait_idle(&fleet).await?;
    for n in 0..OBJECTS {
        let request = request("alpha", &format!("n{n:03}"));
        assert!(log.count(&request) > 0, "{request} was lost");
    }
    assert_eq!(log.count(&request("alpha", "late")), 1);
    // What was refused is offered again with its store: some run more than once, but no more than once around.
    assert!(log.total() <= 3 * OBJECTS, "{} runs", log.total());
    assert!(!log.overlapped());
    // Nothing is left behind: events go on as before.
    let before = log.count(&request("alpha", "n000"));
    fleet.apply("alpha", object("n000", json!({"changed": "yes"})))?;
    log.ran(&request("alpha", "n000"), before + 1).await?;
    fleet.stop().await
}

#[tokio::test]
async fn objects_are_looked_at_again_in_every_resync_period_where_there_is_one() -> Result<()> {
    let logs: [Arc<Log>; 3] = std::array::from_fn(|_| Arc::default());
    let of = |at: usize, resync, predicate| {
        let mut watch = Watch::new(config_map(), Enqueue::Primary);
        watch.predicate = predicate;
        let name = ControllerName::new(format!("c{at}")).expect("a valid name");
        let builder = Controller::builder(name).watch(watch);
        let builder = builder.options(ControllerOptions {
            resync,
            ..Default::default()
        });
        logged(builder, &logs[at], |_| async { Ok(Action::Done) })
    };
    let period = Some(Duration::from_millis(200));
    let fleet = TestFleet::start(&["alpha"], |b| {
        b.controller(of(0, period, Predicate::always()))
            .controller(of(1, period, Predicate::ResourceVersion))
            .controller(of(2, None, Predicate::always()))
    })
    .await?;
    for n in 0..600 {
        fleet.apply("alpha", object(&format!("n{n}"), json!({})))?;
    }
    fleet.engage("alpha").await?;
    for name in ["n0", "n300", "n599"] {
        logs[0].ran(&request("alpha", name), 4).await?;
    }
    for log in &logs[1..] {
        assert_eq!(log.total(), 600, "the first list, and no resync");
    }
    // A period holds from when the controller is given one, on watches that go on.
    let lists = fleet.asked("alpha", "configmaps");
    let given = of(2, period, Predicate::always());
    fleet.handle.put_controller(given)?;
    logs[2].ran(&request("alpha", "n599"), 3).await?;
    assert_eq!(fleet.asked("alpha", "configmaps"), lists);
    fleet.stop().await
}

#[tokio::test]
async fn writers_of_one_object_that_conflict_all_come_through() -> Result<()> {
    const WRITERS: usize = 12;
    let log = Arc::new(Log::default());
    let writer = |at: usize| {
        let name = ControllerName::new(format!("writer{at}")).expect("a valid name");
        let builder = Controller::builder(name).for_kind(config_map());
        logged(builder, &log, move |context| async move {
            let client = context.client(&Arc::new(windlass_fleet::Grant::all()));
            let mode = windlass_fleet::api::ReadMode::Cached;
            let object = super::fixture::get(&client, &context.request.key.name, mode).await;
            let Ok(Some(mut object)) = object else {
                return Ok(Action::Done);
            };
            let mine = format!("writer{at}");
            if !object["data"][&mine].is_null() {
                return Ok(Action::Done);
            }
            object["data"][&mine] = json!("was here");
            let options = windlass_fleet::api::WriteOptions::default();
            client
                .update(&config_map(), bytes(&object), &options)
                .await?;
            Ok(Action::Done)
        })
    };
    let fleet = TestFleet::start(&["alpha"], |mut b| {
        for at in 0..WRITERS {
            b = b.controller(writer(at));
        }
        b
    })
    .await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("shared", json!({"start": "yes"})))?;
    wait("everybody's mark", || {
        let found = fleet
            .simulated("alpha")
            .get("v1", "ConfigMap", "default", "shared");
        let data = found.ok().flatten().map(|o| o["data"].clone());
        let marks = data.and_then(|d| d.as_object().map(|d| d.len()));
        Seen::of(marks, |marks| *marks == Some(WRITERS + 1))
    })
    .await?;
    wait_idle(&fleet).await?;
    // Every write runs every writer once more, and every lost race is one retry: bounded, not a storm.
    let runs = log.total();
    assert!(runs <= WRITERS * WRITERS * 3, "{runs} runs");
    fleet.stop().await
}

#[tokio::test]
async fn a_metadata_only_watch_and_a_full_one_of_another_kind_serve_one_controller() -> Result<()> {
    let log = Arc::new(Log::default());
    let secrets = GroupVersionKind::new("", "v1", "Secret");
    let mut watch = Watch::new(secrets, Enqueue::SameName);
    watch.projection = windlass_fleet::api::Projection::Metadata;
    let controller = logged(builder().watch(watch), &log, |_| async { Ok(Action::Done) });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}});
    fleet.apply("alpha", secret)?;
    log.ran(&request("alpha", "a"), 2).await?;
    fleet.stop().await
}

#[tokio::test]
async fn a_disengaged_cluster_leaves_no_event_no_key_and_no_watch() -> Result<()> {
    let (log, cancelled) = (Arc::new(Log::default()), Arc::new(Semaphore::new(0)));
    let told = cancelled.clone();
    let options = ControllerOptions {
        concurrency: Some(2),
        ..Default::default()
    };
    let controller = controller_with(&log, options, move |context| {
        let told = told.clone();
        async move {
            if context.request.cluster.as_str() == "alpha" {
                context.cancelled().cancelled().await;
                told.add_permits(1);
                return Err(Failure::retry("the cluster has left"));
            }
            Ok(Action::Done)
        }
    });
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(controller)).await?;
    for n in 0..50 {
        fleet.apply("alpha", object(&format!("n{n}"), json!({})))?;
    }
    fleet.engage("alpha").await?;
    fleet.engage("beta").await?;
    in_line(&fleet, 48).await?;
    fleet.provider.remove(&name("alpha"));
    // What runs sees its cancellation, and how it ends counts as done.
    let both = tokio::time::timeout(DEADLINE, cancelled.acquire_many(2)).await??;
    both.forget();
    wait("closed watches", || {
        Seen::of(fleet.simulated("alpha").watchers(), |n| *n == 0)
    })
    .await?;
    wait_idle(&fleet).await?;
    let status = &fleet.handle.controllers()[0];
    let counts = (
        status.ready,
        status.running,
        status.backoff,
        status.terminal,
    );
    assert_eq!((counts, status.clusters), ((0, 0, 0, 0), 1));
    assert!(fleet.handle.keys(&Default::default()).is_empty());
    for n in 0..5 {
        fleet.apply("alpha", object(&format!("late{n}"), json!({})))?;
        fleet.apply("beta", object(&format!("late{n}"), json!({})))?;
        log.ran(&request("beta", &format!("late{n}")), 1).await?;
    }
    assert_eq!(
        log.total(),
        2 + 5,
        "no further run of the cluster that left"
    );
    assert_eq!(fleet.handle.requeue(&request("alpha", "n0"), None), 0);
    fleet.stop().await
}

#[tokio::test]
async fn a_key_waits_for_the_write_that_its_last_run_left_behind() -> Result<()> {
    let log = Arc::new(Log::default());
    let work = |context: Context| async move {
        let client = context.client(&Arc::new(windlass_fleet::Grant::all()));
        let live = windlass_fleet::api::ReadMode::Live;
        let found = super::fixture::get(&client, "a", live).await;
        let Ok(Some(now)) = found else {
            return Err(Failure::retry("not there"));
        };
        // A run that begins before the slow write has landed would see the state before it.
        let first = context.attempt() == 1;
        if !first {
            assert_eq!(now["data"]["write"], "slow", "two writers at once");
            return Ok(Action::Done);
        }
        let patch = bytes(&json!({"data": {"write": "slow"}}));
        let options = windlass_fleet::api::WriteOptions::default();
        let kind = windlass_fleet::api::PatchType::Merge;
        client
            .patch(&config_map(), &key("a"), kind, patch, &options)
            .await?;
        Ok(Action::Done)
    };
    let options = ControllerOptions {
        timeout: Duration::from_millis(300),
        ..Default::default()
    };
    let controller = controller_with(&log, options, work);
    let fleet = TestFleet::start_with(Arc::new(SlowPatch), &["alpha"], |b| {
        b.controller(controller)
    })
    .await?;
    fleet.apply("alpha", object("a", json!({"write": "none"})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 2).await?;
    let idle = wait_idle(&fleet).await?;
    assert!(idle.failing.is_empty() && idle.terminal.is_empty());
    assert!(!log.overlapped());
    fleet.stop().await
}

/// Patches take longer than a run may.
struct SlowPatch;

impl windlass_apiserver::Hook for SlowPatch {
    fn request(
        &self,
        _: &str,
        call: &windlass_apiserver::Call,
    ) -> windlass_apiserver::RequestVerdict {
        if call.method == "PATCH" {
            windlass_apiserver::RequestVerdict::Delay(Duration::from_millis(900))
        } else {
            windlass_apiserver::RequestVerdict::Proceed
        }
    }
}

#[tokio::test]
async fn a_controller_removed_and_put_again_at_once_runs_no_key_twice_at_once() -> Result<()> {
    let (log, gate) = (Arc::new(Log::default()), Arc::new(Semaphore::new(0)));
    let held = || {
        let gate = gate.clone();
        controller_with(&log, ControllerOptions::default(), move |_| {
            let gate = gate.clone();
            async move {
                gate.acquire().await.expect("never closed").forget();
                Ok(Action::Done)
            }
        })
    };
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(held())).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 1).await?;
    for _ in 0..3 {
        let handle = fleet.handle.clone();
        let name = ControllerName::new("test")?;
        let removal = async move {
            handle
                .remove_controller(&TenantName::default(), &name)
                .await
        };
        let removal = tokio::spawn(removal);
        wait("a removed controller", || {
            Seen::of(fleet.handle.controllers().len(), |n| *n == 0)
        })
        .await?;
        fleet.handle.put_controller(held())?;
        fleet.apply("alpha", object("b", json!({"n": log.total().to_string()})))?;
        drop(removal);
    }
    log.ran(&request("alpha", "b"), 1).await?;
    assert_eq!(log.count(&request("alpha", "a")), 1, "it still runs");
    gate.add_permits(100);
    log.ran(&request("alpha", "a"), 2).await?;
    wait_idle(&fleet).await?;
    assert!(!log.overlapped());
    // One that is removed for good goes, and leaves its name to another.
    let name = ControllerName::new("test")?;
    assert!(
        fleet
            .handle
            .remove_controller(&TenantName::default(), &name)
            .await
    );
    assert!(
        !fleet
            .handle
            .remove_controller(&TenantName::default(), &name)
            .await
    );
    fleet.handle.put_controller(recording(&log))?;
    let before = log.count(&request("alpha", "a"));
    log.ran(&request("alpha", "a"), before + 1).await?;
    fleet.stop().await
}
