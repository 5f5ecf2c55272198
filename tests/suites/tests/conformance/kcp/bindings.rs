//! Endpoints and bindings that come and go.

use anyhow::{Result, ensure};
use serde_json::json;
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_harness::testenv::kcp::Client;

use super::shop::{
    ALL_WIDGETS, BINDINGS, DENIED, SLICES, Shop, WIDGETS, condition, event, members, names_in,
    refused, version_of, widget,
};

pub(super) async fn an_endpoint_comes_with_the_first_consumer_and_goes_with_the_last(
    client: &Client,
) -> Result<()> {
    let shop = Shop::open(client, "endpoints").await?;
    let slice = shop.provider.at(&format!("{SLICES}/things"));
    let ready = |slice: &serde_json::Value| condition(slice, "APIExportValid", "True");
    client.until("the slice", &slice, ready).await?;
    ensure!(client.endpoints(&shop.provider, "things").await?.is_empty());
    // The virtual workspace is served all the same, but nobody has widgets.
    shop.answers(&shop.all(BINDINGS), 200).await?;
    refused(&client.get(&shop.all(ALL_WIDGETS)).await?, 404, "NotFound")?;

    let one = shop.stranger("one").await?;
    refused(&client.get(&shop.of(&one, ALL_WIDGETS)).await?, 403, DENIED)?;
    shop.bind(&one, true).await?;
    let endpoint = client.endpoint(&shop.provider, "things").await?;
    ensure!(endpoint == shop.window(), "{endpoint}");

    client.unbind(&one, "things").await?;
    gone(&shop, "things").await?;
    shop.answers(&shop.all(ALL_WIDGETS), 404).await?;
    shop.answers(&shop.of(&one, ALL_WIDGETS), 403).await?;
    let left = shop.read(&shop.all(BINDINGS)).await?;
    ensure!(members(&left).is_empty(), "{left}");
    Ok(())
}

/// Waits until a slice has no endpoints.
async fn gone(shop: &Shop<'_>, slice: &str) -> Result<()> {
    eventually(DEADLINE, "no endpoints", || async {
        let urls = shop.client.endpoints(&shop.provider, slice).await?;
        Ok(Seen::of(urls, Vec::is_empty))
    })
    .await
    .map(drop)
}

pub(super) async fn a_binding_waits_for_finalizers(client: &Client) -> Result<()> {
    let (shop, one, _) = Shop::with_two(client, "unbinding").await?;
    shop.put(&one, "free").await?;
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(&shop.of(&one, WIDGETS), &held).await?.ok()?;
    let widgets = shop.all(ALL_WIDGETS);
    let before = version_of(&shop.read(&widgets).await?)?;

    let binding = one.at(&format!("{BINDINGS}/things"));
    client.delete(&binding).await?.ok()?;
    client
        .until("the free widget to go", &widgets, |list| {
            names_in(list, &one) == ["held"]
        })
        .await?;
    let waits = client
        .until("the binding to wait", &binding, |binding| {
            condition(binding, "BindingResourceDeleteSuccess", "False")
        })
        .await?;
    ensure!(
        waits["metadata"]["deletionTimestamp"].is_string(),
        "{waits}"
    );
    ensure!(condition(&waits, "Ready", "True"), "{waits}");
    let late = client
        .post(&shop.of(&one, WIDGETS), &widget("late"))
        .await?;
    ensure!(late.code == 403, "{}", late.text);

    let held = shop.of(&one, &format!("{WIDGETS}/held"));
    shop.patch(&held, &json!({"metadata": {"finalizers": null}}))
        .await?;
    shop.answers(&binding, 404).await?;
    shop.answers(&shop.of(&one, ALL_WIDGETS), 403).await?;
    let events = shop
        .watch(&widgets, &format!("&resourceVersion={before}"))
        .await?;
    for expected in [
        event("DELETED", &one, "free"),
        event("MODIFIED", &one, "held"),
        event("DELETED", &one, "held"),
    ] {
        ensure!(events.contains(&expected), "{expected:?} in {events:?}");
    }
    Ok(())
}

