//! A hub that is away, and comes back with changes missed. Entry point: the test.

use crate::secrets::{labelled, options, point};
use crate::stage::{DEPUTY, EAST, HUB, Scene, WEST};
use anyhow::{Context as _, Result};
use std::net::SocketAddr;
use std::sync::Arc;
use windlass_fleet::cluster::KubeconfigPolicy;
use windlass_fleet::provider::hub_source::HubSource;
use windlass_fleet::provider::kubeconfig_secrets::KubeconfigSecrets;
use windlass_harness::proxy::{Network, Proxy};

#[tokio::test]
async fn a_hub_that_was_away_is_caught_up_with_and_its_clusters_stay_meanwhile() -> Result<()> {
    let Some(scene) = Scene::start("hub-away").await? else {
        return Ok(());
    };
    for name in ["gone", "moves", "renewed", "stays"] {
        point(&scene, name, EAST).await?;
    }
    let url = scene.server(HUB).url();
    let target: SocketAddr = url.strip_prefix("https://").context("https")?.parse()?;
    let proxy = Proxy::start(target).await?;
    let behind = scene
        .server(HUB)
        .kubeconfig()
        .replace(&url, &format!("https://{}", proxy.address()));
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("hub.kubeconfig");
    std::fs::write(&path, behind)?;
    let mut options = options(&scene);
    options.from = HubSource::Kubeconfig {
        path,
        context: None,
        policy: KubeconfigPolicy::file(),
    };
    let play = scene.play(vec![Arc::new(KubeconfigSecrets::new("secrets", options))])?;
    let all = ["gone", "moves", "renewed", "stays"];
    play.engaged(&all).await?;
    let [gone, moves, renewed, stays] = [
        play.ready_soon("gone").await?,
        play.ready_soon("moves").await?,
        play.ready_soon("renewed").await?,
        play.ready_soon("stays").await?,
    ];

    proxy.set(Network::Refusing);
    proxy.reset();
    scene.delete(labelled("gone", "")).await?;
    point(&scene, "moves", WEST).await?;
    let text = scene.server(EAST).kubeconfig_of(DEPUTY);
    scene.put(labelled("renewed", &text)).await?;
    point(&scene, "new", WEST).await?;
    play.problem_that_holds("Secret").await?;
    // Nobody has left, and all of them are worked on.
    assert_eq!(play.names(), all);
    for one in [&gone, &moves, &renewed, &stays] {
        assert!(play.is_still(one));
    }
    scene.animal(EAST, "meanwhile").await?;
    scene.fed(EAST, "meanwhile").await?;

    proxy.set(Network::Well);
    play.engaged(&["moves", "new", "renewed", "stays"]).await?;
    crate::play::is_user(&renewed, DEPUTY).await?;
    assert!(play.is_still(&renewed) && play.is_still(&stays));
    scene.animal(WEST, "afterwards").await?;
    scene.fed(WEST, "afterwards").await?;
    play.no_problem().await?;
    play.end().await
}
