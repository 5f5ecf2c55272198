//! Real API servers that are killed, come back, and change whom they admit. Entry points: the tests.

use crate::keeper::{Keeper, child_of, source};
use crate::rig::{Setup, name, wait};
use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use windlass_fleet::Manager;
use windlass_fleet::cluster::{Cluster, ClusterConfig, Provenance};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::ManagerHandle;
use windlass_fleet::provider::clusters::Clusters;
use windlass_harness::eventually;
use windlass_harness::eventually::Seen;
use windlass_harness::testenv::{self, Environment, Server, Spec};

/// A real server takes some seconds to start, and more on a loaded machine.
const SOON: Duration = Duration::from_secs(90);

struct Fleet {
    provider: Arc<Clusters>,
    keeper: Arc<Keeper>,
    handle: ManagerHandle,
    _stop: tokio_util::sync::DropGuard,
}

impl Fleet {
    fn start() -> Result<Self> {
        windlass_harness::logs::init();
        let (provider, keeper) = (Arc::new(Clusters::new("real")), Arc::new(Keeper::default()));
        let setup = Setup::of(&[]);
        let bound = Manager::builder()
            .options(setup.manager)
            .provider(provider.clone())
            .controller(keeper.controller(setup.controller))
            .build()?
            .bind();
        let (handle, stop) = (bound.handle(), CancellationToken::new());
        let token = stop.clone();
        tokio::spawn(async move {
            bound.run(token).await.expect("the manager runs");
        });
        Ok(Self {
            provider,
            keeper,
            handle,
            _stop: stop.drop_guard(),
        })
    }

    fn engage(&self, cluster: &str, server: &Server) -> Result<()> {
        let text = server.kubeconfig();
        let config = ClusterConfig::from_kubeconfig_text(&text, None, None, Provenance::File)?;
        self.provider.put(ClusterSpec::new(name(cluster), config));
        Ok(())
    }

    async fn reaches(&self, cluster: &str, state: &str) -> Result<Arc<Cluster>> {
        let wanted = name(cluster);
        eventually(SOON, &format!("{cluster} to be {state}"), || async {
            Ok(match self.handle.fleet().cluster(&wanted) {
                Some(now) if now.state().as_str() == state => Seen::Yes(now),
                seen => Seen::NotYet(format!("{:?}", seen.map(|now| now.status()))),
            })
        })
        .await
    }
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
async fn a_real_server_that_is_dead_killed_or_restarted_costs_the_others_nothing_and_joins_again()
-> Result<()> {
    if !testenv::enabled("a real server that is dead, killed or restarted joins again") {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("alpha"), Spec::new("beta")]).await?;
    let (alpha, beta) = (environment.server("alpha"), environment.server("beta"));
    let (in_alpha, in_beta) = (maps(alpha.client().await?), maps(beta.client().await?));
    put(&in_alpha, "first", "one").await?;
    alpha.kill();
    let fleet = Fleet::start()?;
    fleet.engage("alpha", alpha)?;
    fleet.engage("beta", beta)?;
    put(&in_beta, "first", "while alpha is dead").await?;
    right(&in_beta, "first", "while alpha is dead").await?;
    let engaged = fleet.reaches("alpha", "Connecting").await?;
    assert!(engaged.status().reason.contains("cannot reach"));

    alpha.restart().await?;
    right(&in_alpha, "first", "one").await?;
    fleet.reaches("alpha", "Ready").await?;
    let counts = engaged.status().connections;
    assert_eq!((counts.http2.open, counts.http1.made), (1, 0));

    alpha.kill();
    fleet.reaches("alpha", "Degraded").await?;
    put(&in_beta, "first", "while alpha is killed").await?;
    right(&in_beta, "first", "while alpha is killed").await?;
    alpha.restart().await?;
    put(&in_alpha, "second", "after the restart").await?;
    right(&in_alpha, "second", "after the restart").await?;
    let again = fleet.reaches("alpha", "Ready").await?;
    assert!(Arc::ptr_eq(&engaged, &again), "the same cluster goes on");

