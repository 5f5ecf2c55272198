//! Calls other clusters, and returns the results. Entry point: [`Fleet`].

use serde_json::Value;
use windlass_sdk::prelude::*;
use windlass_sdk::{
    ClusterInfo, DeleteOptions, GetOptions, GroupVersionKind, ListOptions, Operation, fleet,
};

/// The guest. Its result is the message of a terminal failure. In its config `open` names clusters; the guest opens, reads and
/// writes each. With `describe`, the function `describe` does all of this. With
/// `lists`, the guest only sends one batch with that number of lists of large objects for each cluster.
struct Fleet;
windlass_sdk::guest!(Fleet);

impl Reconciler for Fleet {
    fn describe() -> Result<Description> {
        if config::<Value>()?["describe"] == true {
            return Err(Error::terminal(script::text(&reach()?)));
        }
        Ok(Description::new("reaches for other clusters")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        Err(Error::terminal(script::text(&reach()?)))
    }
}

fn reach() -> Result<Value> {
    let config = config::<Value>()?;
    if let Some(lists) = config["lists"].as_u64() {
        return Ok(script::replies(fleet::batch(&large(&config, lists))));
    }
    let clusters = match config["selector"].as_str() {
        Some(selector) => fleet::clusters_labelled(selector),
        None => fleet::clusters(),
    };
    let clusters = match clusters {
        Ok(clusters) => Value::Array(clusters.iter().map(info).collect()),
        Err(error) => script::error(&error),
    };
    let map = (
        GroupVersionKind::new("v1", "ConfigMap"),
        ObjectKey::namespaced("default", "a"),
    );
    let read = Operation::Get((map.0.clone(), map.1.clone(), GetOptions::default()));
    let (mut opened, mut reads) = (serde_json::Map::new(), Vec::new());
    for name in script::items(&config["open"])
        .iter()
        .filter_map(Value::as_str)
    {
        let answer = match fleet::open(name) {
            Ok(cluster) => use_it(&cluster, &map),
            Err(error) => script::error(&error),
        };
        opened.insert(name.to_owned(), answer);
        reads.push((name.to_owned(), read.clone()));
    }
    Ok(script::fields(&mut [
        ("clusters", clusters),
        ("opened", opened.into()),
        ("batch", script::replies(fleet::batch(&reads))),
    ]))
}

/// Makes this number of live lists in each cluster of `open`.
fn large(config: &Value, lists: u64) -> Vec<(String, Operation)> {
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    let options = ListOptions::default()
        .live()
        .labels("test.windlass.dev/large");
    let list = Operation::List((kind, options));
    let names = script::items(&config["open"]).iter();
    let names = names.filter_map(Value::as_str);
    names
        .flat_map(|name| (0..lists).map(|_| (name.to_owned(), list.clone())))
        .collect()
}

/// The results of its name, of a live read and of a delete.
fn use_it(cluster: &Cluster, (kind, key): &(GroupVersionKind, ObjectKey)) -> Value {
    let read = match cluster.raw().get(kind, key, &GetOptions::live()) {
        Ok(text) => text.into(),
        Err(error) => script::error(&error),
    };
    let deleted = match cluster.delete_with(kind, key, &DeleteOptions::default()) {
        Ok(existed) => existed.into(),
        Err(error) => script::error(&error),
    };
    Value::Array(vec![cluster.name().into(), read, deleted])
}

fn info(info: &ClusterInfo) -> Value {
    let labels = info
        .labels
        .iter()
        .map(|(key, value)| Value::Array(vec![key.as_str().into(), value.as_str().into()]));
    script::fields(&mut [
        ("name", info.name.as_str().into()),
        ("labels", Value::Array(labels.collect())),
        ("ready", info.ready.into()),
    ])
}
