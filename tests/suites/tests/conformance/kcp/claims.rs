//! Permission claims: what an export asks for beside its own kinds.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use windlass_harness::testenv::kcp::{Client, Workspace};

use super::shop::{
    ALL_MAPS, ALL_WIDGETS, BINDINGS, DENIED, MAPS, Shop, condition, event, map, names_in, refused,
    version_of,
};

pub(super) async fn a_rejected_claim_is_refused_and_hidden(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "rejected").await?;
    let one = shop.consumer("one", true).await?;
    let two = shop.consumer("two", false).await?;
    for consumer in [&one, &two] {
        client.post(&consumer.at(MAPS), &map("a")).await?.ok()?;
    }
    let maps = shop.read(&shop.all(ALL_MAPS)).await?;
    ensure!(names_in(&maps, &one).contains(&"a".to_owned()), "{maps}");
    ensure!(names_in(&maps, &two).is_empty(), "{maps}");
    refused(&client.get(&shop.of(&two, MAPS)).await?, 403, DENIED)?;
    let made = client.post(&shop.of(&two, MAPS), &map("b")).await?;
    refused(&made, 403, DENIED)?;
    let binding = shop.read(&two.at(&format!("{BINDINGS}/things"))).await?;
    ensure!(condition(&binding, "Ready", "True"), "{binding}");
    Ok(())
}

pub(super) async fn a_claim_that_is_answered_later_shows_and_hides_objects(
    client: &Client,
) -> Result<()> {
    let shop = Shop::open(client, "later").await?;
    let one = shop.consumer("one", false).await?;
    client.post(&one.at(MAPS), &map("a")).await?.ok()?;
    let path = shop.all(ALL_MAPS);
    for (state, code, kind) in [("Accepted", 200, "ADDED"), ("Rejected", 403, "DELETED")] {
        let before = version_of(&shop.read(&path).await?)?;
        answer(&shop, &one, state).await?;
        shop.answers(&shop.of(&one, MAPS), code).await?;
        let seen = state == "Accepted";
        client
            .until(state, &path, |list| {
                names_in(list, &one).contains(&"a".to_owned()) == seen
            })
            .await?;
        let events = shop
            .watch(&path, &format!("&resourceVersion={before}"))
            .await?;
        ensure!(events.contains(&event(kind, &one, "a")), "{events:?}");
    }
    Ok(())
}

/// Accepts or rejects all claims of a binding.
async fn answer(shop: &Shop<'_>, consumer: &Workspace, state: &str) -> Result<()> {
    let path = consumer.at(&format!("{BINDINGS}/things"));
    let binding = shop.read(&path).await?;
    let mut claims = binding["spec"]["permissionClaims"].clone();
    for claim in claims.as_array_mut().into_iter().flatten() {
        claim["state"] = state.into();
    }
    shop.patch(&path, &json!({"spec": {"permissionClaims": claims}}))
        .await
        .map(drop)
}

pub(super) async fn a_claim_without_an_answer_shows_in_the_status(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "unanswered").await?;
    let one = shop.stranger("one").await?;
    let binding = json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "things"},
        "spec": {"reference": {"export": {"path": shop.provider.path, "name": "things"}}}});
    client.make(&one.at(BINDINGS), &binding).await?;
    shop.answers(&shop.of(&one, ALL_WIDGETS), 200).await?;
    let asked = |binding: &Value| {
        let claims = binding["status"]["exportPermissionClaims"].as_array();
        claims.map_or(0, Vec::len) == 3 && condition(binding, "Ready", "True")
    };
    let path = one.at(&format!("{BINDINGS}/things"));
    let binding = client
        .until("the claims of the export", &path, asked)
        .await?;
    ensure!(
        binding["status"]["appliedPermissionClaims"].is_null(),
        "{binding}"
    );
    refused(&client.get(&shop.of(&one, MAPS)).await?, 403, DENIED)
}

/// So a list of all clusters has objects that are nobody's business any more.
pub(super) async fn claimed_objects_are_listed_after_the_binding_is_gone(
    client: &Client,
) -> Result<()> {
    let (shop, one, _) = Shop::with_two(client, "stale").await?;
    client.post(&one.at(MAPS), &map("a")).await?.ok()?;
    client.unbind(&one, "things").await?;
    shop.answers(&shop.of(&one, MAPS), 403).await?;
    let maps = shop.read(&shop.all(ALL_MAPS)).await?;
    ensure!(names_in(&maps, &one).contains(&"a".to_owned()), "{maps}");
    Ok(())
}

/// So the verb `*` on one side and a list of verbs on the other grant nothing.
pub(super) async fn a_verb_must_be_named_on_both_sides(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "verbs").await?;
    let one = shop.stranger("one").await?;
    let claim = json!({"group": "", "resource": "configmaps", "verbs": ["get", "list", "watch"],
        "selector": {"matchAll": true}, "state": "Accepted"});
    bind_with(&shop, &one, &claim).await?;
    client.post(&one.at(MAPS), &map("a")).await?.ok()?;
    refused(&client.get(&shop.of(&one, MAPS)).await?, 403, DENIED)?;
    // In all clusters only the claim's label counts.
    let maps = shop.read(&shop.all(ALL_MAPS)).await?;
    ensure!(names_in(&maps, &one).contains(&"a".to_owned()), "{maps}");
    Ok(())
}

pub(super) async fn a_selector_hides_objects_and_marks_new_ones(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "selectors").await?;
    let one = shop.stranger("one").await?;
    let claim = json!({"group": "", "resource": "configmaps", "verbs": ["*"],
        "selector": {"matchLabels": {"team": "a"}}, "state": "Accepted"});
    bind_with(&shop, &one, &claim).await?;
    client.post(&one.at(MAPS), &map("hidden")).await?.ok()?;
    let mut marked = map("marked");
    marked["metadata"]["labels"] = json!({"team": "a"});
    client.post(&one.at(MAPS), &marked).await?.ok()?;
    let made = client
        .post(&shop.of(&one, MAPS), &map("made"))
        .await?
        .ok()?;
    ensure!(made["metadata"]["labels"]["team"] == "a", "{made}");
    for path in [shop.all(ALL_MAPS), shop.of(&one, MAPS)] {
        let maps = shop.read(&path).await?;
        ensure!(names_in(&maps, &one) == ["made", "marked"], "{maps}");
    }
    let hidden = shop.of(&one, &format!("{MAPS}/hidden"));
    refused(&client.get(&hidden).await?, 404, "NotFound")?;
    let taken = client.post(&shop.of(&one, MAPS), &map("hidden")).await?;
    refused(&taken, 409, "AlreadyExists")?;

    let path = one.at(&format!("{MAPS}/marked"));
    shop.patch(&path, &json!({"metadata": {"labels": {"team": null}}}))
        .await?;
    client
        .until("the object to leave", &shop.all(ALL_MAPS), |maps| {
            names_in(maps, &one) == ["made"]
        })
        .await
        .map(drop)
}

/// Binds the export with one claim and waits until the workspace is served.
async fn bind_with(shop: &Shop<'_>, consumer: &Workspace, claim: &Value) -> Result<()> {
    let binding = json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "things"},
        "spec": {"reference": {"export": {"path": shop.provider.path, "name": "things"}}, "permissionClaims": [claim]}});
    shop.client.make(&consumer.at(BINDINGS), &binding).await?;
    shop.answers(&shop.of(consumer, ALL_WIDGETS), 200).await
}
