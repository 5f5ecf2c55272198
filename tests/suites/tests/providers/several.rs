//! Several providers at once, under prefixes, added and removed while the manager runs. Entry points: the tests.

use crate::secrets::{options, point};
use crate::stage::{EAST, Scene};
use anyhow::Result;
use std::sync::Arc;
use windlass_fleet::provider::Provider;
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
