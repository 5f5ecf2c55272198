//! How stores and indexes are shared, and when they end. The server cannot be reached, and no test here needs it.

use super::*;
use crate::api::Projection;
use crate::cache::store::IndexPath;
use crate::cluster::ClusterConfig;
use crate::http::transport::{TransportOptions, Transports};
use crate::json::Object;
use crate::metrics::Metrics;
use crate::name::ClusterName;
use crate::request::ObjectKey;
use bytes::Bytes;
use std::time::Duration;

fn stores() -> Arc<Stores> {
    let config = ClusterConfig::from_url("http://127.0.0.1:9").unwrap();
    let name = ClusterName::new("test").unwrap();
    let metrics = Metrics::default().cluster(&name, &config.host());
    let host = tokio::runtime::Handle::current();
    let transports = Transports::new(host, TransportOptions::default());
    let connection = transports.connect(&config, false, metrics);
    let continuity = Continuity::new(connection.clone(), "/", None, Instant::now());
    Stores::new(
        connection,
        Arc::new(continuity),
        SharedOptions::new(CacheOptions::default()),
        None,
        CancellationToken::new(),
        TaskTracker::new(),
        Arc::default(),
    )
}

fn resource() -> Arc<Resource> {
    Arc::new(Resource {
        kind: GroupVersionKind::new("", "v1", "ConfigMap"),
        plural: "configmaps".into(),
        namespaced: true,
    })
}

fn key() -> StoreKey {
    StoreKey::whole(resource().kind.clone(), None, Projection::Full)
}

fn object(name: &str, target: &str) -> Object {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"1"}},"spec":{{"target":"{target}","in":"other"}}}}"#
    );
    Object::parse(Bytes::from(json)).unwrap()
}

fn path(namespaced: bool) -> IndexPath {
    IndexPath {
        path: "spec.target".parse().unwrap(),
        namespace_path: namespaced.then(|| "spec.in".parse().unwrap()),
    }
}

#[tokio::test]
async fn users_share_a_store_and_the_last_one_ends_it() {
    let stores = stores();
    let one = stores.open(key(), &resource()).unwrap();
    let two = stores.open(key(), &resource()).unwrap();
    assert!(Arc::ptr_eq(one.store(), two.store()));
    drop(one);
    assert_eq!(stores.all().len(), 1);
    drop(two);
    assert_eq!(stores.all().len(), 0);
    assert!(stores.running.lock().is_empty());
}

#[tokio::test]
async fn each_projection_namespace_and_selection_is_a_store_of_its_own() {
    let stores = stores();
    let whole = key();
    let mut keys = vec![whole.clone(); 4];
    keys[0].projection = Projection::Metadata;
    keys[1].namespace = Some("ns".into());
    keys[2].label_selector = "a=b".into();
    keys[3].field_selector = "metadata.name=a".into();
    keys.push(whole);
    let users: Vec<StoreUse> = keys
        .into_iter()
        .map(|key| stores.open(key, &resource()).unwrap())
        .collect();
    assert_eq!(stores.of_kind(&resource().kind).len(), 5);
    drop(users);
    assert!(stores.all().is_empty());
}

#[tokio::test]
async fn there_are_no_more_stores_than_a_backend_may_have() {
    let stores = stores();
    let users: Vec<StoreUse> = (0..MAX_STORES)
        .map(|n| {
            let mut key = key();
            key.namespace = Some(n.to_string().into());
            stores.open(key, &resource()).unwrap()
        })
        .collect();
    assert!(stores.open(key(), &resource()).is_err());
    drop(users);
    assert!(stores.open(key(), &resource()).is_ok());
}

#[tokio::test]
async fn a_store_that_only_reads_use_ends_ten_minutes_after_the_last_one() {
    let stores = stores();
    drop(stores.open_for_read(key(), &resource()).unwrap());
    let minutes = |n: u64| Instant::now() + Duration::from_secs(60 * n);
    stores.drop_unread(minutes(9));
    assert_eq!(stores.all().len(), 1);
    stores.drop_unread(minutes(11));
    assert_eq!(stores.all().len(), 0);
    // A source that uses it keeps it.
    let source = stores.open(key(), &resource()).unwrap();
    drop(stores.open_for_read(key(), &resource()).unwrap());
    stores.drop_unread(minutes(11));
    assert_eq!(stores.all().len(), 1);
    drop(source);
}

#[tokio::test]
async fn an_index_holds_for_stores_there_and_to_come_and_goes_with_its_last_user() {
    let stores = stores();
    let kind = resource().kind.clone();
    let name: Arc<str> = "target".into();
    let before = stores.open(key(), &resource()).unwrap();
    before
        .store()
        .replace(vec![object("a", "x")], "1".into())
        .unwrap();
    let one = stores.declare_index(&kind, &name, &path(false)).await;
    let two = stores.declare_index(&kind, &name, &path(false)).await;
    let found = |user: &StoreUse| user.store().by_index("target", "x", None);
    assert_eq!(found(&before), [ObjectKey::namespaced("ns", "a")]);
    let mut scoped = key();
    scoped.namespace = Some("ns".into());
    let after = stores.open(scoped, &resource()).unwrap();
    after
        .store()
        .replace(vec![object("b", "x")], "1".into())
        .unwrap();
    assert_eq!(found(&after), [ObjectKey::namespaced("ns", "b")]);
    drop(one);
    assert_eq!(found(&after).len(), 1, "somebody uses it still");
    drop(two);
    assert!(found(&before).is_empty() && found(&after).is_empty());
    assert!(stores.indexes.lock().is_empty());
    let again = stores.declare_index(&kind, &name, &path(false)).await;
    assert_eq!(found(&before).len(), 1);
    drop(again);
}

#[tokio::test]
async fn an_index_with_a_namespace_finds_what_refers_into_it() {
    let stores = stores();
    let user = stores.open(key(), &resource()).unwrap();
    user.store()
        .replace(vec![object("a", "x")], "1".into())
        .unwrap();
    let name: Arc<str> = "target".into();
    let held = stores
        .declare_index(&resource().kind, &name, &path(true))
        .await;
    assert_eq!(
        user.store().by_index("target", "other/x", None),
        [ObjectKey::namespaced("ns", "a")]
    );
    assert!(user.store().by_index("target", "ns/x", None).is_empty());
    drop(held);
}
