//! Real API servers behind a network that fails, killed, and with a past that is forgotten. Entry point: the test.

use crate::keeper::{Keeper, MARK, child_of};
use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::Manager;
use windlass_fleet::cluster::KubeconfigPolicy;
use windlass_fleet::controller::ControllerOptions;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::fleet::RunningManager;
use windlass_harness::proxy::{Network, Proxy};
use windlass_harness::testenv::{Environment, Server, Spec};

const SOON: Duration = Duration::from_secs(120);
/// Objects of each cluster that are kept right.
const OBJECTS: usize = 5;

/// A real server as a test sees it, past the proxy.
struct Real {
    maps: Api<ConfigMap>,
    wanted: BTreeMap<String, String>,
}

impl Real {
    async fn of(server: &Server) -> Result<Self> {
        Ok(Self {
            maps: Api::default_namespaced(server.client().await?),
            wanted: BTreeMap::new(),
        })
    }

    /// Gives every object a new value.
    async fn change(&mut self, value: &str) -> Result<()> {
        for n in 0..OBJECTS {
            let name = format!("o{n}");
            self.put(&name, value).await?;
        }
        Ok(())
    }

    async fn put(&mut self, name: &str, value: &str) -> Result<()> {
        let object = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some([(MARK.to_owned(), String::new())].into()),
                ..ObjectMeta::default()
            },
            data: Some([("value".to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        };
        let options = PatchParams::apply("test").force();
        self.maps
            .patch(name, &options, &Patch::Apply(&object))
            .await?;
        self.wanted.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    async fn delete(&mut self, name: &str) -> Result<()> {
        self.maps.delete(name, &DeleteParams::default()).await?;
        self.wanted.remove(name);
        Ok(())
    }

    /// Waits until every object has its child.
    async fn is_kept(&self, when: &str) -> Result<()> {
        eventually(SOON, &format!("what is desired {when}"), || async {
            let mut wrong = Vec::new();
            for (name, value) in &self.wanted {
                let child = self.maps.get_opt(&child_of(name)).await?;
                let data = child.and_then(|child| child.data).unwrap_or_default();
                if data.get("value") != Some(value) {
                    wrong.push(format!("{name} is {value}, its child {data:?}"));
                }
            }
            Ok(Seen::of(wrong, Vec::is_empty))
        })
        .await
        .map(drop)
    }
}

/// A server's kubeconfig, by way of a proxy.
async fn behind(server: &Server) -> Result<(Proxy, String)> {
    let url = server.url();
    let target: SocketAddr = url.strip_prefix("https://").context("not https")?.parse()?;
    let proxy = Proxy::start(target).await?;
    let by_proxy = server
        .kubeconfig()
        .replace(&url, &format!("https://{}", proxy.address()));
    Ok((proxy, by_proxy))
}

fn start(keeper: &Arc<Keeper>) -> Result<RunningManager> {
    let options = ControllerOptions {
        concurrency_per_cluster: 8,
        timeout: Duration::from_secs(10),
        ..Default::default()
    };
    RunningManager::start(Manager::builder().controller(keeper.controller(options)))
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn real_servers_that_are_cut_off_compacted_and_killed_are_caught_up_with() -> Result<()> {
    windlass_harness::logs::init();
    let environment = Environment::start([Spec::new("alpha"), Spec::new("beta")]).await?;
    let (server, other) = (environment.server("alpha"), environment.server("beta"));
    let (mut alpha, mut beta) = (Real::of(server).await?, Real::of(other).await?);
    let (proxy, by_proxy) = behind(server).await?;
    let keeper = Arc::new(Keeper::default());
    let manager = start(&keeper)?;
    manager.add_from("alpha", &by_proxy, &KubeconfigPolicy::file())?;
    manager.add_from("beta", &other.kubeconfig(), &KubeconfigPolicy::file())?;
    alpha.change("first").await?;
    beta.change("first").await?;
    alpha.is_kept("at first").await?;
    beta.is_kept("at first").await?;

    proxy.reset();
    alpha.change("reset").await?;
    alpha.is_kept("after connections were reset").await?;
    proxy.cut();
    alpha.change("cut").await?;
    alpha.is_kept("after connections were cut").await?;

    // Away while its past is forgotten and its server starts anew: the watch's version is too old.
    proxy.set(Network::Refusing);
    proxy.reset();
    alpha.change("unseen").await?;
    alpha.delete("o0").await?;
    beta.change("while alpha is away").await?;
    beta.is_kept("while alpha is away").await?;
    environment.compact().await?;
    server.restart().await?;
    proxy.set(Network::Well);
    alpha.is_kept("after a compaction").await?;

    server.kill();
    beta.change("while alpha is dead").await?;
    beta.is_kept("while alpha is dead").await?;
    server.restart().await?;
    alpha.put("o0", "made again").await?;
    alpha.change("after the kill").await?;
    alpha.is_kept("after a kill").await?;

    eventually(SOON, "nothing left to do", || async {
        Ok(Seen::of(manager.handle.idle().await.busy, Vec::is_empty))
    })
    .await?;
    assert_eq!(keeper.overlaps(), []);
    Ok(())
}
