//! A real kcp that is killed and started again under load. Entry points: the tests.

use crate::ground::Ground;
use crate::play::Play;
use crate::shop::{MAPS, Shop, WIDGETS};
use anyhow::{Context as _, Result};
use futures::future::join_all;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_harness::testenv::Kcp;
use windlass_harness::testenv::kcp::Workspace;

const CONSUMERS: usize = 4;
const WIDGETS_EACH: usize = 5;
/// How often it is killed.
const KILLS: usize = 2;
/// How often all widgets are changed between two kills, at least.
const ROUNDS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs real servers"]
async fn a_kcp_that_is_killed_under_load_costs_no_key_and_no_cluster() -> Result<()> {
    let kcp = Arc::new(Kcp::start(&[]).await?);
    let ground = Ground::of(kcp.clone()).await?;
    let shop = Shop::open(&ground, "killed").await?;
    let play = shop.play()?;
    let mut consumers = Vec::new();
    for n in 0..CONSUMERS {
        consumers.push(shop.consumer(&n.to_string()).await?);
    }
    let all: Vec<&Workspace> = consumers.iter().collect();
    play.engaged(&all).await?;
    let before: Vec<_> = all
        .iter()
        .map(|one| play.engaged_now(one))
        .collect::<Result<_>>()?;

    let rounds = AtomicUsize::new(0);
    let load = async {
        let wanted = ROUNDS * (KILLS + 1);
        eventually(2 * DEADLINE, "the load to end", || async {
            let round = rounds.load(Ordering::Relaxed);
            let writes = all.iter().flat_map(|consumer| {
                let shop = &shop;
                (0..WIDGETS_EACH).map(move |n| {
                    let colour = format!("round-{round}");
                    async move { shop.put(consumer, &format!("w-{n}"), &colour).await }
                })
            });
            // While kcp is away, all of them fail.
            for written in join_all(writes).await {
                written?;
            }
            let done = rounds.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(Seen::of(done, |done| *done >= wanted))
        })
        .await
    };
    let kills = async {
        for kill in 1..=KILLS {
            let wanted = kill * ROUNDS;
            eventually(DEADLINE, "the next kill", || async {
                Ok(Seen::of(rounds.load(Ordering::Relaxed), |n| *n >= wanted))
            })
            .await?;
            kcp.restart().await?;
        }
        anyhow::Ok(())
    };
    let (loaded, killed) = tokio::join!(load, kills);
    loaded?;
    killed?;

    eventually(DEADLINE, "every child to be as its widget", || async {
        let mut wrong = Vec::new();
        for consumer in &all {
            wrong.extend(wrong_in(&ground, consumer).await?);
        }
        Ok(Seen::of(wrong, Vec::is_empty))
    })
    .await?;
    settles_with(&play, &all, &before).await?;
    play.end().await
}

/// Waits until nothing is left to do, and holds that the clusters are those that they were.
async fn settles_with(
    play: &Play,
    all: &[&Workspace],
    before: &[Arc<windlass_fleet::Cluster>],
) -> Result<()> {
    play.settles().await?;
    play.engaged(all).await?;
    for (consumer, before) in all.iter().zip(before) {
        let now = play.engaged_now(consumer)?;
        anyhow::ensure!(
            Arc::ptr_eq(&now, before),
            "{} was engaged again",
            consumer.path
        );
    }
    Ok(())
}

/// Widgets of a workspace whose child is not as they want it.
async fn wrong_in(ground: &Ground, consumer: &Workspace) -> Result<Vec<String>> {
    let widgets = by_name(ground, &consumer.at(WIDGETS), "spec").await?;
    let children = by_name(ground, &consumer.at(MAPS), "data").await?;
    anyhow::ensure!(widgets.len() == WIDGETS_EACH, "a widget is missing");
    let wrong = widgets.iter().filter(|(name, colour)| {
        let child = children.get(&format!("{name}-out"));
        child != Some(colour)
    });
    let path = &consumer.path;
    Ok(wrong
        .map(|(name, colour)| format!("{path} {name} {colour}"))
        .collect())
}

/// The colours of the objects in a list, which are in this field.
async fn by_name(ground: &Ground, path: &str, field: &str) -> Result<BTreeMap<String, Value>> {
    let list = ground.client.get(path).await?.ok()?;
    let items = list["items"].as_array().context("a list")?;
    let one = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        (name.to_owned(), object[field]["colour"].clone())
    };
    Ok(items.iter().map(one).collect())
}
