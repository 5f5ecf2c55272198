//! The guest against an API in memory.

use super::*;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use windlass_sdk::testing::{TestCluster, TestFleet};

const URL: &str = "http://dns/v1/zones/example.com/records/www";

/// The records by their URLs.
type Records = Rc<RefCell<BTreeMap<String, Vec<u8>>>>;

fn api(fleet: &TestFleet) -> Records {
    let records = Records::default();
    let kept = records.clone();
    fleet.serve(move |request| {
        let mut records = kept.borrow_mut();
        match request.method.as_str() {
            "PUT" => {
                records.insert(request.url.clone(), request.body.clone());
                http::Response::new(204)
            }
            "DELETE" => http::Response::new(if records.remove(&request.url).is_some() {
                204
            } else {
                404
            }),
            _ => match records.get(&request.url) {
                Some(body) => http::Response::new(200).body(body.clone()),
                None => http::Response::new(404),
            },
        }
    });
    records
}

fn fleet() -> (TestFleet, TestCluster, ObjectKey) {
    let fleet = TestFleet::new().config(&json!({"api": "http://dns"}));
    fleet.define(
        &windlass_sdk::GroupVersionKind::new("example.windlass.dev/v1", "DnsRecord"),
        true,
    );
    let alpha = fleet.cluster("alpha");
    (fleet, alpha, ObjectKey::namespaced("default", "www"))
}

fn record(name: &str) -> Value {
    json!({
        "apiVersion": "example.windlass.dev/v1", "kind": "DnsRecord", "metadata": {"namespace": "default", "name": "www"},
        "spec": {"zone": "example.com", "name": name, "address": "192.0.2.1"},
    })
}

#[test]
fn a_record_is_written_once_moves_and_goes() -> Result<()> {
    let (fleet, alpha, key) = fleet();
    let records = api(&fleet);
    alpha.put(record("www"));
    assert_eq!(alpha.reconcile::<Dns>(&key)?, Action::Done);
    assert_eq!(records.borrow()[URL], br#"{"address":"192.0.2.1"}"#);
    assert_eq!(alpha.reconciled_writes::<Dns>(&key)?, 0);
    assert_eq!(alpha.events().len(), 1);

    alpha.put(record("web"));
    alpha.reconcile::<Dns>(&key)?;
    let urls: Vec<String> = records.borrow().keys().cloned().collect();
    assert_eq!(urls, ["http://dns/v1/zones/example.com/records/web"]);

    alpha.remove::<DnsRecord>(&key);
    alpha.reconcile::<Dns>(&key)?;
    assert!(records.borrow().is_empty());
    assert!(alpha.object::<DnsRecord>(&key).is_none());
    Ok(())
}

#[test]
fn at_the_limit_of_the_api_it_waits_as_long_as_the_api_says() -> Result<()> {
    let (fleet, alpha, key) = fleet();
    fleet.serve(|_| http::Response::new(429).with_header("retry-after", "7"));
    alpha.put(record("www"));
    assert_eq!(alpha.reconcile::<Dns>(&key)?, Action::RequeueAfterMs(7000));
    Ok(())
}