    // The same once more is nothing, other credentials are exchanged, and a cluster that leaves is left alone.
    fleet.engage("alpha", alpha)?;
    fleet.provider.remove(&name("alpha"));
    wait("alpha to be gone", || {
        Seen::of(fleet.handle.fleet().clusters().len(), |n| *n == 1)
    })
    .await?;
    put(&in_alpha, "late", "nobody looks").await?;
    put(&in_beta, "last", "beta goes on").await?;
    right(&in_beta, "last", "beta goes on").await?;
    assert!(in_alpha.get_opt(&child_of("late")).await?.is_none());
    let overlaps = fleet.keeper.overlaps();
    assert!(overlaps.is_empty(), "{overlaps:?}");
    Ok(())
}

#[tokio::test]
async fn a_real_server_whose_token_is_exchanged_keeps_its_cluster_and_its_watches() -> Result<()> {
    if !testenv::enabled("a real server whose token is exchanged keeps its cluster") {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let alpha = environment.server("alpha");
    let in_alpha = maps(alpha.client().await?);
    let fleet = Fleet::start()?;
    // A token that nobody knows holds the cluster; the right one is taken up at once.
    let text = alpha.kubeconfig().replace(alpha.token(), "unknown");
    let config = ClusterConfig::from_kubeconfig_text(&text, None, None, Provenance::File)?;
    fleet.provider.put(ClusterSpec::new(name("alpha"), config));
    let before = fleet.reaches("alpha", "Connecting").await?;
    eventually(SOON, "the reason in the status", || async {
        Ok(Seen::of(before.status().reason, |now| {
            now.contains("nauthorized")
        }))
    })
    .await?;
    fleet.engage("alpha", alpha)?;
    put(&in_alpha, "first", "one").await?;
    right(&in_alpha, "first", "one").await?;
    let after = fleet.reaches("alpha", "Ready").await?;
    assert!(Arc::ptr_eq(&before, &after));
    let counts = after.status().connections;
    assert_eq!(counts.http2.open, 1, "{counts:?}");
    fleet.provider.names().first().context("still provided")?;
    Ok(())
}

#[tokio::test]
async fn a_real_server_restored_from_a_backup_is_found_and_its_caches_are_rebuilt() -> Result<()> {
    if !testenv::enabled("a real server restored from a backup is found") {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let alpha = environment.server("alpha");
    let in_alpha = maps(alpha.client().await?);
    let fleet = Fleet::start()?;
    fleet.engage("alpha", alpha)?;
    put(&in_alpha, "kept", "before").await?;
    right(&in_alpha, "kept", "before").await?;
    let snapshot = environment.snapshot().await?;
    for n in 0..50 {
        put(&in_alpha, "lost", &n.to_string()).await?;
    }
    put(&in_alpha, "kept", "after").await?;
    right(&in_alpha, "lost", "49").await?;
    right(&in_alpha, "kept", "after").await?;
    let engaged = fleet.reaches("alpha", "Ready").await?;
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
async fn a_real_cluster_whose_only_watch_is_forbidden_is_not_ready_until_it_is_granted()
-> Result<()> {
    if !testenv::enabled("a real cluster whose only watch is forbidden is not ready") {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let alpha = environment.server("alpha");
    let fleet = Fleet::start()?;
    let admin = maps(alpha.client().await?);
    put(&admin, "first", "one").await?;
    // A user that nobody has granted anything.
    let text = alpha
        .kubeconfig()
        .replace("token:", "as: nobody\n    token:");
    let config = ClusterConfig::from_kubeconfig_text(&text, None, None, Provenance::File)?;
    fleet.provider.put(ClusterSpec::new(name("alpha"), config));
    let engaged = fleet.reaches("alpha", "Degraded").await?;
    let reason = engaged.status().reason;
    assert!(
        reason.contains("v1/ConfigMap: forbidden") && reason.contains("nobody"),
        "{reason}"
    );
    let problems = fleet.handle.controllers().remove(0).problems;
    assert!(problems[0].contains("forbidden"), "{problems:?}");
    fleet.engage("alpha", alpha)?;
    fleet.reaches("alpha", "Ready").await?;
    right(&admin, "first", "one").await
}
