//! The promises of a store, as tests. The last one compares it with a naive store under random changes.

use super::*;
use crate::request::ObjectKey;
use crate::selector::LabelSelector;
use bytes::Bytes;
use page::Page;
use std::collections::BTreeMap as Naive;
use std::time::Instant;

fn resource() -> Arc<Resource> {
    Arc::new(Resource {
        kind: GroupVersionKind::new("", "v1", "ConfigMap"),
        plural: "configmaps".into(),
        namespaced: true,
    })
}

fn store() -> Store {
    let resource = resource();
    Store::new(
        StoreKey::whole(resource.kind.clone(), None, Projection::Full),
        resource,
        LeftOut::default(),
        false,
    )
}

fn page(store: &Store, query: &Query<'_>, after: Option<&ObjectKey>, limit: usize) -> Page {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(store.page(query, after, limit))
}

fn index(store: &Store, path: &IndexPath) {
    store.begin_index("ref", path);
    while store.fill_index("ref") {}
}

fn object(name: &str, uid: &str, version: u64) -> Object {
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"ns","uid":"{uid}","resourceVersion":"{version}","labels":{{"app":"{name}"}}}},"data":{{"ref":"{name}-target"}}}}"#
    );
    Object::parse(Bytes::from(json)).unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

fn held(store: &Store, name: &str) -> Option<u64> {
    store.get(&key(name)).map(|(_, version)| version)
}

#[derive(Default)]
struct Seen(Mutex<Vec<(String, bool, bool)>>);

impl Sink for Seen {
    fn changed(&self, change: &Change) {
        let name = change.object().unwrap().name().into_owned();
        self.0
            .lock()
            .push((name, change.new.is_some(), change.initial));
    }
}

#[test]
fn a_rebuilt_store_holds_what_the_next_list_holds_whatever_the_versions_say() {
    let store = store();
    let seen = Arc::new(Seen::default());
    let of = |name: &str, version| object(name, name, version);
    store
        .replace(
            vec![of("same", 3), of("other", 9), of("gone", 10)],
            "12".into(),
        )
        .unwrap();
    store.subscribe(seen.clone());
    seen.0.lock().clear();
    store.rebuild();
    assert!(!store.apply(of("late", 13)), "an event of the old history");
    assert_eq!(held(&store, "other"), Some(9), "readers see what was held");
    // The same uid and version, and other content.
    let text = String::from_utf8(of("other", 9).json().to_vec()).unwrap();
    let other = text.replace("other-target", "rewritten");
    let listed = [of("same", 3).json().to_vec(), other.into_bytes()];
    let listed = listed.map(|text| store.ingest_listed(&text).unwrap());
    store.replace(listed.into(), "11".into()).unwrap();
    let now = store.get(&key("other")).map(|(object, _)| object);
    let now = now.map(|object| String::from_utf8(object.json().to_vec()).unwrap());
    assert!(now.is_some_and(|text| text.contains("rewritten")));
    assert_eq!((held(&store, "late"), held(&store, "gone")), (None, None));
    let changes: Vec<String> = seen
        .0
        .lock()
        .iter()
        .map(|(name, ..)| name.clone())
        .collect();
    assert_eq!(changes, ["other", "gone"], "what is equal is no change");
    assert!(
        store.apply(of("next", 12)),
        "events of the new history count"
    );
    assert_eq!(held(&store, "next"), Some(12));
}

#[test]
fn an_older_object_is_ignored_and_the_same_version_is_no_event() {
    let store = store();
    let seen = Arc::new(Seen::default());
    store.subscribe(seen.clone());
    store.apply(object("a", "u", 5));
    store.apply(object("a", "u", 4));
    store.apply(object("a", "u", 5));
    assert_eq!(held(&store, "a"), Some(5));
    assert_eq!(seen.0.lock().len(), 1);
}

#[test]
fn a_list_older_than_the_store_is_refused_and_changes_nothing() {
    let store = store();
    store
        .replace(vec![object("a", "u", 5)], "10".into())
        .unwrap();
    assert_eq!(
        store.replace(vec![], "9".into()),
        Err(StaleList { list: 9, held: 10 })
    );
    assert_eq!(held(&store, "a"), Some(5));
    store.reset();
    store
        .replace(vec![object("a", "v", 1)], "2".into())
        .unwrap();
    assert_eq!(held(&store, "a"), Some(1));
}

