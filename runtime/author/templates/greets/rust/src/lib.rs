//! Greets: keeps a ConfigMap `<name>-greeting` beside each ConfigMap labelled `hello.windlass.dev/greet`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;

/// The label that asks for a greeting; its value is the name in the greeting.
const GREET: &str = "hello.windlass.dev/greet";

/// The parts of a ConfigMap that matter here.
#[derive(Serialize, Deserialize)]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}
windlass_sdk::kind!(ConfigMap, "v1", "ConfigMap");

/// The guest.
struct Greeter;
windlass_sdk::guest!(Greeter);

impl Reconciler for Greeter {
    /// Watches the ConfigMaps with the label, and the greetings: an event on a greeting enqueues its owner.
    fn describe() -> Result<Description> {
        Ok(Description::new("greets the people that ConfigMaps name")
            .primary_watch(Watch::new::<ConfigMap>().labels(GREET))
            .owns::<ConfigMap>())
    }

    /// Creates or updates one greeting. Called again until it succeeds, and after every change that may matter.
    /// A request names an object and never an event. An error (`?`) is retried with growing delay.
    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        // Reads come from the host's cache. A deleted object needs nothing: the garbage collector deletes its greeting.
        let Some(asking) = cluster.get::<ConfigMap>(&request.key)? else {
            return Ok(Action::Done);
        };
        let Some(who) = asking.metadata.labels.get(GREET) else {
            return Ok(Action::Done);
        };
        let name = format!("{}-greeting", request.key.name);
        let key = request.key.sibling(&name);
        let text = format!("hello, {who}, from {}", cluster.name());
        let data = BTreeMap::from([("greeting".to_owned(), text)]);
        // Write only the differences.
        let present = cluster.get::<ConfigMap>(&key)?;
        if present.is_some_and(|present| present.data == data) {
            return Ok(Action::Done);
        }
        let metadata = Metadata::of(&key).owner(asking.controller_reference());
        cluster.force_apply(&ConfigMap { metadata, data })?;
        cluster.event(&asking, "Greeted", format!("{who} is greeted by {name}"));
        info!("greeted", who = who, greeting = key);
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests;
