//! Server-side apply through the virtual workspace of an export, which kcp carries out as an update. Entry points: the tests.

use crate::ground::{Ground, on_both};
use crate::keeper::{config_map, widget_kind};
use crate::play::Play;
use crate::shop::{MAPS, Shop, WIDGETS};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use windlass_fleet::api::{ApiCode, ApiError, ApplyOptions, Json, PatchType, WriteOptions};
use windlass_fleet::cluster::Client;
use windlass_fleet::{GroupVersionKind, ObjectKey};
use windlass_harness::testenv::kcp::Workspace;

on_both! {
    an_apply_takes_away_what_it_leaves_out_and_nothing_else,
    an_apply_without_force_conflicts_with_others_and_not_with_itself,
    an_apply_that_changes_nothing_writes_nothing,
    an_apply_of_a_claimed_kind_and_of_a_status_takes_away_what_it_leaves_out,
}

/// A workspace that is engaged, and a client of it.
async fn consumer(shop: &Shop<'_>) -> Result<(Play, Workspace, Client)> {
    let play = shop.play()?;
    let consumer = shop.consumer("a").await?;
    play.engaged(&[&consumer]).await?;
    let client = play.client(&consumer).await?;
    Ok((play, consumer, client))
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "things.example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}, "spec": spec})
}

async fn apply(
    client: &Client,
    kind: &GroupVersionKind,
    object: &Value,
    options: &ApplyOptions,
) -> Result<Value, ApiError> {
    let applied = client
        .apply(kind, object.to_string().into(), options)
        .await?;
    Ok(serde_json::from_slice(&applied).expect("an object"))
}

/// Applies a widget, with force.
async fn force(client: &Client, spec: &Value) -> Result<Value> {
    let options = ApplyOptions {
        force: true,
        ..ApplyOptions::default()
    };
    Ok(apply(client, &widget_kind(), &widget(spec), &options).await?)
}

async fn an_apply_takes_away_what_it_leaves_out_and_nothing_else(ground: &Ground) -> Result<()> {
    let shop = Shop::open(ground, "applied").await?;
    let (play, consumer, client) = consumer(&shop).await?;
    force(&client, &json!({"colour": "red", "size": 1})).await?;
    // What it wrote without an apply, and what others wrote, is not the apply's.
    let held =
        json!({"metadata": {"finalizers": ["things.example.com/hold"], "labels": {"mine": "yes"}}});
    let held: Json = held.to_string().into();
    let key = ObjectKey::namespaced("default", "w");
    let options = WriteOptions::default();
    client
        .patch(&widget_kind(), &key, PatchType::Merge, held, &options)
        .await?;
    let path = consumer.at(&format!("{WIDGETS}/w"));
    let other = json!({"metadata": {"labels": {"other": "yes"}}});
    ground
        .client
        .patch(&path, "merge-patch", &other)
        .await?
        .ok()?;

    let less = force(&client, &json!({"colour": "red"})).await?;
    ensure!(less["spec"] == json!({"colour": "red"}), "{less}");
    let again = force(&client, &json!({"colour": "blue", "size": 2})).await?;
    ensure!(again["spec"]["size"] == 2, "{again}");
    let less = force(&client, &json!({"colour": "green"})).await?;
    ensure!(less["spec"] == json!({"colour": "green"}), "{less}");
    let metadata = &less["metadata"];
    ensure!(
        metadata["finalizers"] == json!(["things.example.com/hold"]),
        "{less}"
    );
    ensure!(
        metadata["labels"]["mine"] == "yes" && metadata["labels"]["other"] == "yes",
        "{less}"
    );
    play.end().await
}

