//! Many workspaces behind one endpoint. Entry points: the tests.

use crate::ground::{Ground, on_both};
use crate::shop::Shop;
use anyhow::{Context as _, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};

const WORKSPACES: usize = 50;
/// Workspaces that are made at once.
const AT_ONCE: usize = 8;

on_both! {
    fifty_workspaces_share_one_list_and_one_watch_for_each_kind,
}

async fn fifty_workspaces_share_one_list_and_one_watch_for_each_kind(
    ground: &Ground,
) -> Result<()> {
    let shop = Shop::open(ground, "crowd").await?;
    let play = shop.play()?;
    let shop = &shop;
    let consumers: Vec<_> = stream::iter(0..WORKSPACES)
        .map(|n| async move {
            let consumer = shop.consumer(&n.to_string()).await?;
            shop.put(&consumer, "w", &format!("colour-{n}")).await?;
            anyhow::Ok((consumer, n))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let all: Vec<_> = consumers.iter().map(|(consumer, _)| consumer).collect();
    play.engaged(&all).await?;
    for (consumer, n) in &consumers {
        shop.kept(consumer, "w", &format!("colour-{n}")).await?;
    }

    // A request to read for each workspace would make at least so many more.
    let reads = reads(&play.metrics()?)?;
    ensure!(
        reads < WORKSPACES,
        "{reads} reads of {WORKSPACES} workspaces"
    );
    for consumer in &all {
        let status = play.engaged_now(consumer)?.status();
        let counts = status.connections;
        // A kcp in memory has no TLS, and so no HTTP/2.
        ensure!(counts.http2.open <= 1, "{counts:?}");
    }
    play.settles().await?;
    play.end().await
}

/// Discovery, lists and watches that the endpoint of a provider has answered.
fn reads(metrics: &str) -> Result<usize> {
    let of_endpoint = metrics.lines().filter(|line| {
        line.starts_with("rest_client_requests_total{")
            && line.contains("method=\"GET\"")
            // Before an apply the host looks for the object, which is not there.
            && line.contains("code=\"200\"")
            && line.contains("cluster=\"hub:workspaces\"")
    });
    let counts = of_endpoint.map(|line| {
        let (_, count) = line.rsplit_once(' ').context("a count")?;
        Ok(count.parse::<usize>()?)
    });
    let reads: usize = counts.sum::<Result<usize>>()?;
    ensure!(reads > 0, "no reads in {metrics}");
    Ok(reads)
}
