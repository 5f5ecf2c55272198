//! A hub that is away, and comes back with changes missed. Entry points: the tests.

use crate::play::marked;
use crate::secrets::{labelled, options, point};
use crate::stage::{DEPUTY, EAST, HUB, Scene, WEST, delete, put};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tempfile::TempDir;
use windlass_fleet::cluster::KubeconfigPolicy;
use windlass_fleet::provider::hub_source::HubSource;
use windlass_fleet::provider::kubeconfig_secrets::KubeconfigSecrets;
use windlass_fleet::provider::namespaces::{Namespaces, NamespacesOptions};
use windlass_harness::proxy::{Network, Proxy};

/// The hub behind a network that can fail, with the folder of its kubeconfig.
async fn behind_a_network(scene: &Scene) -> Result<(Proxy, TempDir, HubSource)> {
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
    let from = HubSource::Kubeconfig {
        path,
        context: None,
        policy: KubeconfigPolicy::file(),
    };
    Ok((proxy, folder, from))
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_hub_that_was_away_is_caught_up_with_and_its_clusters_stay_meanwhile() -> Result<()> {
    let scene = Scene::start("hub-away").await?;
    for name in ["gone", "moves", "renewed", "stays"] {
        point(&scene, name, EAST).await?;
    }
    let mut options = options(&scene);
    let (proxy, _folder, from) = behind_a_network(&scene).await?;
    options.from = from;
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

/// A namespace of a test, which is a cluster if it is labelled.
fn namespace(name: &str, is_cluster: bool) -> Value {
    let labels = if is_cluster {
        json!({"away": "yes"})
    } else {
        json!({})
    };
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn namespaces_of_a_server_that_was_away_stay_and_its_changes_are_caught_up_with() -> Result<()>
{
    let scene = Scene::start("namespaces-away").await?;
    let hub = scene.client(HUB);
    let [gone, new, other, stays] = ["away-gone", "away-new", "away-other", "away-stays"];
    for name in [gone, other, stays] {
        put(hub, &namespace(name, true)).await?;
    }
    let (proxy, _folder, from) = behind_a_network(&scene).await?;
    let options = NamespacesOptions {
        from,
        label_selector: "away".parse()?,
        ..NamespacesOptions::default()
    };
    let play = scene.play(vec![Arc::new(Namespaces::new("spaces", options))])?;
    play.engaged(&[gone, other, stays]).await?;
    let kept = play.ready_soon(stays).await?;
    put(hub, &marked(scene.name, stays, "before")).await?;
    scene.fed_in(HUB, stays, "before").await?;

    proxy.set(Network::Refusing);
    proxy.reset();
    delete(hub, &namespace(gone, true)).await?;
    put(hub, &namespace(other, false)).await?;
    put(hub, &namespace(new, true)).await?;
    for name in [new, stays] {
        put(hub, &marked(scene.name, name, "meanwhile")).await?;
    }
    play.problem_that_holds("Namespace").await?;
    assert_eq!(play.names(), [gone, other, stays], "nobody has left");
    assert!(play.is_still(&kept));

    proxy.set(Network::Well);
    play.engaged(&[new, stays]).await?;
    for name in [new, stays] {
        scene.fed_in(HUB, name, "meanwhile").await?;
    }
    assert!(play.is_still(&kept), "undisturbed");
    play.no_problem().await?;
    play.end().await
}
