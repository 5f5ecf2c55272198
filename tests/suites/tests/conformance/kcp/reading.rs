//! Lists and discovery through the virtual workspace of an export.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use windlass_harness::testenv::kcp::{Client, Workspace};

use super::shop::{
    ALL_MAPS, ALL_WIDGETS, BINDINGS, DENIED, MAPS, Shop, WIDGETS, cluster_of, map, members,
    names_in, refused, version_of,
};

pub(super) async fn a_list_of_all_clusters_names_the_cluster_of_each_object(
    client: &Client,
) -> Result<()> {
    let (shop, one, two) = Shop::with_two(client, "lists").await?;
    for consumer in [&one, &two] {
        shop.put(consumer, "a").await?;
        client.post(&consumer.at(MAPS), &map("a")).await?.ok()?;
    }
    let widgets = shop.read(&shop.all(ALL_WIDGETS)).await?;
    let mut expected = vec![
        (one.cluster.clone(), "a".to_owned()),
        (two.cluster.clone(), "a".to_owned()),
    ];
    expected.sort();
    ensure!(members(&widgets) == expected, "{widgets}");
    let of_one = shop.read(&shop.of(&one, ALL_WIDGETS)).await?;
    ensure!(
        members(&of_one) == [(one.cluster.clone(), "a".to_owned())],
        "{of_one}"
    );
    let maps = shop.read(&shop.all(ALL_MAPS)).await?;
    ensure!(names_in(&maps, &two).contains(&"a".to_owned()), "{maps}");
    let path = |object: &Value| object["metadata"]["annotations"]["kcp.io/path"].clone();
    ensure!(
        path(&widgets["items"][0]).is_null(),
        "a widget names the path: {widgets}"
    );
    let bindings = shop.read(&shop.all(BINDINGS)).await?;
    let items = bindings["items"].as_array().context("no items")?;
    for consumer in [&one, &two] {
        let found = items
            .iter()
            .find(|binding| cluster_of(binding) == consumer.cluster);
        let found = found.context("a binding is missing")?;
        ensure!(path(found) == consumer.path.as_str(), "{found}");
    }
    Ok(())
}

pub(super) async fn a_list_from_the_cache_has_everything(client: &Client) -> Result<()> {
    let (shop, one, two) = Shop::with_two(client, "cached").await?;
    shop.put(&one, "a").await?;
    let last = shop.put(&two, "b").await?;
    let version = version_of(&last)?;
    for options in [
        "resourceVersion=0".to_owned(),
        "resourceVersion=0&limit=1".to_owned(),
        format!("resourceVersionMatch=NotOlderThan&resourceVersion={version}"),
        "resourceVersionMatch=NotOlderThan&resourceVersion=0".to_owned(),
    ] {
        // From 0 on the answer may be older than the last write.
        let path = shop.all(&format!("{ALL_WIDGETS}?{options}"));
        client
            .until(&path, &path, |list| members(list).len() == 2)
            .await?;
    }
    Ok(())
}