#[test]
fn a_list_synthesises_deletes_but_keeps_own_writes_it_cannot_know_of() {
    let store = store();
    store
        .replace(vec![object("a", "u", 5), object("b", "v", 6)], "10".into())
        .unwrap();
    store.record_write(object("mine", "w", 20));
    let seen = Arc::new(Seen::default());
    store.subscribe(seen.clone());
    seen.0.lock().clear();
    store
        .replace(vec![object("b", "v", 6)], "15".into())
        .unwrap();
    assert_eq!(held(&store, "a"), None);
    assert_eq!(held(&store, "mine"), Some(20));
    assert_eq!(*seen.0.lock(), [("a".to_owned(), false, false)]);
}

#[test]
fn an_own_delete_stays_deleted_until_the_watch_has_passed_it() {
    let store = store();
    store
        .replace(vec![object("a", "u", 5)], "10".into())
        .unwrap();
    store.record_delete(&key("a"), Some("u"), Instant::now());
    store.apply(object("a", "u", 8));
    assert_eq!(
        held(&store, "a"),
        None,
        "a late event of the deleted object must not bring it back"
    );
    store.apply(object("a", "other-uid", 12));
    assert_eq!(
        held(&store, "a"),
        Some(12),
        "an object created anew is another one"
    );
    store.delete(&object("a", "u", 11));
    assert_eq!(
        held(&store, "a"),
        Some(12),
        "the late delete of the old object must not take the new one"
    );
}

#[test]
fn a_late_subscriber_sees_everything_there_is() {
    let store = store();
    store
        .replace(vec![object("a", "u", 5), object("b", "v", 6)], "10".into())
        .unwrap();
    let seen = Arc::new(Seen::default());
    let id = store.subscribe(seen.clone());
    assert_eq!(
        *seen.0.lock(),
        [("a".to_owned(), true, true), ("b".to_owned(), true, true)]
    );
    store.unsubscribe(id);
    store.apply(object("c", "w", 11));
    assert_eq!(seen.0.lock().len(), 2);
}

#[test]
fn an_index_follows_changes_and_contains_older_objects() {
    let store = store();
    store.apply(object("a", "u", 1));
    let path = IndexPath {
        path: "data.ref".parse().unwrap(),
        namespace_path: None,
    };
    index(&store, &path);
    index(&store, &path);
    assert_eq!(store.by_index("ref", "a-target", None), [key("a")]);
    store.apply(object("b", "v", 2));
    assert_eq!(store.by_index("ref", "b-target", None), [key("b")]);
    store.delete(&object("a", "u", 3));
    assert!(store.by_index("ref", "a-target", None).is_empty());
}

#[test]
fn pages_follow_one_another_in_key_order() {
    let store = store();
    for (version, name) in ["c", "a", "b"].into_iter().enumerate() {
        store.apply(object(name, name, version as u64 + 1));
    }
    let query = Query {
        part: Some("ns"),
        ..Query::default()
    };
    let first = page(&store, &query, None, 2);
    assert!(first.more);
    let second = page(&store, &query, first.last.as_ref(), 2);
    let names = |page: &Page| {
        page.objects
            .iter()
            .map(|o| o.name().into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&first), names(&second), second.more),
        (vec!["a".into(), "b".into()], vec!["c".into()], false)
    );
    let labels: LabelSelector = "app in (b)".parse().unwrap();
    let labelled = page(
        &store,
        &Query {
            labels: Some(&labels),
            ..Query::default()
        },
        None,
        10,
    );
    assert_eq!(names(&labelled), ["b"]);
    assert!(
        page(
            &store,
            &Query {
                part: Some("other"),
                ..Query::default()
            },
            None,
            10
        )
        .objects
        .is_empty()
    );
}

