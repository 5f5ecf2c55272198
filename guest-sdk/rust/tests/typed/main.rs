//! The helpers with types alone: of a definition, as `windlass types` writes them.

#![allow(unreachable_pub, reason = "the generated file is of a guest")]
#![allow(clippy::unwrap_used, reason = "a test asserts by unwrapping")]

mod website;

use serde_json::json;
use website::{Website, WebsiteStatus};
use windlass_sdk::FleetCluster;
use windlass_sdk::prelude::*;
use windlass_sdk::testing::TestFleet;

/// Keeps a page beside a website, by types alone.
struct Keeper;

impl Reconciler for Keeper {
    fn describe() -> Result<Description> {
        Ok(Description::new("keeps pages"))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(site) = cluster.get::<Website>(&request.key)? else {
            return Ok(Action::Done);
        };
        let page = Website {
            metadata: Metadata::of(&request.key.sibling("page")),
            spec: site.spec.clone(),
            ..Website::default()
        };
        let url = Some(format!("http://{}", site.spec.host));
        let status = WebsiteStatus {
            url,
            ..WebsiteStatus::default()
        };
        let parts = Dependents::new().of::<Website>().status(status);
        parts.reconcile(cluster, &site, objects![page])
    }
}

/// Sets a condition and writes it.
struct Conditional;

impl Reconciler for Conditional {
    fn describe() -> Result<Description> {
        Ok(Description::new("sets a condition"))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(mut site) = cluster.get::<Website>(&request.key)? else {
            return Ok(Action::Done);
        };
        let serves = || Condition::new("Ready", true, "Serves").message("it serves");
        assert!(site.set_condition(serves())?);
        assert!(!site.set_condition(serves())?);
        cluster.set_status::<Website>(&request.key, &site.status)?;
        Ok(Action::Done)
    }
}

fn key() -> ObjectKey {
    ObjectKey::namespaced("default", "site")
}

fn site() -> serde_json::Value {
    json!({
        "apiVersion": "example.windlass.dev/v1", "kind": "Website",
        "metadata": {"namespace": "default", "name": "site"}, "spec": {"host": "a.b", "replicas": 1},
    })
}

#[test]
fn dependents_and_their_status_have_types() {
    let fleet = TestFleet::new();
    let alpha = fleet.cluster("alpha");
    alpha.put(site());
    alpha.reconcile::<Keeper>(&key()).unwrap();
    let page: Website = alpha.object(&key().sibling("page")).unwrap();
    assert_eq!(page.metadata.controller().unwrap().name, "site");
    let site: Website = alpha.object(&key()).unwrap();
    let ready = site.condition("Progressing").unwrap().unwrap();
    assert_eq!(ready.reason, "Ready");
    assert_eq!(site.status.unwrap().url.unwrap(), "http://a.b");
}

#[test]
fn a_condition_of_a_type_is_set_and_written() {
    let fleet = TestFleet::new();
    let alpha = fleet.cluster("alpha");
    alpha.put(site());
    alpha.reconcile::<Conditional>(&key()).unwrap();
    let site: Website = alpha.object(&key()).unwrap();
    let all = site.status.unwrap().conditions.unwrap();
    assert_eq!((all[0].r#type.as_str(), all.len()), ("Ready", 1));
    assert_eq!(all[0].message, "it serves");
}

#[test]
fn a_cluster_as_an_object_has_its_conditions() {
    let condition = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-31T09:30:00Z"});
    let cluster: FleetCluster = serde_json::from_value(json!({
        "metadata": {"name": "alpha"}, "spec": {"name": "alpha"}, "status": {"conditions": [condition]},
    }))
    .unwrap();
    let found = Resource::condition(&cluster, "Ready").unwrap().unwrap();
    assert_eq!(json!(found), condition);
    assert_eq!(cluster.status.conditions, [found]);
}

#[test]
fn a_type_without_conditions_refuses_one() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Plain {
        metadata: Metadata,
    }
    windlass_sdk::kind!(Plain, "v1", "ConfigMap");
    let mut plain = Plain {
        metadata: Metadata::of(&key()),
    };
    let condition = Condition::new("Ready", true, "Serves");
    let error = TestFleet::new().enter(|| plain.set_condition(condition).unwrap_err());
    assert_eq!(error.code, ApiCode::Invalid);
}
