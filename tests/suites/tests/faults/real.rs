//! Real API servers that are killed, come back, and change whom they admit. Entry points: the tests.

use crate::keeper::{Keeper, child_of, source};
use crate::rig::Setup;
use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::Manager;
use windlass_fleet::cluster::{ClusterState, KubeconfigPolicy};
use windlass_harness::eventually;
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{RunningManager, name};
use windlass_harness::testenv::{Environment, Server, Spec};

/// A real server takes some seconds to start, and more on a loaded machine.
const SOON: Duration = Duration::from_secs(90);

/// A manager whose controller is a [`Keeper`].
fn start() -> Result<(RunningManager, Arc<Keeper>)> {
    windlass_harness::logs::init();
    let (keeper, setup) = (Arc::new(Keeper::default()), Setup::of(&[]));
    let builder = Manager::builder()
        .options(setup.manager)
        .controller(keeper.controller(setup.controller));
    let manager = RunningManager::start(builder)?;
    Ok((manager, keeper))
}

fn add(manager: &RunningManager, cluster: &str, server: &Server) -> Result<()> {
    manager.add_from(cluster, &server.kubeconfig(), &KubeconfigPolicy::file())
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

async fn put(maps: &Api<ConfigMap>, object: &str, value: &str) -> Result<()> {
    let object_now = source(object, &json!({ "value": value }));
    let params = PatchParams::apply("test").force();
    maps.patch(object, &params, &Patch::Apply(&object_now))
        .await?;
    Ok(())
}

async fn right(maps: &Api<ConfigMap>, object: &str, value: &str) -> Result<()> {
    eventually(
        SOON,
        &format!("the child of {object} to be {value}"),
        || async {
            let child = maps.get_opt(&child_of(object)).await?;
            let has = child.and_then(|child| child.data?.get("value").cloned());
            Ok(Seen::of(has, |has| has.as_deref() == Some(value)))
        },
    )
    .await
    .map(drop)
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_real_server_that_is_dead_killed_or_restarted_costs_the_others_nothing_and_joins_again()
-> Result<()> {
    let environment = Environment::start([Spec::new("alpha"), Spec::new("beta")]).await?;
    let (alpha, beta) = (environment.server("alpha"), environment.server("beta"));
    let (in_alpha, in_beta) = (maps(alpha.client().await?), maps(beta.client().await?));
    put(&in_alpha, "first", "one").await?;
    alpha.kill();
    let (fleet, keeper) = start()?;
    add(&fleet, "alpha", alpha)?;
    add(&fleet, "beta", beta)?;
    put(&in_beta, "first", "while alpha is dead").await?;
    right(&in_beta, "first", "while alpha is dead").await?;
    let status = fleet.reaches("alpha", ClusterState::Connecting).await?;
    assert!(status.reason.contains("cannot reach"));
    let engaged = fleet.engaged("alpha").context("engaged")?;

    alpha.restart().await?;
    right(&in_alpha, "first", "one").await?;
    fleet.ready("alpha").await?;
    let counts = engaged.status().connections;
    assert_eq!((counts.http2.open, counts.http1.made), (1, 0));

    alpha.kill();
    fleet.reaches("alpha", ClusterState::Degraded).await?;
    put(&in_beta, "first", "while alpha is killed").await?;
    right(&in_beta, "first", "while alpha is killed").await?;
    alpha.restart().await?;
    put(&in_alpha, "second", "after the restart").await?;
    right(&in_alpha, "second", "after the restart").await?;
    let again = fleet.ready("alpha").await?;
    assert!(Arc::ptr_eq(&engaged, &again), "the same cluster goes on");

    // The same once more is nothing, other credentials are exchanged, and a cluster that leaves is left alone.
    add(&fleet, "alpha", alpha)?;
    fleet.provider.remove(&name("alpha"));
    wait("alpha to be gone", || {
        Seen::of(fleet.handle.fleet().clusters().len(), |n| *n == 1)
    })
    .await?;
    put(&in_alpha, "late", "nobody looks").await?;
    put(&in_beta, "last", "beta goes on").await?;
    right(&in_beta, "last", "beta goes on").await?;
    assert!(in_alpha.get_opt(&child_of("late")).await?.is_none());
    let overlaps = keeper.overlaps();
    assert!(overlaps.is_empty(), "{overlaps:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_real_server_whose_token_is_exchanged_keeps_its_cluster_and_its_watches() -> Result<()> {
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let alpha = environment.server("alpha");
    let in_alpha = maps(alpha.client().await?);
    let (fleet, _) = start()?;
    // A token that nobody knows holds the cluster; the right one is taken up at once.
    let text = alpha.kubeconfig().replace(alpha.token(), "unknown");
    fleet.add_from("alpha", &text, &KubeconfigPolicy::file())?;
    fleet.reaches("alpha", ClusterState::Connecting).await?;
    let before = fleet.engaged("alpha").context("engaged")?;
    eventually(SOON, "the reason in the status", || async {
        Ok(Seen::of(before.status().reason, |now| {
            now.contains("nauthorized")
        }))
    })
    .await?;
    add(&fleet, "alpha", alpha)?;
    put(&in_alpha, "first", "one").await?;
    right(&in_alpha, "first", "one").await?;
    let after = fleet.ready("alpha").await?;
    assert!(Arc::ptr_eq(&before, &after));
    let counts = after.status().connections;
    assert_eq!(counts.http2.open, 1, "{counts:?}");
    fleet.provider.names().first().context("still provided")?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_real_server_restored_from_a_backup_is_found_and_its_caches_are_rebuilt() -> Result<()> {
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let alpha = environment.server("alpha");
    let in_alpha = maps(alpha.client().await?);
    let (fleet, _) = start()?;
    add(&fleet, "alpha", alpha)?;
    put(&in_alpha, "kept", "before").await?;
    right(&in_alpha, "kept", "before").await?;
    let snapshot = environment.snapshot().await?;
    for n in 0..50 {
        put(&in_alpha, "lost", &n.to_string()).await?;
    }
    put(&in_alpha, "kept", "after").await?;
    right(&in_alpha, "lost", "49").await?;
    right(&in_alpha, "kept", "after").await?;
    let engaged = fleet.ready("alpha").await?;
    let cached = engaged.status().objects;

    environment.restore(&snapshot).await?;
    eventually(SOON, "the caches without what was lost", || async {
        let status = engaged.status();
        let rebuilt = status.state.as_str() == "Ready" && status.objects < cached;
        Ok(Seen::of((rebuilt, status.reason), |(rebuilt, _)| *rebuilt))
    })
    .await?;
    assert!(in_alpha.get_opt("lost").await?.is_none());
    // The watch goes on in the new history, and its children are what it makes of them.
    right(&in_alpha, "kept", "before").await?;
    put(&in_alpha, "kept", "once more").await?;
    right(&in_alpha, "kept", "once more").await?;
    put(&in_alpha, "lost", "made anew").await?;
    right(&in_alpha, "lost", "made anew").await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_real_cluster_whose_only_watch_is_forbidden_is_not_ready_until_it_is_granted()
-> Result<()> {
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let alpha = environment.server("alpha");
    let (fleet, _) = start()?;
    let admin = maps(alpha.client().await?);
    put(&admin, "first", "one").await?;
    // A user that nobody has granted anything.
    let text = alpha
        .kubeconfig()
        .replace("token:", "as: nobody\n    token:");
    fleet.add_from("alpha", &text, &KubeconfigPolicy::file())?;
    let reason = fleet.reaches("alpha", ClusterState::Degraded).await?.reason;
    assert!(
        reason.contains("v1/ConfigMap: forbidden") && reason.contains("nobody"),
        "{reason}"
    );
    let problems = fleet.handle.controllers().remove(0).problems;
    assert!(problems[0].contains("forbidden"), "{problems:?}");
    add(&fleet, "alpha", alpha)?;
    fleet.ready("alpha").await?;
    right(&admin, "first", "one").await
}
