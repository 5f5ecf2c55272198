//! Servers whose past was taken back, and others under the same address. Entry points: the tests.

use crate::rig::{Rig, Setup};
use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use windlass_apiserver::{
    AnswerFault, Backup, Call, EventFault, Faults, Hook, RequestFault, RequestVerdict, Rule, Verb,
};
use windlass_fleet::api::{GetOptions, ListOptions};
use windlass_fleet::cluster::ClusterState;
use windlass_fleet::{Grant, GroupVersionKind, ObjectKey};
use windlass_harness::eventually::{DEADLINE, Seen, wait};
use windlass_harness::fleet::request;

/// The value of an object as a cached read finds it.
async fn cached(rig: &Rig, object: &str) -> Result<Value> {
    let client = rig.engaged("alpha").map(|alpha| alpha.client(Grant::all()));
    let key = ObjectKey::namespaced("default", object);
    let kind = crate::keeper::config_map();
    let Some(client) = client else {
        return Ok(Value::Null);
    };
    let json = client.get(&kind, &key, &GetOptions::default()).await?;
    let object: Option<Value> = json.map(|json| serde_json::from_slice(&json)).transpose()?;
    Ok(object.map_or(Value::Null, |object| object["data"]["value"].clone()))
}

/// A fleet of one cluster that has cached changes which the backup does not have.
async fn ahead_of_its_backup() -> Result<(Rig, Backup)> {
    let rig = Rig::start(Setup::of(&["alpha"])).await?;
    let backup = rig.simulated("alpha").backup();
    rig.put("alpha", "seed-0", "lost")?;
    rig.put("alpha", "lost-too", "lost")?;
    for n in 0..10 {
        rig.carried("alpha", &format!("lost {n}")).await?;
    }
    Ok((rig, backup))
}

#[tokio::test]
async fn a_server_that_lost_its_history_is_degraded_and_its_caches_rebuilt_within_seconds()
-> Result<()> {
    let (rig, backup) = ahead_of_its_backup().await?;
    let engaged = rig.engaged("alpha");
    rig.simulated("alpha").roll_back(&backup);
    // The first version after the backup is given out again, to the same object: only its content differs.
    rig.put("alpha", "seed-0", "of the new history")?;
    let began = Instant::now();
    let status = rig.reaches("alpha", ClusterState::Degraded).await?;
    assert!(status.reason.contains("HistoryLost"), "{}", status.reason);
    assert!(began.elapsed() < Duration::from_secs(5));
    rig.ready("alpha").await?;
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!(cached(&rig, "seed-0").await?, "of the new history");
    assert_eq!(cached(&rig, "lost-too").await?, Value::Null);
    assert!(
        rig.metrics()?
            .contains(r#"windlass_cluster_histories_lost_total{cluster="alpha"} 1"#)
    );
    let same = |(a, b): (Arc<_>, Arc<_>)| Arc::ptr_eq(&a, &b);
    assert!(engaged.zip(rig.engaged("alpha")).is_some_and(same));
    rig.finish().await
}

#[tokio::test]
async fn an_answer_of_the_lost_history_does_not_enter_rebuilt_caches() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let mut setup = Setup::of(&["alpha"]).hook(faults.clone());
    setup.manager.caches.stale_for = Duration::from_millis(500);
    let rig = Rig::start(setup).await?;
    let backup = rig.simulated("alpha").backup();
    for n in 0..10 {
        rig.carried("alpha", &format!("lost {n}")).await?;
    }
    // Some seconds for an answer of some hundred bytes.
    let slow = AnswerFault::Slow {
        bytes_per_second: 100,
    };
    let slow = faults.add(Rule::new(slow).verb(Verb::Update));
    let mut seed = rig.stored("alpha", "seed-2").unwrap_or_default();
    seed["metadata"]["annotations"] = json!({"note": "x".repeat(200)});
    let write = tokio::spawn(update(&rig, seed));
    wait("the write", || Seen::of(faults.struck(slow), |n| *n >= 1)).await?;
    rig.simulated("alpha").roll_back(&backup);
    rig.reaches("alpha", ClusterState::Degraded).await?;
    rig.ready("alpha").await?;
    assert!(
        !write.is_finished(),
        "its answer comes after the caches were rebuilt"
    );
    write.await??;
    // Nothing in the caches is newer than the server.
    rig.finish().await
}

