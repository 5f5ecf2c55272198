//! Greets: for each ConfigMap labelled `hello.windlass.dev/greet`, keeps a ConfigMap `<name>-greeting` beside it. Entry
//! point: [`Hello`].

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;

/// The label that asks for a greeting; its value is the name in the greeting.
const GREET: &str = "hello.windlass.dev/greet";

/// The configuration.
#[derive(Deserialize)]
struct Config {
    /// Default: hello.
    #[serde(default = "hello")]
    greeting: String,
}

fn hello() -> String {
    "hello".to_owned()
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
struct Hello;
windlass_sdk::guest!(Hello);

impl Reconciler for Hello {
    fn describe() -> Result<Description> {
        config::<Config>()?;
        Ok(Description::new("greets the people that ConfigMaps name")
            .primary_watch(Watch::new::<ConfigMap>().labels(GREET))
            .owns::<ConfigMap>())
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(asking) = cluster.get::<ConfigMap>(&request.key)? else {
            return Ok(Action::Done); // the garbage collector takes the greeting
        };
        let Some(who) = asking
            .metadata
            .labels
            .get(GREET)
            .filter(|_| !asking.metadata.is_deleting())
        else {
            return Ok(Action::Done);
        };
        let wanted = greeting(&asking, who, &cluster.name())?;
        let key = wanted.key();
        let present = cluster.get::<ConfigMap>(&key)?;
        if present
            .as_ref()
            .is_some_and(|present| is_right(present, &wanted))
        {
            return Ok(Action::Done);
        }
        cluster.force_apply(&wanted)?;
        let reason = if present.is_some() {
            "GreetingChanged"
        } else {
            "GreetingCreated"
        };
        cluster.event(&asking, reason, format!("{who} is greeted by {}", key.name));
        info!("greeted", who = who, greeting = key);
        Ok(Action::Done)
    }
}

/// The expected greeting.
fn greeting(asking: &ConfigMap, who: &str, cluster: &str) -> Result<ConfigMap> {
    let key = asking.key();
    let text = format!("{}, {who}, from {cluster}", config::<Config>()?.greeting);
    let metadata = Metadata::of(&key.sibling(format!("{}-greeting", key.name)))
        .owner(asking.controller_reference());
    Ok(ConfigMap {
        metadata,
        data: BTreeMap::from([("greeting".to_owned(), text)]),
    })
}

fn is_right(present: &ConfigMap, wanted: &ConfigMap) -> bool {
    present.data == wanted.data && present.metadata.controller() == wanted.metadata.controller()
}

#[cfg(test)]
mod tests;
