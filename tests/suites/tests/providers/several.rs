//! Several providers at once, under prefixes, added and removed while the manager runs. Entry points: the tests.

use crate::cluster_api::Capi;
use crate::profiles::Inventory;
use crate::secrets::{options, point};
use crate::stage::{EAST, Scene, WEST};
use anyhow::Result;
use std::sync::Arc;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::cluster_api::ClusterApi;
use windlass_fleet::provider::cluster_profiles::ClusterProfiles;
use windlass_fleet::provider::kubeconfig_secrets::KubeconfigSecrets;
use windlass_fleet::provider::prefixed::Prefixed;
use windlass_fleet::{ObjectKey, Request};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::name;

/// The Secrets of a test that are labelled for a provider, under its prefix.
fn prefixed(scene: &Scene, prefix: &str) -> Result<Arc<dyn Provider>> {
    let secrets = KubeconfigSecrets::new(prefix, options(scene));
    Ok(Arc::new(Prefixed::new(prefix, Arc::new(secrets))))
}

#[tokio::test]
async fn equal_names_of_two_providers_live_side_by_side_under_prefixes() -> Result<()> {
    let Some(scene) = Scene::start("two-providers").await? else {
        return Ok(());
    };
    point(&scene, "island", EAST).await?;
    scene.animal(EAST, "parrot").await?;
    let play = scene.play(vec![prefixed(&scene, "cloud1")?])?;
    play.engaged(&["cloud1#island"]).await?;
    // The second one is added while the manager runs. It knows the index that was declared before it came.
    play.handle.put_provider(prefixed(&scene, "cloud2")?)?;
    play.engaged(&["cloud1#island", "cloud2#island"]).await?;
    scene.fed(EAST, "parrot").await?;
    for cluster in ["cloud1#island", "cloud2#island"] {
        let key = ObjectKey::namespaced(scene.name, "parrot");
        let request = Request::new(name(cluster), key);
        wait("one object of the species", || {
            Seen::of(play.feeder.alike(&request), |alike| *alike == Some(1))
        })
        .await?;
    }
    let stays = play.ready_soon("cloud1#island").await?;
    assert!(play.handle.remove_provider("cloud2"));
    assert_eq!(play.names(), ["cloud1#island"], "at once");
    assert!(play.is_still(&stays));
    scene.animal(EAST, "goat").await?;
    scene.fed(EAST, "goat").await?;
    play.end().await
}

#[tokio::test]
async fn a_name_that_two_providers_know_is_the_first_ones_and_the_other_is_told_the_remedy()
-> Result<()> {
    let Some(scene) = Scene::start("one-name-of-two").await? else {
        return Ok(());
    };
    point(&scene, "island", EAST).await?;
    let first = KubeconfigSecrets::new("first", options(&scene));
    let play = scene.play(vec![Arc::new(first)])?;
    let engaged = play.ready_soon("island").await?;
    let second = KubeconfigSecrets::new("second", options(&scene));
    play.handle.put_provider(Arc::new(second))?;
    let message = play.problem("island").await?;
    assert!(
        message.contains("provided by first") && message.contains("rename"),
        "{message}"
    );
    assert!(play.is_still(&engaged));
    // Once the first one is gone, the name is the other's.
    assert!(play.handle.remove_provider("first"));
    play.engaged(&["island"]).await?;
    play.no_problem().await?;
    assert!(!play.is_still(&engaged));
    scene.animal(EAST, "parrot").await?;
    scene.fed(EAST, "parrot").await?;
    play.end().await
}

#[tokio::test]
async fn one_controller_works_over_secrets_cluster_api_and_profiles_at_once() -> Result<()> {
    let Some(scene) = Scene::start("all-sorts").await? else {
        return Ok(());
    };
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
