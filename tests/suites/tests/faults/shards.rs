//! Processes that share a fleet by Leases of a real API server. The simulation shows what happens when things go wrong; here a server judges the
//! calls.

use crate::keeper::{Keeper, child_of, source};
use anyhow::{Context as _, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::cluster::{ClusterConfig, KubeconfigPolicy, NamespaceScope, Scope};
use windlass_fleet::election::Timing;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::shard::{ShardStatus, Sharding};
use windlass_fleet::{ClusterName, Manager};
use windlass_harness::eventually;
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{RunningManager, name};
use windlass_harness::testenv::{Environment, Spec};

/// A real server takes some seconds to answer on a loaded machine.
const SOON: Duration = Duration::from_secs(90);

/// Short times, which tests can wait for.
const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(8),
    renew_deadline: Duration::from_secs(6),
    retry_period: Duration::from_millis(500),
};

/// Namespaces that are clusters.
const CLUSTERS: usize = 12;

/// The server that all processes share.
struct Stage {
    local: ClusterConfig,
    client: Client,
    keeper: Arc<Keeper>,
    clusters: Vec<(String, NamespaceScope)>,
}

impl Stage {
    async fn new(environment: &Environment) -> Result<Self> {
        let server = environment.server("real");
        let client = server.client().await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let mut clusters = Vec::new();
        for n in 0..CLUSTERS {
            let name = format!("part-{n}");
            let wanted = Namespace {
                metadata: ObjectMeta {
                    name: Some(name.clone()),
                    ..ObjectMeta::default()
                },
                ..Namespace::default()
            };
            let made = namespaces.create(&PostParams::default(), &wanted).await?;
            let uid = made.metadata.uid.context("a uid")?;
            let scope = NamespaceScope {
                name: name.as_str().into(),
                uid: uid.into(),
            };
            clusters.push((name, scope));
        }
        let kubeconfig = server.kubeconfig();
        let policy = KubeconfigPolicy::file();
        Ok(Self {
            local: ClusterConfig::from_kubeconfig_text(&kubeconfig, Some("real"), None, &policy)?,
            client,
            keeper: Arc::default(),
            clusters,
        })
    }

    fn join(&self, member: &str) -> Result<RunningManager> {
        let mut sharding = Sharding::new("default", "fleet");
        sharding.member = member.into();
        sharding.timing = TIMING;
        let local = ClusterSpec::new(ClusterName::local(), self.local.clone());
        let builder = Manager::builder()
            .local(local)
            .sharding(sharding)
            .controller(self.keeper.controller(Default::default()));
        let manager = RunningManager::start(builder)?;
        for (cluster, scope) in &self.clusters {
            manager.provider.put(ClusterSpec {
                scope: Scope::Namespace(scope.clone()),
                ..ClusterSpec::new(name(cluster), self.local.clone())
            });
        }
        Ok(manager)
    }

    /// Every shard is one member's, and every member has some.
    async fn settled(&self, members: &[&RunningManager]) -> Result<()> {
        wait("every member to hold its part of the shards", || {
            let states = members.iter().map(|member| member.handle.shards());
            let states: Vec<ShardStatus> = states.flatten().collect();
            let held: u32 = states.iter().map(|state| state.held).sum();
            let whole = states
                .iter()
                .all(|state| state.held > 0 && state.ownerless == 0 && state.problem.is_none());
            if whole && held == 256 {
                Seen::Yes(())
            } else {
                Seen::NotYet(format!("{states:#?}"))
            }
        })
        .await
    }

    /// Changes an object in every cluster, and waits until its child has followed.
    async fn works(&self, value: &str) -> Result<()> {
        for (cluster, _) in &self.clusters {
            let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), cluster);
            let mut wanted = source("o", &json!({ "value": value }));
            wanted["metadata"]["namespace"] = cluster.as_str().into();
            let params = PatchParams::apply("test").force();
            maps.patch("o", &params, &Patch::Apply(&wanted)).await?;
        }
        for (cluster, _) in &self.clusters {
            let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), cluster);
            let what = format!("the child in {cluster} to be {value}");
            eventually(SOON, &what, || async {
                let child = maps.get_opt(&child_of("o")).await?;
                let has = child.and_then(|child| child.data?.get("value").cloned());
                Ok(Seen::of(has, |has| has.as_deref() == Some(value)))
            })
            .await?;
        }
        Ok(())
    }

    /// How many Leases there are of the sharding: one per member, and the assignment.
    async fn leases(&self) -> Result<usize> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "default");
        let labelled = ListParams::default().labels("windlass.dev/sharding=fleet");
        Ok(leases.list(&labelled).await?.items.len())
    }
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn processes_share_the_clusters_of_a_real_server_and_hand_them_over() -> Result<()> {
    windlass_harness::logs::init();
    let environment = Environment::start([Spec::new("real")]).await?;
    let stage = Stage::new(&environment).await?;
    let (one, two) = (stage.join("one")?, stage.join("two")?);
    stage.settled(&[&one, &two]).await?;
    stage.works("of two").await?;
    let three = stage.join("three")?;
    stage.settled(&[&one, &two, &three]).await?;
    stage.works("of three").await?;
    assert_eq!(stage.leases().await?, 4);
    one.stop().await?;
    stage.settled(&[&two, &three]).await?;
    stage.works("of two again").await?;
    assert_eq!(stage.leases().await?, 3, "who leaves removes its Lease");
    two.stop().await?;
    three.stop().await?;
    assert_eq!(stage.leases().await?, 1);
    assert_eq!(stage.keeper.overlaps(), []);
    Ok(())
}
