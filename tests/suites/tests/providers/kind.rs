//! Clusters of the real program `kind`, over a stand-in for its container runtime. Entry points: the tests.

use crate::stage::{EAST, Scene, WEST};
use anyhow::Result;
use std::sync::Arc;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::kind::{Kind, KindOptions};
use windlass_harness::testenv::kind::Kind as Machine;

fn provider(machine: &Machine) -> Vec<Arc<dyn Provider>> {
    let options = KindOptions {
        program: machine.program(),
        name_prefix: "fleet-".into(),
    };
    vec![Arc::new(Kind::new("kind", options))]
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn clusters_of_kind_come_and_go_and_a_damaged_one_hides_no_other() -> Result<()> {
    let scene = Scene::start("kind-come-and-go").await?;
    let machine = Machine::start()?;
    machine.put("fleet-a", scene.server(EAST))?;
    machine.put("other", scene.server(WEST))?;
    scene.animal(EAST, "parrot").await?;
    let play = scene.play(provider(&machine))?;
    play.engaged(&["fleet-a"]).await?;
    scene.fed(EAST, "parrot").await?;
    let stays = play.ready_soon("fleet-a").await?;

    machine.put_damaged("fleet-0")?;
    machine.put("fleet-b", scene.server(WEST))?;
    play.engaged(&["fleet-a", "fleet-b"]).await?;
    play.problem("fleet-0").await?;
    machine.delete("fleet-0")?;
    play.no_problem().await?;
    machine.delete("fleet-b")?;
    play.has(&["fleet-a"]).await?;
    assert!(play.is_still(&stays));
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_cluster_of_kind_that_is_made_anew_under_its_name_is_another_cluster() -> Result<()> {
    let scene = Scene::start("kind-made-anew").await?;
    let machine = Machine::start()?;
    machine.put("fleet-a", scene.server(EAST))?;
    scene.animal(WEST, "goat").await?;
    let play = scene.play(provider(&machine))?;
    let before = play.ready_soon("fleet-a").await?;
    machine.put("fleet-a", scene.server(WEST))?;
    scene.fed(WEST, "goat").await?;
    assert!(!play.is_still(&before));
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn without_its_runtime_kind_is_a_problem_its_clusters_stay_and_others_join_later()
-> Result<()> {
    let scene = Scene::start("kind-without-runtime").await?;
    let machine = Machine::start()?;
    machine.set_runtime(false)?;
    let play = scene.play(provider(&machine))?;
    play.problem("kind").await?;
    assert!(play.names().is_empty());
    machine.put("fleet-a", scene.server(EAST))?;
    machine.set_runtime(true)?;
    play.engaged(&["fleet-a"]).await?;
    play.no_problem().await?;

    let before = play.ready_soon("fleet-a").await?;
    machine.set_runtime(false)?;
    play.problem("kind").await?;
    assert!(play.is_still(&before));
    scene.animal(EAST, "parrot").await?;
    scene.fed(EAST, "parrot").await?;
    play.end().await
}