#[test]
fn a_late_answer_to_a_write_does_not_restore_a_deleted_object() {
    let store = store();
    store.replace(vec![], "1".into()).unwrap();
    store.apply(object("a", "u", 5));
    store.delete(&object("a", "u", 6));
    store.record_write(object("a", "u", 5));
    assert_eq!(held(&store, "a"), None, "the answer to a write is late");
    store.record_write(object("a", "v", 7));
    assert_eq!(held(&store, "a"), Some(7));
}

#[test]
fn an_object_that_is_deleted_before_its_first_event_does_not_appear() {
    let store = store();
    store.replace(vec![], "1".into()).unwrap();
    store.record_delete(&key("a"), Some("u"), Instant::now());
    store.apply(object("a", "u", 5));
    assert_eq!(held(&store, "a"), None);
    store.delete(&object("a", "u", 6));
    store.apply(object("a", "v", 7));
    assert_eq!(held(&store, "a"), Some(7));
}

#[test]
fn a_list_that_is_older_than_an_own_delete_does_not_restore_the_object() {
    let store = store();
    store
        .replace(vec![object("a", "u", 5)], "10".into())
        .unwrap();
    store.record_delete(&key("a"), Some("u"), Instant::now());
    store
        .replace(vec![object("a", "u", 5)], "11".into())
        .unwrap();
    store.apply(object("a", "u", 12));
    assert_eq!(held(&store, "a"), None);
}

#[test]
fn an_evicted_object_stays_out_until_a_newer_event() {
    let store = store();
    store
        .replace(vec![object("a", "u", 5)], "5".into())
        .unwrap();
    store.evict(&object("a", "u", 7), Instant::now());
    store.apply(object("a", "u", 6));
    assert_eq!(held(&store, "a"), None, "older than the own write");
    store.apply(object("a", "u", 8));
    assert_eq!(held(&store, "a"), Some(8), "selected again since");
}

#[test]
fn a_late_delete_does_not_remove_a_newer_own_write() {
    let store = store();
    store
        .replace(vec![object("a", "u", 5)], "5".into())
        .unwrap();
    store.record_write(object("a", "u", 7));
    store.delete(&object("a", "u", 6));
    assert_eq!(held(&store, "a"), Some(7));
}

#[test]
fn after_a_reset_nothing_counts_before_the_next_list() {
    let store = store();
    store
        .replace(vec![object("a", "u", 500)], "900".into())
        .unwrap();
    store.reset();
    assert!(store.take_relist_request());
    assert!(!store.take_relist_request());
    store.apply(object("a", "u", 901));
    store.record_write(object("b", "u", 902));
    store.reached("903");
    assert!(store.version().is_empty());
    store
        .replace(vec![object("c", "w", 1)], "2".into())
        .unwrap();
    assert_eq!(store.size().0, 1);
    store.apply(object("c", "w", 3));
    assert_eq!(held(&store, "c"), Some(3));
}

#[test]
fn a_store_has_reached_the_version_of_its_list_even_if_no_object_has_it() {
    let store = store();
    store
        .replace(vec![object("a", "u", 5)], "9".into())
        .unwrap();
    assert_eq!((store.seen(), *store.reached_version().borrow()), (5, 9));
    assert!(store.reached("11"));
    assert!(!store.reached("11"), "no progress");
    assert_eq!((store.seen(), *store.reached_version().borrow()), (5, 11));
}

#[test]
fn keys_of_one_namespace_share_its_name() {
    let store = store();
    for (version, name) in ["m", "a", "z"].into_iter().enumerate() {
        store.apply(object(name, name, version as u64 + 1));
    }
    let state = store.state.read();
    let mut namespaces = state
        .objects
        .iter()
        .map(|(key, _)| key.namespace.clone().unwrap());
    let first = namespaces.next().unwrap();
    assert!(namespaces.all(|other| Arc::ptr_eq(&first, &other)));
}

#[test]
fn a_newer_list_with_an_older_state_replaces_the_newer_state() {
    let store = store();
    store
        .replace(vec![object("a", "u", 900)], "900".into())
        .unwrap();
    store.record_write(object("mine", "w", 2000));
    // As of a server that was restored from before 900 and has gone on since.
    let restored = vec![object("a", "u", 500), object("mine", "w", 1999)];
    store.replace(restored, "1000".into()).unwrap();
    assert_eq!(held(&store, "a"), Some(500));
    assert_eq!(held(&store, "mine"), Some(2000), "newer than the list");
}