pub(super) async fn a_second_binding_of_an_export_is_never_ready(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "twice").await?;
    let one = shop.consumer("one", true).await?;
    let again = json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "again"},
        "spec": {"reference": {"export": {"path": shop.provider.path, "name": "things"}}}});
    client.make(&one.at(BINDINGS), &again).await?;
    let path = one.at(&format!("{BINDINGS}/again"));
    client
        .until("a conflict", &path, |binding| {
            condition(binding, "Ready", "False") && binding.to_string().contains("NamingConflicts")
        })
        .await?;
    let bindings = shop.read(&shop.all(BINDINGS)).await?;
    ensure!(
        names_in(&bindings, &one) == ["again", "things"],
        "{bindings}"
    );
    client.unbind(&one, "again").await?;
    // The authorizer of a real kcp takes a moment to see that there is one binding again.
    shop.answers(&shop.of(&one, WIDGETS), 200).await?;
    shop.put(&one, "a").await.map(drop)
}

pub(super) async fn the_binding_of_a_deleted_workspace_goes(client: &Client) -> Result<()> {
    let (shop, one, _) = Shop::with_two(client, "closing").await?;
    shop.put(&one, "a").await?;
    let bindings = shop.all(BINDINGS);
    let before = version_of(&shop.read(&bindings).await?)?;
    client.end("root", "closing-one").await?;
    client
        .until("the binding to go", &bindings, |list| {
            names_in(list, &one).is_empty()
        })
        .await?;
    let events = shop
        .watch(&bindings, &format!("&resourceVersion={before}"))
        .await?;
    ensure!(
        events.contains(&event("DELETED", &one, "things")),
        "{events:?}"
    );
    shop.answers(&shop.of(&one, ALL_WIDGETS), 403).await?;
    let left = shop.read(&shop.all(ALL_WIDGETS)).await?;
    ensure!(names_in(&left, &one).is_empty(), "{left}");
    Ok(())
}

pub(super) async fn a_slice_may_lie_in_another_workspace(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "slices").await?;
    let one = shop.consumer("one", true).await?;
    let slice = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": "far"},
        "spec": {"export": {"path": shop.provider.path, "name": "things"}}});
    client.make(&one.at(SLICES), &slice).await?;
    let endpoint = client.endpoint(&one, "far").await?;
    ensure!(endpoint == shop.window(), "{endpoint}");
    // An export's own slice comes back.
    let own = shop.provider.at(&format!("{SLICES}/things"));
    client.delete(&own).await?.ok()?;
    let endpoint = client.endpoint(&shop.provider, "things").await?;
    ensure!(endpoint == shop.window(), "{endpoint}");
    Ok(())
}

pub(super) async fn a_deleted_export_serves_nothing(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "ending").await?;
    let one = shop.consumer("one", true).await?;
    let slice = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": "other"},
        "spec": {"export": {"path": shop.provider.path, "name": "things"}}});
    client.make(&shop.provider.at(SLICES), &slice).await?;
    client.endpoint(&shop.provider, "other").await?;
    let export = shop
        .provider
        .at("apis/apis.kcp.io/v1alpha2/apiexports/things");
    client.delete(&export).await?.ok()?;
    for path in [
        shop.all(BINDINGS),
        shop.all(ALL_WIDGETS),
        shop.of(&one, ALL_WIDGETS),
    ] {
        shop.answers(&path, 500).await?;
        refused(&client.get(&path).await?, 500, "API export not found")?;
    }
    gone(&shop, "other").await?;
    let binding = one.at(&format!("{BINDINGS}/things"));
    let invalid = client
        .until("the binding to say so", &binding, |binding| {
            condition(binding, "APIExportValid", "False")
        })
        .await?;
    ensure!(condition(&invalid, "Ready", "True"), "{invalid}");
    Ok(())
}
