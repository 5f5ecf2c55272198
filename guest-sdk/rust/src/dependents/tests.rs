//! Dependents in a cluster in memory.

use crate::prelude::*;
use crate::testing::TestFleet;
use serde_json::{Value, json};

/// Keeps a ConfigMap for each name in `spec.pages`.
struct Pages;

fn parts() -> Dependents<'static> {
    Dependents::new().kind("v1", "ConfigMap")
}

fn sites() -> crate::GroupVersionKind {
    crate::GroupVersionKind::new("example.com/v1", "Website")
}

impl Reconciler for Pages {
    fn describe() -> Result<Description> {
        Ok(Description::new("keeps pages").dependents(&parts()))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(site) = cluster.of(sites()).get(&request.key)? else {
            return Ok(Action::Done);
        };
        let pages = site.at("/spec/pages").and_then(Value::as_array);
        let desired = pages.into_iter().flatten().map(|page| {
            let metadata = Metadata::of(&request.key.sibling(page.as_str().unwrap_or_default()));
            Object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        });
        parts().reconcile(cluster, &site, desired)
    }
}

#[test]
fn what_is_desired_is_there_what_is_not_is_gone_and_then_nothing_is_written() {
    let fleet = TestFleet::new();
    let (alpha, key) = (
        fleet.cluster("alpha"),
        ObjectKey::namespaced("default", "home"),
    );
    let desire = |pages: Value| {
        alpha.put(json!({
            "apiVersion": "example.com/v1", "kind": "Website",
            "metadata": {"namespace": "default", "name": "home"}, "spec": {"pages": pages},
        }));
        assert_eq!(alpha.reconcile::<Pages>(&key), Ok(Action::Done));
        assert_eq!(alpha.reconciled_writes::<Pages>(&key), Ok(0));
        let objects = alpha.objects();
        let pages = objects
            .iter()
            .filter(|each| each.kind().kind == "ConfigMap");
        pages.map(|page| page.key().name).collect::<Vec<_>>()
    };
    assert_eq!(desire(json!(["a", "b"])), ["a", "b"]);
    assert_eq!(desire(json!(["b", "c"])), ["b", "c"]);
    assert!(desire(json!([])).is_empty());
    let site = alpha.client().of(sites()).get(&key).unwrap().unwrap();
    let ready = site.condition("Ready").unwrap();
    assert_eq!(ready.reason, "Ready");
    assert_eq!(ready.observed_generation, Some(3));
}
