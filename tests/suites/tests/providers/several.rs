//! Providers of all sorts at once, under prefixes. Those that come and go while the manager runs stand in `engine::providers`. Entry
//! point: the test.

use crate::cluster_api::Capi;
use crate::profiles::Inventory;
use crate::secrets::{options, point};
use crate::stage::{EAST, Scene, WEST};
use anyhow::Result;
use std::sync::Arc;
use windlass_fleet::cluster::{ClusterConfig, ClusterState, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::cluster_api::ClusterApi;
use windlass_fleet::provider::cluster_profiles::ClusterProfiles;
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::provider::kubeconfig_secrets::KubeconfigSecrets;
use windlass_fleet::provider::prefixed::Prefixed;
use windlass_fleet::{ClusterName, ObjectKey, Request};

#[tokio::test]
#[ignore = "needs real servers"]
async fn one_controller_works_over_secrets_cluster_api_and_profiles_at_once() -> Result<()> {
    let scene = Scene::start("all-sorts").await?;
    point(&scene, "isle", EAST).await?;
    Capi::v1beta2(&scene).make("prod", WEST).await?;
    Inventory(&scene).make("prod", WEST).await?;
    let capi = ClusterApi::new("capi", crate::cluster_api::options(&scene));
    let profiles = ClusterProfiles::new("profiles", crate::profiles::by_secret(&scene)?);
    let prefixed = |prefix: &str, provider: Arc<dyn Provider>| -> Arc<dyn Provider> {
        Arc::new(Prefixed::new(prefix, provider))
    };
    let play = scene.play(vec![
        Arc::new(KubeconfigSecrets::new("secrets", options(&scene))),
        prefixed("capi", Arc::new(capi)),
        prefixed("inventory", Arc::new(profiles)),
    ])?;
    let all = ["capi#all-sorts/prod", "inventory#all-sorts/prod", "isle"];
    play.engaged(&all).await?;
    for server in [EAST, WEST] {
        scene.animal(server, "parrot").await?;
        scene.fed(server, "parrot").await?;
    }
    // What a component lists that is no controller follows engagement and never has one that is gone.
    let fleet = play.handle.fleet().clone();
    let listed = || -> Vec<String> {
        let clusters = fleet.clusters();
        let names = clusters.iter().map(|cluster| cluster.name().to_string());
        names.filter(|name| !name.is_empty()).collect()
    };
    assert_eq!(listed(), all);
    scene.delete(crate::secrets::labelled("isle", "")).await?;
    play.has(&all[..2]).await?;
    assert_eq!(listed(), all[..2]);
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_server_of_two_contexts_is_worked_on_once_and_by_the_other_when_one_is_gone() -> Result<()>
{
    let scene = Scene::start("same-server").await?;
    let clusters = Arc::new(Clusters::new("contexts"));
    let put = |name: &str, server: &str| -> Result<()> {
        let kubeconfig = scene.server(server).kubeconfig();
        let policy = KubeconfigPolicy::file();
        let config = ClusterConfig::from_kubeconfig_text(&kubeconfig, None, None, &policy)?;
        clusters.put(ClusterSpec::new(ClusterName::new(name)?, config));
        Ok(())
    };
    put("b", EAST)?;
    put("a", EAST)?;
    put("other", WEST)?;
    let play = scene.play_once(vec![clusters.clone()])?;
    play.reaches("b", ClusterState::Degraded).await?;
    play.ready_soon("a").await?;
    play.ready_soon("other").await?;
    scene.animal(EAST, "parrot").await?;
    scene.fed(EAST, "parrot").await?;
    let request = |cluster: &str| -> Result<Request> {
        let key = ObjectKey::namespaced(scene.name, "parrot");
        Ok(Request::new(ClusterName::new(cluster)?, key))
    };
    assert!(play.feeder.alike(&request("a")?).is_some());
    assert!(play.feeder.alike(&request("b")?).is_none());
    clusters.remove(&ClusterName::new("a")?);
    play.ready_soon("b").await?;
    scene.animal(EAST, "hedgehog").await?;
    scene.fed(EAST, "hedgehog").await?;
    play.end().await
}