#[tokio::test]
async fn a_history_that_lost_only_what_was_written_through_the_cache_is_found_too() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = Rig::start(Setup::of(&["alpha"]).hook(faults.clone())).await?;
    // The watch stays behind, so that the backup is ahead of it.
    faults.add(Rule::new(EventFault::Drop).cluster("alpha"));
    let mut plain = crate::keeper::source("plain", &json!({"value": "kept"}));
    // No reconciler asks for it: nobody writes what it was made of into the restored history.
    plain["metadata"]["labels"] = Value::Null;
    let made = rig.simulated("alpha").apply(plain.clone());
    made.map_err(|error| anyhow!("{error:?}"))?;
    let backup = rig.simulated("alpha").backup();
    plain["data"]["value"] = "lost".into();
    update(&rig, plain).await?;
    assert_eq!(cached(&rig, "plain").await?, "lost");
    faults.clear();
    rig.simulated("alpha").roll_back(&backup);
    let status = rig.reaches("alpha", ClusterState::Degraded).await?;
    assert!(status.reason.contains("HistoryLost"), "{}", status.reason);
    rig.ready("alpha").await?;
    assert_eq!(cached(&rig, "plain").await?, "kept");
    rig.delete("alpha", "plain")?;
    rig.finish().await
}

/// Writes an object through the engine's client for `alpha`.
fn update(rig: &Rig, object: Value) -> impl Future<Output = Result<()>> + use<> {
    let client = rig.engaged("alpha").map(|alpha| alpha.client(Grant::all()));
    async move {
        let kind = crate::keeper::config_map();
        let options = windlass_fleet::api::WriteOptions::default();
        let client = client.expect("it is engaged");
        let written = client.update(&kind, object.to_string().into(), &options);
        Ok(written.await.map(drop)?)
    }
}

#[tokio::test]
async fn a_history_that_has_passed_the_caches_before_they_come_back_is_found_by_a_comparison()
-> Result<()> {
    let (rig, backup) = ahead_of_its_backup().await?;
    rig.simulated("alpha").down(true);
    rig.simulated("alpha").roll_back(&backup);
    for n in 0..60 {
        rig.put("alpha", "seed-1", &format!("new {n}"))?;
    }
    rig.simulated("alpha").down(false);
    // It was cached in a version that the new history gave to another object.
    wait("what was lost to leave", || {
        let objects = rig.status("alpha").map(|status| status.objects);
        Seen::of(objects.unwrap_or_default(), |n| *n == 6)
    })
    .await?;
    rig.finish().await
}

#[tokio::test]
async fn an_event_that_was_lost_is_made_good_soon_after_its_watch_broke() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = Rig::start(Setup::of(&["alpha"]).hook(faults.clone())).await?;
    let dropped = faults.add(Rule::new(EventFault::Drop).cluster("alpha"));
    rig.put("alpha", "seed-0", "unseen")?;
    wait("the event to be dropped", || {
        Seen::of(faults.struck(dropped), |n| *n >= 1)
    })
    .await?;
    faults.remove(dropped);
    // The cache comes to a version beyond the lost event: no watch will tell of it again.
    rig.put("alpha", "seed-1", "seen")?;
    let later = request("alpha", "seed-1");
    let before = rig.keeper.count(&later);
    wait("a later event", || {
        Seen::of(rig.keeper.count(&later), |n| *n > before)
    })
    .await?;
    rig.simulated("alpha").cut_watches();
    // Comparisons are ten minutes apart by default.
    rig.finish().await
}

