//! Bindings that are not ready, are several, and go. Entry points: the tests.

use crate::ground::{Ground, on_both};
use crate::keeper::widget_kind;
use crate::shop::{BINDINGS, SLICES, Shop, WIDGETS, play_in, widget};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_fleet::ObjectKey;
use windlass_fleet::api::{PatchType, WriteOptions};
use windlass_fleet::manager::KeyFilter;
use windlass_fleet::provider::kcp::Workspaces;
use windlass_harness::eventually::{DEADLINE, Seen, eventually, wait};

/// How often a binding is made and removed.
const ROUNDS: usize = 5;

on_both! {
    a_workspace_is_engaged_once_its_binding_is_ready,
    a_workspace_stays_until_its_last_binding_is_gone,
    a_workspace_stays_until_finalizers_are_gone_and_late_deletions_fail_nothing,
    a_slice_that_is_deleted_takes_every_workspace_with_it,
    a_binding_that_is_made_and_removed_again_and_again_leaves_nothing_behind,
}

async fn a_workspace_is_engaged_once_its_binding_is_ready(ground: &Ground) -> Result<()> {
    let shop = Shop::open(ground, "ready").await?;
    let rival = Shop::open(ground, "ready-rival").await?;
    let play = shop.play()?;
    // The kinds of another export are in the way.
    let a = shop.stranger("a").await?;
    rival.bind(&a).await?;
    shop.bind_as(&a, "mine").await?;
    let path = a.at(&format!("{BINDINGS}/mine"));
    let conflict = |binding: &Value| binding.to_string().contains("NamingConflicts");
    ground.client.until("a conflict", &path, conflict).await?;
    let b = shop.consumer("b").await?;
    play.engaged(&[&b]).await?;
    ground.client.unbind(&a, "things").await?;
    play.engaged(&[&a, &b]).await?;
    shop.put(&b, "w", "red").await?;
    shop.kept(&b, "w", "red").await?;
    play.end().await
}

async fn a_workspace_stays_until_its_last_binding_is_gone(ground: &Ground) -> Result<()> {
    let shop = Shop::open(ground, "last").await?;
    let play = shop.play()?;
    let a = shop.consumer("a").await?;
    play.engaged(&[&a]).await?;
    let before = play.ready(&a.cluster).await?;
    shop.bind_as(&a, "again").await?;
    wait("both bindings to be known", || {
        let binding = before
            .properties()
            .get("binding")
            .unwrap_or_default()
            .to_owned();
        Seen::of(binding, |names| names == "again,things")
    })
    .await?;
    // The second one takes over, and the workspace has been engaged all the time.
    ground.client.unbind(&a, "things").await?;
    wait("one binding to be left", || {
        let binding = before
            .properties()
            .get("binding")
            .unwrap_or_default()
            .to_owned();
        Seen::of(binding, |names| names == "again")
    })
    .await?;
    let now = play.engaged_now(&a)?;
    ensure!(Arc::ptr_eq(&now, &before), "it is another cluster");
    ground.client.unbind(&a, "again").await?;
    play.engaged(&[]).await?;
    play.end().await
}

async fn a_workspace_stays_until_finalizers_are_gone_and_late_deletions_fail_nothing(
    ground: &Ground,
) -> Result<()> {
    let shop = Shop::open(ground, "finalizers").await?;
    let play = shop.play()?;
    let (a, b) = (shop.consumer("a").await?, shop.consumer("b").await?);
    play.engaged(&[&a, &b]).await?;
    let mut held = widget("held", "red");
    held["metadata"]["finalizers"] = json!(["things.example.com/hold"]);
    ground.client.post(&a.at(WIDGETS), &held).await?.ok()?;
    for n in 0..20 {
        shop.put(&a, &format!("free-{n}"), "red").await?;
    }
    shop.kept(&a, "held", "red").await?;

    let binding = a.at(&format!("{BINDINGS}/things"));
    ground.client.delete(&binding).await?.ok()?;
    let widgets = a.at(WIDGETS);
    let only_held = |list: &Value| list["items"].as_array().is_some_and(|all| all.len() == 1);
    ground
        .client
        .until("only the held widget to be left", &widgets, only_held)
        .await?;
    let client = play.client(&a).await?;
    let freed = json!({"metadata": {"finalizers": null}}).to_string();
    let key = ObjectKey::namespaced("default", "held");
    client
        .patch(
            &widget_kind(),
            &key,
            PatchType::Merge,
            freed.into(),
            &WriteOptions::default(),
        )
        .await?;
    play.engaged(&[&b]).await?;
    play.settles().await?;
    let keys = play.handle.keys(&KeyFilter::default());
    let of_a =
        |key: &windlass_fleet::manager::KeyStatus| key.queued.request.cluster.as_str() == a.cluster;
    ensure!(
        !keys.iter().any(of_a),
        "keys of a workspace that is gone: {keys:?}"
    );
    shop.put(&b, "w", "red").await?;
    shop.kept(&b, "w", "red").await?;
    play.end().await
}

async fn a_slice_that_is_deleted_takes_every_workspace_with_it(ground: &Ground) -> Result<()> {
    let shop = Shop::open(ground, "slice-gone").await?;
    let far = shop.stranger("far").await?;
    let slice = "far";
    shop.slice(&far, slice).await?;
    let local = ground.config(&far.path)?;
    let play = play_in(local, Workspaces::EndpointSlice(slice.into()))?;
    let (a, b) = (shop.consumer("a").await?, shop.consumer("b").await?);
    play.engaged(&[&a, &b]).await?;
    let path = far.at(&format!("{SLICES}/{slice}"));
    ground.client.delete(&path).await?.ok()?;
    play.engaged(&[]).await?;
    play.problem("no APIExportEndpointSlice \"far\" there")
        .await?;
    shop.slice(&far, slice).await?;
    play.engaged(&[&a, &b]).await?;
    shop.put(&a, "w", "red").await?;
    shop.kept(&a, "w", "red").await?;
    play.end().await
}

/// The endpoint comes and goes with the only consumer.
async fn a_binding_that_is_made_and_removed_again_and_again_leaves_nothing_behind(
    ground: &Ground,
) -> Result<()> {
    let shop = Shop::open(ground, "again").await?;
    let play = shop.play()?;
    let a = shop.stranger("a").await?;
    for round in 0..ROUNDS {
        let name = format!("round-{round}");
        shop.bind(&a).await?;
        play.engaged(&[&a]).await?;
        shop.put(&a, &name, "red").await?;
        shop.kept(&a, &name, "red").await?;
        ground.client.unbind(&a, "things").await?;
        play.engaged(&[]).await?;
    }
    play.settles().await?;
    let keys = play.handle.keys(&KeyFilter::default());
    ensure!(
        keys.is_empty(),
        "keys of a workspace that is gone: {keys:?}"
    );
    eventually(DEADLINE, "the endpoint to be gone", || async {
        let metrics = play.metrics()?;
        let of_endpoint =
            |line: &&str| line.contains("/services/apiexport/") || line.contains(&a.cluster);
        let left: Vec<String> = metrics
            .lines()
            .filter(of_endpoint)
            .map(str::to_owned)
            .collect();
        Ok(Seen::of(left, Vec::is_empty))
    })
    .await?;
    play.end().await
}
