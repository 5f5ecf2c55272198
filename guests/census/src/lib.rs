//! Counts: lists every ConfigMap labelled `census.windlass.dev/count` that it may see, and keeps a ConfigMap `census` with their names.
//! Entry point: [`Census`].

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;

/// The label of what is counted. Its value does not matter.
const COUNT: &str = "census.windlass.dev/count";

/// The required configuration.
#[derive(Deserialize)]
struct Config {
    /// The namespace of the report.
    report: String,
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
struct Census;
windlass_sdk::guest!(Census);

impl Reconciler for Census {
    fn describe() -> Result<Description> {
        config::<Config>()?;
        Ok(Description::new("counts the ConfigMaps that it may see")
            .primary_watch(Watch::new::<ConfigMap>().labels(COUNT)))
    }

    fn reconcile(_: &Request, cluster: &Cluster) -> Result<Action> {
        let seen = cluster.list::<ConfigMap>(&ListOptions::default().labels(COUNT))?;
        let report = report(&seen, &config::<Config>()?.report);
        let present = cluster.get::<ConfigMap>(&report.key())?;
        if present.is_none_or(|present| present.data != report.data) {
            cluster.force_apply(&report)?;
            info!("counted", found = seen.len());
        }
        Ok(Action::Done)
    }
}

/// How many there are, and their names by namespace.
fn report(seen: &[ConfigMap], namespace: &str) -> ConfigMap {
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for map in seen {
        let namespace = map.metadata.namespace.clone().unwrap_or_default();
        names.entry(namespace).or_default().push(&map.metadata.name);
    }
    let mut data: BTreeMap<String, String> = names
        .into_iter()
        .map(|(namespace, mut names)| {
            names.sort_unstable();
            (format!("in.{namespace}"), names.join(" "))
        })
        .collect();
    data.insert("count".to_owned(), seen.len().to_string());
    ConfigMap {
        metadata: Metadata::new(namespace, "census"),
        data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_sdk::testing::TestFleet;

    #[test]
    fn what_is_labelled_is_counted_by_namespace() {
        let fleet = TestFleet::new().config(&json!({"report": "north"}));
        let alpha = fleet.cluster("alpha");
        for (namespace, name, label) in [
            ("north", "b", COUNT),
            ("north", "a", COUNT),
            ("shared", "c", COUNT),
            ("south", "d", "other"),
        ] {
            alpha.put(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": namespace, "name": name, "labels": {label: "yes"}},
            }));
        }
        let key = ObjectKey::namespaced("north", "a");
        alpha.reconcile::<Census>(&key).unwrap();
        let census: ConfigMap = alpha.object(&key.sibling("census")).unwrap();
        let told: Vec<_> = census.data.iter().collect();
        assert_eq!(
            format!("{told:?}"),
            r#"[("count", "3"), ("in.north", "a b"), ("in.shared", "c")]"#
        );
        assert_eq!(alpha.reconciled_writes::<Census>(&key), Ok(0));
    }

    #[test]
    fn without_a_place_for_the_report_it_does_not_load() {
        let fleet = TestFleet::new().config(&json!({}));
        assert!(fleet.describe::<Census>().is_err());
    }
}