#[tokio::test]
async fn no_event_of_another_server_is_taken_before_the_server_has_said_who_it_is() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = Rig::start(Setup::of(&["alpha"]).hook(faults.clone())).await?;
    let before = rig.engaged("alpha");
    let question = Rule::new(RequestFault::Delay(Duration::from_secs(2)));
    let asked = faults.add(question.verb(Verb::Get).resource("namespaces"));
    rig.simulated("alpha").down(true);
    assert!(rig.server.remove_cluster("alpha"));
    rig.server.add_cluster("alpha");
    // Its past is longer: a watch from the cached version goes on there without a word.
    for n in 0..100 {
        rig.put("alpha", "foreign", &format!("{n}"))?;
    }
    wait("the question who it is", || {
        Seen::of(faults.struck(asked), |n| *n >= 1)
    })
    .await?;
    let foreign = request("alpha", "foreign");
    rig.holds("no run", Duration::from_secs(1), || {
        match rig.keeper.count(&foreign) {
            0 => Ok(()),
            n => Err(format!("{n} runs of another server's object")),
        }
    })
    .await?;
    faults.clear();
    wait("a cluster of its own", || {
        let now = rig.engaged("alpha").zip(before.clone());
        let other = now.is_some_and(|(now, before)| !Arc::ptr_eq(&now, &before));
        Seen::of(other, |other| *other)
    })
    .await?;
    rig.finish().await
}

/// What makes a server a workspace of kcp, as far as its identity goes.
fn make_workspace(rig: &Rig, name: &str) -> Result<()> {
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "logicalclusters.core.kcp.io"},
        "spec": {"group": "core.kcp.io", "scope": "Cluster",
            "names": {"plural": "logicalclusters", "kind": "LogicalCluster"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let logical = json!({"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster",
        "metadata": {"name": "cluster"}});
    for object in [crd, logical] {
        let made = rig.simulated(name).apply(object);
        made.map_err(|error| anyhow!("{error:?}"))?;
    }
    Ok(())
}

/// Puts another server, a workspace, where alpha was, and waits until its cluster is engaged anew.
async fn replaced_by_a_workspace(rig: &Rig, faults: &Faults) -> Result<()> {
    let before = rig.engaged("alpha").context("it is engaged")?;
    // It answers only once it is complete.
    faults.add(Rule::new(RequestFault::Cut));
    rig.simulated("alpha").down(true);
    assert!(rig.server.remove_cluster("alpha"));
    rig.server.add_cluster("alpha");
    make_workspace(rig, "alpha")?;
    faults.clear();
    wait("a cluster of its own", || {
        let now = rig.engaged("alpha");
        let other = now.is_some_and(|now| !Arc::ptr_eq(&now, &before));
        Seen::of(other, |other| *other)
    })
    .await?;
    rig.ready("alpha").await?;
    Ok(())
}

#[tokio::test]
async fn a_workspace_is_identified_by_its_logical_cluster() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = Rig::start(Setup::of(&["alpha"]).hook(faults.clone())).await?;
    replaced_by_a_workspace(&rig, &faults).await?;
    // The question of the cluster that is replaced, and of the one that is engaged.
    replaced_by_a_workspace(&rig, &faults).await?;
    let asked = |resource: &str| {
        let calls = rig.simulated("alpha").requests();
        calls
            .iter()
            .filter(|call| call.resource == resource && call.verb == Verb::Get)
            .count()
    };
    assert_eq!((asked("logicalclusters"), asked("namespaces")), (2, 0));
    rig.finish().await
}

/// Refuses watches of Secrets, and lets nobody learn who the server is, each for as long as it is told to.
#[derive(Default)]
struct Gatekeeper {
    refuses_secrets: AtomicBool,
    hides_identity: AtomicBool,
    identity_told: AtomicUsize,
    secrets_watched: AtomicUsize,
}

impl Hook for Gatekeeper {
    fn request(&self, _cluster: &str, call: &Call) -> RequestVerdict {
        if call.resource == "namespaces" && call.verb == Verb::Get {
            if self.hides_identity.load(Ordering::SeqCst) {
                return RequestVerdict::Silence;
            }
            self.identity_told.fetch_add(1, Ordering::SeqCst);
        }
        if call.resource == "secrets" && call.verb == Verb::Watch {
            if self.refuses_secrets.load(Ordering::SeqCst) {
                return RequestVerdict::Cut;
            }
            self.secrets_watched.fetch_add(1, Ordering::SeqCst);
        }
        RequestVerdict::Proceed
    }
}

