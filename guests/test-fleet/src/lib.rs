//! Reaches for other clusters, and answers what came of it. Entry point: [`Fleet`].

use serde_json::{Value, json};
use windlass_sdk::prelude::*;
use windlass_sdk::{ClusterInfo, GroupVersionKind, Operation, fleet};

/// The guest. Its answer is the message of a terminal failure. In its config `open` names clusters to open, each of which runs
/// the script, and `describe` makes `describe` do all of this.
struct Fleet;
windlass_sdk::guest!(Fleet);

impl Reconciler for Fleet {
    fn describe() -> Result<Description> {
        if config::<Value>()?["describe"] == true {
            return Err(Error::terminal(reach()?.to_string()));
        }
        Ok(Description::new("reaches for other clusters")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        Err(Error::terminal(reach()?.to_string()))
    }
}

fn reach() -> Result<Value> {
    let config = config::<Value>()?;
    let names = || {
        config["open"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    };
    let selector = config["selector"].as_str();
    let clusters = match selector {
        Some(selector) => fleet::clusters_labelled(selector),
        None => fleet::clusters(),
    };
    let clusters = match clusters {
        Ok(clusters) => clusters.iter().map(info).collect(),
        Err(error) => script::error(&error),
    };
    let mut opened = serde_json::Map::new();
    for name in names() {
        let answer = match fleet::open(name) {
            Ok(cluster) => serde_json::from_str(&script::run(cluster.raw())?)?,
            Err(error) => script::error(&error),
        };
        opened.insert(name.to_owned(), answer);
    }
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    let read = Operation::Get((
        kind,
        ObjectKey::namespaced("default", "a"),
        windlass_sdk::GetOptions::default(),
    ));
    let reads: Vec<(String, Operation)> = names()
        .map(|name| (name.to_owned(), read.clone()))
        .collect();
    let batch: Vec<Value> = fleet::batch(&reads)
        .into_iter()
        .map(script::reply)
        .collect();
    Ok(json!({"clusters": clusters, "opened": opened, "batch": batch}))
}

fn info(info: &ClusterInfo) -> Value {
    json!({"name": info.name, "labels": info.labels, "ready": info.ready})
}