pub(super) async fn pages_go_on_across_clusters(client: &Client) -> Result<()> {
    let (shop, one, two) = Shop::with_two(client, "pages").await?;
    for name in ["a", "b"] {
        shop.put(&one, name).await?;
        shop.put(&two, name).await?;
    }
    let whole = shop.read(&shop.all(ALL_WIDGETS)).await?;
    let mut path = shop.all(&format!("{ALL_WIDGETS}?limit=3"));
    let first = shop.read(&path).await?;
    ensure!(first["metadata"]["remainingItemCount"] == 1, "{first}");
    let token = first["metadata"]["continue"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    path.push_str("&continue=");
    path.push_str(&token);
    let second = shop.read(&path).await?;
    let mut both = [members(&first), members(&second)].concat();
    both.sort();
    ensure!(both == members(&whole), "{both:?}");
    ensure!(
        matches!(second["metadata"]["continue"].as_str(), None | Some("")),
        "{second}"
    );
    Ok(())
}

pub(super) async fn versions_in_all_clusters_are_one_sequence(client: &Client) -> Result<()> {
    let (shop, one, two) = Shop::with_two(client, "versions").await?;
    let first = version_of(&shop.put(&one, "a").await?)?;
    let second = version_of(&shop.put(&two, "a").await?)?;
    let third = client.post(&shop.of(&one, MAPS), &map("a")).await?.ok()?;
    let third = version_of(&third)?;
    ensure!(first < second && second < third, "{first} {second} {third}");
    for path in [shop.all(ALL_WIDGETS), shop.of(&two, ALL_WIDGETS)] {
        let list = shop.read(&path).await?;
        ensure!(version_of(&list)? >= third, "{path}: {list}");
    }
    Ok(())
}

pub(super) async fn only_lists_and_watches_go_to_all_clusters(client: &Client) -> Result<()> {
    let (shop, one, _) = Shop::with_two(client, "wild").await?;
    shop.put(&one, "a").await?;
    let namespaced = client.get(&shop.all(WIDGETS)).await?;
    refused(&namespaced, 400, "required to be cross-namespace")?;
    let one_object = shop.all(&format!("{WIDGETS}/a"));
    refused(&client.get(&one_object).await?, 404, "NotFound")?;
    refused(&client.delete(&one_object).await?, 404, "NotFound")?;
    let created = client
        .post(&shop.all(WIDGETS), &super::shop::widget("b"))
        .await?;
    refused(&created, 404, "NotFound")
}

pub(super) async fn discovery_is_the_exports_in_every_cluster(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "discovery").await?;
    let consumer = shop.consumer("rejects", false).await?;
    let stranger = shop.stranger("stranger").await?;
    for at in [shop.all(""), shop.of(&consumer, ""), shop.of(&stranger, "")] {
        let groups = shop.read(&format!("{at}apis")).await?;
        let groups = sorted(&groups["groups"]);
        ensure!(
            groups == ["apis.kcp.io", "events.k8s.io", "things.example.com"],
            "{at}: {groups:?}"
        );
        let kinds = shop
            .read(&format!("{at}apis/things.example.com/v1"))
            .await?;
        ensure!(
            sorted(&kinds["resources"]) == ["widgets", "widgets/status"],
            "{at}: {kinds}"
        );
        let core = shop.read(&format!("{at}api/v1")).await?;
        ensure!(
            sorted(&core["resources"]) == ["configmaps", "events"],
            "{at}: {core}"
        );
        let own = shop.read(&format!("{at}apis/apis.kcp.io/v1alpha2")).await?;
        ensure!(
            sorted(&own["resources"]).contains(&"apibindings".to_owned()),
            "{at}: {own}"
        );
    }
    Ok(())
}

fn sorted(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    let mut names: Vec<String> = items
        .filter_map(|item| item["name"].as_str().map(str::to_owned))
        .collect();
    names.sort();
    names
}

pub(super) async fn what_is_not_bound_is_refused_in_the_same_words(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "refusals").await?;
    let consumer = shop.consumer("one", true).await?;
    let stranger = shop.stranger("stranger").await?;
    let unknown = Workspace {
        path: "root:nowhere".to_owned(),
        cluster: "nowhere".to_owned(),
    };
    for path in [
        shop.of(&stranger, ALL_WIDGETS),
        shop.of(&unknown, ALL_WIDGETS),
        shop.of(&consumer, "api/v1/secrets"),
        shop.of(&consumer, "api/v1/services"),
        shop.of(&consumer, "apis/core.kcp.io/v1alpha1/logicalclusters"),
    ] {
        let answer = client.get(&path).await?;
        refused(&answer, 403, DENIED).context(path)?;
    }
    let by_path = Workspace {
        cluster: consumer.path.clone(),
        path: consumer.path.clone(),
    };
    let by_path = client.get(&shop.of(&by_path, ALL_WIDGETS)).await?;
    refused(&by_path, 403, "not resolved to a valid virtual workspace")?;
    let unclaimed = client.get(&shop.all("api/v1/secrets")).await?;
    refused(&unclaimed, 404, "404 page not found")?;
    let window = shop.window().replace("/things", "/nothing");
    let unknown = client
        .get(&format!("{window}/clusters/*/{ALL_WIDGETS}"))
        .await?;
    refused(&unknown, 500, "API export not found")
}

/// Objects that a restart of the server must keep.
pub(super) struct Kept {
    path: String,
    list: Vec<(String, String)>,
    version: u64,
}

impl Kept {
    pub(super) async fn make(client: &Client) -> Result<Self> {
        let (shop, one, two) = Shop::with_two(client, "kept").await?;
        shop.put(&one, "a").await?;
        shop.put(&two, "a").await?;
        let path = shop.all(ALL_WIDGETS);
        let list = shop.read(&path).await?;
        Ok(Self {
            path,
            version: version_of(&list)?,
            list: members(&list),
        })
    }

    /// Holds as soon as the virtual workspace is served again.
    pub(super) async fn is_there(&self, client: &Client) -> Result<()> {
        let list = client
            .until("the objects from before", &self.path, |list| {
                members(list) == self.list
            })
            .await?;
        ensure!(version_of(&list)? >= self.version, "{list}");
        Ok(())
    }
}