#[tokio::test]
async fn a_watch_that_comes_back_late_trusts_no_check_of_the_server_before() -> Result<()> {
    let gate = Arc::new(Gatekeeper::default());
    let rig = Rig::start(Setup::of(&["alpha"]).hook(gate.clone())).await?;
    let (secret, options) = (secret(), ListOptions::default());
    let before = rig.engaged("alpha").context("it is engaged")?;
    let client = before.client(Grant::all());
    assert!(client.list(&secret, &options).await?.items.is_empty());
    wait("a watch of secrets", || {
        Seen::of(gate.secrets_watched.load(Ordering::SeqCst), |n| *n > 0)
    })
    .await?;
    let (told, watched) = (
        gate.identity_told.load(Ordering::SeqCst),
        gate.secrets_watched.load(Ordering::SeqCst),
    );
    gate.refuses_secrets.store(true, Ordering::SeqCst);
    rig.simulated("alpha").cut_watches();
    wait("the other watch to find the same server", || {
        Seen::of(gate.identity_told.load(Ordering::SeqCst), |n| *n > told)
    })
    .await?;
    gate.hides_identity.store(true, Ordering::SeqCst);
    assert!(rig.server.remove_cluster("alpha"));
    rig.server.add_cluster("alpha");
    for n in 0..100 {
        let foreign = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"n": n.to_string()},
            "metadata": {"namespace": "default", "name": "foreign"}});
        let made = rig.simulated("alpha").apply(foreign);
        made.map_err(|error| anyhow!("{error:?}"))?;
    }
    gate.refuses_secrets.store(false, Ordering::SeqCst);
    wait("the late watch at the other server", || {
        Seen::of(gate.secrets_watched.load(Ordering::SeqCst), |n| {
            *n > watched
        })
    })
    .await?;
    let until = Instant::now() + Duration::from_secs(1);
    let foreign = windlass_harness::eventually(DEADLINE, "a second to pass", || async {
        let secrets = client.list(&secret, &options).await?.items.len();
        Ok(match secrets {
            0 if Instant::now() < until => Seen::NotYet("none".into()),
            seen => Seen::Yes(seen),
        })
    });
    assert_eq!(foreign.await?, 0, "secrets of another server");
    gate.hides_identity.store(false, Ordering::SeqCst);
    wait("a cluster of its own", || {
        let now = rig.engaged("alpha");
        let other = now.is_some_and(|now| !Arc::ptr_eq(&now, &before));
        Seen::of(other, |other| *other)
    })
    .await?;
    rig.finish().await
}

fn secret() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Secret")
}

#[tokio::test]
async fn the_next_attempt_is_shown_and_brought_forward_by_a_call_that_succeeds() -> Result<()> {
    let rig = Rig::start(Setup::of(&["alpha"])).await?;
    rig.simulated("alpha").down(true);
    rig.reaches("alpha", ClusterState::Degraded).await?;
    // Waits have grown so far that nobody would want to wait for the next.
    let due = wait("an attempt that is far off", || {
        let due = rig.status("alpha").ok().and_then(|now| now.next_attempt);
        let ahead = due.unwrap_or_default().saturating_sub(now());
        Seen::of((due, ahead), |(_, ahead)| *ahead >= 6)
    })
    .await?;
    rig.simulated("alpha").down(false);
    read_live(&rig).await?;
    rig.ready("alpha").await?;
    assert!(now() < due.0.unwrap_or_default(), "before its time");
    rig.finish().await
}

fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

async fn read_live(rig: &Rig) -> Result<()> {
    let client = rig.engaged("alpha").map(|alpha| alpha.client(Grant::all()));
    let live = GetOptions {
        mode: windlass_fleet::api::ReadMode::Live,
        ..GetOptions::default()
    };
    if let Some(client) = client {
        let key = ObjectKey::namespaced("default", "seed-0");
        client
            .get(&crate::keeper::config_map(), &key, &live)
            .await?;
    }
    Ok(())
}