async fn an_apply_without_force_conflicts_with_others_and_not_with_itself(
    ground: &Ground,
) -> Result<()> {
    let shop = Shop::open(ground, "conflicts").await?;
    let (play, consumer, client) = consumer(&shop).await?;
    let (kind, polite) = (widget_kind(), ApplyOptions::default());
    apply(&client, &kind, &widget(&json!({"colour": "red"})), &polite).await?;
    let changed = widget(&json!({"colour": "blue"}));
    let changed = apply(&client, &kind, &changed, &polite).await?;
    ensure!(changed["spec"]["colour"] == "blue", "{changed}");
    shop.put(&consumer, "w", "grey").await?;
    let refused = apply(&client, &kind, &widget(&json!({"colour": "red"})), &polite).await;
    let refused = refused.err().context("the consumer has the field")?;
    ensure!(refused.code == ApiCode::Conflict, "{refused}");
    let dry = ApplyOptions {
        dry_run: true,
        force: true,
        ..ApplyOptions::default()
    };
    let dry = apply(&client, &kind, &widget(&json!({"colour": "red"})), &dry).await?;
    ensure!(dry["spec"]["colour"] == "red", "{dry}");
    let path = consumer.at(&format!("{WIDGETS}/w"));
    let stays = ground.client.get(&path).await?.ok()?;
    ensure!(stays["spec"]["colour"] == "grey", "{stays}");
    play.end().await
}

/// Else a reconciler that applies in every run would never come to rest.
async fn an_apply_that_changes_nothing_writes_nothing(ground: &Ground) -> Result<()> {
    let shop = Shop::open(ground, "at-rest").await?;
    let (play, _, client) = consumer(&shop).await?;
    let spec = json!({"colour": "red", "size": 1});
    force(&client, &spec).await?;
    force(&client, &json!({"colour": "red"})).await?;
    force(&client, &spec).await?;
    // kcp notes the fields once more at the first apply that changes nothing.
    let settled = force(&client, &spec).await?;
    for options in [true, false] {
        let options = ApplyOptions {
            force: options,
            ..ApplyOptions::default()
        };
        // Without force it is an apply for good first, and then it stays.
        apply(&client, &widget_kind(), &widget(&spec), &options).await?;
        let before = apply(&client, &widget_kind(), &widget(&spec), &options).await?;
        let after = apply(&client, &widget_kind(), &widget(&spec), &options).await?;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        ensure!(
            version(&before) == version(&after),
            "{before} {after} {settled}"
        );
    }
    play.end().await
}

async fn an_apply_of_a_claimed_kind_and_of_a_status_takes_away_what_it_leaves_out(
    ground: &Ground,
) -> Result<()> {
    let shop = Shop::open(ground, "applied-too").await?;
    let (play, consumer, client) = consumer(&shop).await?;
    let options = ApplyOptions {
        force: true,
        ..ApplyOptions::default()
    };
    let map = |data: &Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "m", "namespace": "default"}, "data": data})
    };
    let full = map(&json!({"a": "1", "b": "2"}));
    apply(&client, &config_map(), &full, &options).await?;
    let less = map(&json!({"a": "1"}));
    apply(&client, &config_map(), &less, &options).await?;
    let stored = ground
        .client
        .get(&consumer.at(&format!("{MAPS}/m")))
        .await?;
    let stored = stored.ok()?;
    ensure!(stored["data"] == json!({"a": "1"}), "{stored}");
    // It is still the export's to see.
    apply(&client, &config_map(), &full, &options).await?;

    force(&client, &json!({"colour": "red"})).await?;
    let of_status = ApplyOptions {
        subresource: Some("status".into()),
        ..options
    };
    let status = |status: &Value| {
        json!({"apiVersion": "things.example.com/v1", "kind": "Widget",
            "metadata": {"name": "w", "namespace": "default"}, "status": status})
    };
    let full = status(&json!({"phase": "Done"}));
    apply(&client, &widget_kind(), &full, &of_status).await?;
    let less = status(&json!({}));
    let less = apply(&client, &widget_kind(), &less, &of_status).await?;
    ensure!(less["status"]["phase"].is_null(), "{less}");
    ensure!(less["spec"]["colour"] == "red", "{less}");
    play.end().await
}