#[test]
fn a_text_that_is_not_an_object_of_the_store_is_refused() {
    let whole = store();
    let text = |version: &str, kind: &str| {
        format!(r#"{{"kind":"{kind}","metadata":{{"name":"a","namespace":"ns"{version}}}}}"#)
    };
    let version = r#","resourceVersion":"1""#;
    let ingest = |store: &Store, text: String| store.ingest(text.as_bytes()).map(drop);
    assert_eq!(ingest(&whole, text(version, "ConfigMap")), Ok(()));
    assert_eq!(ingest(&whole, text("", "ConfigMap")), Err(Unfit::NoVersion));
    let empty = r#","resourceVersion":"""#;
    assert_eq!(
        ingest(&whole, text(empty, "ConfigMap")),
        Err(Unfit::NoVersion)
    );
    assert_eq!(
        ingest(&whole, text(version, "Secret")),
        Err(Unfit::OtherKind)
    );
    let resource = resource();
    let scoped = StoreKey::whole(
        resource.kind.clone(),
        Some("other".into()),
        Projection::Full,
    );
    let scoped = Store::new(scoped, resource, LeftOut::default(), false);
    assert_eq!(
        ingest(&scoped, text(version, "ConfigMap")),
        Err(Unfit::OtherNamespace)
    );
}

#[test]
fn a_store_of_metadata_holds_nothing_else() {
    let resource = resource();
    let key = StoreKey::whole(resource.kind.clone(), None, Projection::Metadata);
    let store = Store::new(key, resource, LeftOut::default(), false);
    let sent = object("a", "u", 1);
    let held = store.ingest(sent.json()).unwrap();
    let json: serde_json::Value = serde_json::from_slice(held.json()).unwrap();
    assert_eq!(json["kind"], "ConfigMap");
    assert_eq!(json["metadata"]["labels"]["app"], "a");
    assert!(json["data"].is_null());
}

#[test]
fn a_new_list_shares_objects_that_have_not_changed() {
    let store = store();
    store
        .replace(vec![object("a", "u", 5), object("b", "v", 6)], "10".into())
        .unwrap();
    let text = |name| store.get(&key(name)).unwrap().0.json().clone();
    let listed = |object: &Object| store.ingest_listed(object.json()).unwrap().json().clone();
    assert_eq!(listed(&object("a", "u", 5)).as_ptr(), text("a").as_ptr());
    assert_ne!(listed(&object("b", "v", 7)).as_ptr(), text("b").as_ptr());
    assert_ne!(
        listed(&object("a", "other", 5)).as_ptr(),
        text("a").as_ptr(),
        "another object of the same name"
    );
}

#[test]
fn a_sink_that_moves_gets_the_differences_and_nothing_twice() {
    let (scoped, whole) = (store(), store());
    let sink = Arc::new(Seen::default());
    let of_both = vec![object("a", "u", 5), object("b", "v", 6)];
    scoped.replace(of_both, "10".into()).unwrap();
    let id = scoped.subscribe(sink.clone());
    sink.0.lock().clear();
    // The other one is further: "a" has changed, "b" is gone, "c" is new.
    let further = vec![object("a", "u", 11), object("c", "w", 12)];
    whole.replace(further, "12".into()).unwrap();
    whole.take_over(sink.clone(), &scoped);
    scoped.unsubscribe(id);
    let seen = |name: &str, there| (name.to_owned(), there, name == "c");
    assert_eq!(
        *sink.0.lock(),
        [seen("a", true), seen("c", true), seen("b", false)]
    );
    sink.0.lock().clear();
    whole.apply(object("a", "u", 13));
    assert_eq!(*sink.0.lock(), [seen("a", true)]);
}

#[test]
fn without_its_index_a_store_is_searched() {
    let store = store();
    store
        .replace(vec![object("a", "u", 5), object("b", "v", 6)], "10".into())
        .unwrap();
    let path = IndexPath {
        path: "data.ref".parse().unwrap(),
        namespace_path: None,
    };
    let found = |store: &Store| {
        let by = ByIndex {
            name: "ref",
            path: &path,
            value: "b-target",
        };
        let query = Query {
            index: Some(by),
            ..Query::default()
        };
        let found = page(store, &query, None, 10);
        found
            .objects
            .iter()
            .map(|object| object.name().into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&store), ["b"]);
    index(&store, &path);
    assert_eq!(found(&store), ["b"]);
    store.remove_index("ref");
    assert_eq!(found(&store), ["b"]);
}

#[test]
fn a_watch_that_is_not_trusted_leaves_the_problem_until_it_delivers() {
    let store = store();
    let problem = Problem {
        definite: false,
        unreachable: true,
        stale: false,
        message: "silent".into(),
        error: None,
    };
    let has_problem = |store: &Store| store.progress().borrow().problem.is_some();
    store.set_problem(problem.clone());
    store.watch_opened(false, false);
    assert!(has_problem(&store));
    store.watch_proven();
    assert!(!has_problem(&store));
    store.set_problem(problem);
    store.watch_opened(true, true);
    assert!(!has_problem(&store));
}

/// Random changes against a naive version of the rules.
#[test]
fn random_changes_agree_with_a_naive_store() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let store = store();
        let seen = Arc::new(Seen::default());
        store.subscribe(seen.clone());
        let mut naive: Naive<String, (String, u64)> = Naive::new();
        let mut version = 1;
        let mut list_version = 0;
        for _ in 0..300 {
            let name = format!("n{}", rng.u8(0..6));
            match rng.u8(0..4) {
                which @ (0 | 1) => {
                    let at = if rng.bool() {
                        version += 1;
                        version
                    } else {
                        rng.u64(1..=version)
                    };
                    let uid = naive
                        .get(&name)
                        .map_or_else(|| format!("{name}-{version}"), |(uid, _)| uid.clone());
                    let absent = !naive.contains_key(&name);
                    let newer = naive.get(&name).is_none_or(|(_, held)| at > *held);
                    if which == 0 {
                        store.apply(object(&name, &uid, at));
                    } else {
                        store.record_write(object(&name, &uid, at));
                    }
                    // An own write that the watch has passed tells nothing of what is absent.
                    if newer && (which == 0 || !absent || at > list_version) {
                        naive.insert(name, (uid, at));
                    }
                    if which == 0 {
                        list_version = list_version.max(at);
                    }
                }
                2 => {
                    let Some((uid, _)) = naive.get(&name).cloned() else {
                        continue;
                    };
                    version += 1;
                    store.delete(&object(&name, &uid, version));
                    list_version = list_version.max(version);
                    naive.remove(&name);
                }
                _ => {
                    let at = rng.u64(0..=version + 1);
                    let listed: Vec<Object> = naive
                        .iter()
                        .filter(|_| rng.bool())
                        .map(|(n, (u, v))| object(n, u, *v))
                        .collect();
                    let names: Vec<String> = listed.iter().map(|o| o.name().into_owned()).collect();
                    let accepted = store.replace(listed, at.to_string()).is_ok();
                    assert_eq!(accepted, at >= list_version, "seed {seed}");
                    if accepted {
                        list_version = at;
                        naive.retain(|n, (_, v)| names.contains(n) || *v > at);
                    }
                }
            }
            let objects: Naive<String, (String, u64)> = page(&store, &Query::default(), None, 100)
                .objects
                .iter()
                .map(|o| {
                    (
                        o.name().into_owned(),
                        (o.uid().into_owned(), number(&o.resource_version()).unwrap()),
                    )
                })
                .collect();
            assert_eq!(objects, naive, "seed {seed}");
            let bytes: usize = page(&store, &Query::default(), None, 100)
                .objects
                .iter()
                .map(|o| o.json().len())
                .sum();
            assert_eq!(store.size(), (naive.len(), bytes), "seed {seed}");
        }
        // Replaying what the sink saw gives what the store holds.
        let mut replayed = std::collections::BTreeSet::new();
        for (name, there, _) in seen.0.lock().iter() {
            if *there {
                replayed.insert(name.clone())
            } else {
                replayed.remove(name)
            };
        }
        assert_eq!(replayed, naive.keys().cloned().collect(), "seed {seed}");
    }
}
