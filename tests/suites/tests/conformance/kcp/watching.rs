//! Watches through the virtual workspace of an export.

use anyhow::{Result, ensure};
use serde_json::json;
use windlass_harness::testenv::kcp::Client;

use super::shop::{ALL_MAPS, ALL_WIDGETS, BINDINGS, Shop, WIDGETS, event, version_of};

pub(super) async fn a_watch_of_all_clusters_has_every_change(client: &Client) -> Result<()> {
    let (shop, one, two) = Shop::with_two(client, "changes").await?;
    let path = shop.all(ALL_WIDGETS);
    let before = version_of(&shop.read(&path).await?)?;
    shop.put(&one, "a").await?;
    shop.put(&two, "a").await?;
    let in_one = one.at(&format!("{WIDGETS}/a"));
    shop.patch(&in_one, &json!({"spec": {"size": 2}})).await?;
    let in_two = shop.of(&two, &format!("{WIDGETS}/a"));
    client.delete(&in_two).await?.ok()?;
    let from = format!("&resourceVersion={before}");
    let expected = [
        event("ADDED", &one, "a"),
        event("ADDED", &two, "a"),
        event("MODIFIED", &one, "a"),
        event("DELETED", &two, "a"),
    ];
    let events = shop.watch(&path, &from).await?;
    ensure!(events == expected, "{events:?}");
    let events = shop.watch(&shop.of(&two, ALL_WIDGETS), &from).await?;
    ensure!(
        events == [expected[1].clone(), expected[3].clone()],
        "{events:?}"
    );
    Ok(())
}

pub(super) async fn a_watch_without_a_version_begins_with_what_is_there(
    client: &Client,
) -> Result<()> {
    let (shop, one, two) = Shop::with_two(client, "beginnings").await?;
    shop.put(&one, "a").await?;
    shop.put(&two, "b").await?;
    let mut events = shop.watch(&shop.all(ALL_WIDGETS), "").await?;
    events.sort();
    let mut expected = [event("ADDED", &one, "a"), event("ADDED", &two, "b")];
    expected.sort();
    ensure!(events == expected, "{events:?}");
    Ok(())
}

pub(super) async fn a_streaming_list_ends_with_a_bookmark(client: &Client) -> Result<()> {
    let (shop, one, _) = Shop::with_two(client, "streams").await?;
    let last = version_of(&shop.put(&one, "a").await?)?;
    for (kind, least) in [(ALL_WIDGETS, 1), (ALL_MAPS, 0), (BINDINGS, 2)] {
        let options = "watch=true&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
        let answer = client.get(&shop.all(&format!("{kind}?{options}"))).await?;
        let events = answer.events()?;
        let end = events.iter().position(|event| {
            event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
        });
        let Some(end) = end else {
            anyhow::bail!("{kind}: no end in {}", answer.text)
        };
        ensure!(end >= least, "{kind}: {}", answer.text);
        ensure!(events[end]["type"] == "BOOKMARK", "{kind}: {}", answer.text);
        ensure!(
            version_of(&events[end]["object"])? >= last,
            "{kind}: {}",
            answer.text
        );
    }
    Ok(())
}
