//! Greets in one language: beside each ConfigMap labelled `polyglot.windlass.dev/greet` it keeps a ConfigMap `<name>-<language>`.
//! Entry point: [`Greeter`].

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;

/// The label that asks for greetings; its value is the name in the greeting.
const GREET: &str = "polyglot.windlass.dev/greet";

/// What the operator configures.
#[derive(Deserialize)]
struct Config {
    /// The end of the greeting's name.
    language: String,
    /// What is said.
    greeting: String,
}

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
    fn describe() -> Result<Description> {
        config::<Config>()?; // a wrong one fails the load
        Ok(Description::new("greets in one language, in Rust")
            .primary_watch(Watch::new::<ConfigMap>().labels(GREET))
            .owns::<ConfigMap>())
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(asking) = cluster.get::<ConfigMap>(&request.key)? else {
            return Ok(Action::Done);
        };
        let Some(who) = asking.metadata.labels.get(GREET) else {
            return Ok(Action::Done);
        };
        let Config { language, greeting } = config()?;
        let key = request.key.sibling(format!("{}-{language}", request.key.name));
        let text = format!("{greeting}, {who}, from {}", cluster.name());
        let data = BTreeMap::from([("greeting".to_owned(), text)]);
        let present = cluster.get::<ConfigMap>(&key)?;
        if present.is_none_or(|present| present.data != data) {
            let metadata = Metadata::of(&key).owner(asking.controller_reference());
            cluster.force_apply(&ConfigMap { metadata, data })?;
            info!("greeted", who = who, greeting = key);
        }
        Ok(Action::Done)
    }
}
