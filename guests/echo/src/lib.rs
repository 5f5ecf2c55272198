//! Echoes: for each ConfigMap labelled `bench=in`, keeps a ConfigMap `<name>-out` whose `data.echo` is the first one's `data.value`.
//! Entry point: [`Echo`].
//!
//! `cargo bench --bench rivals` uses it to compare Windlass with other controller runtimes.

use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_sdk::prelude::*;

/// The parts of a ConfigMap that matter here.
#[derive(Serialize, Deserialize)]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: Data,
}
windlass_sdk::kind!(ConfigMap, "v1", "ConfigMap");

#[derive(Default, Serialize, Deserialize)]
struct Data {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    value: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    echo: String,
}

/// The guest.
struct Echo;
windlass_sdk::guest!(Echo);

impl Reconciler for Echo {
    fn describe() -> Result<Description> {
        let config_maps = Watch::new::<ConfigMap>;
        let sources = config_maps().labels("bench=in").reads(&["data.value"]);
        let echoes = config_maps()
            .enqueue(Enqueue::ControllerOwner)
            .reads(&["data.echo"]);
        let title = "keeps an echo beside each ConfigMap that asks for one";
        Ok(Description::new(title).primary_watch(sources).watch(echoes))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(source) = cluster.get::<ConfigMap>(&request.key)? else {
            return Ok(Action::Done); // the garbage collector takes the echo
        };
        let wanted = source.data.value.as_str();
        let key = request.key.sibling(format!("{}-out", request.key.name));
        match cluster.get::<ConfigMap>(&key)? {
            Some(present) if present.data.echo == wanted => {}
            Some(_) => {
                cluster.patch::<ConfigMap>(&key, &json!({"data": {"echo": wanted}}))?;
            }
            None => {
                cluster.create(&echo(&source, &key))?;
            }
        }
        Ok(Action::Done)
    }
}

fn echo(source: &ConfigMap, key: &ObjectKey) -> ConfigMap {
    ConfigMap {
        metadata: Metadata::of(key).owner(source.controller_reference()),
        data: Data {
            value: String::new(),
            echo: source.data.value.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_sdk::testing::{TestCluster, TestFleet};

    fn source(value: &str) -> serde_json::Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "default", "labels": {"bench": "in"}}, "data": {"value": value, "ballast": "x"}})
    }

    fn said(alpha: &TestCluster, key: &ObjectKey) -> Option<String> {
        let echo: ConfigMap = alpha.object(&key.sibling("a-out"))?;
        Some(echo.data.echo)
    }

    #[test]
    fn an_echo_is_made_follows_and_is_left_alone_when_right() {
        let fleet = TestFleet::new();
        let (alpha, key) = (
            fleet.cluster("alpha"),
            ObjectKey::namespaced("default", "a"),
        );
        for value in ["one", "two"] {
            alpha.put(source(value));
            assert_eq!(alpha.reconciled_writes::<Echo>(&key), Ok(1));
            assert_eq!(said(&alpha, &key).as_deref(), Some(value));
            assert_eq!(alpha.reconciled_writes::<Echo>(&key), Ok(0));
        }
        alpha.remove::<ConfigMap>(&key);
        assert_eq!(alpha.reconciled_writes::<Echo>(&key), Ok(0));
        assert_eq!(said(&alpha, &key), None);
    }
}
