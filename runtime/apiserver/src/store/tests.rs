//! Lists, pages and changes of a store.

use super::*;
use serde_json::json;

fn maps() -> CollectionId {
    CollectionId {
        group: "".into(),
        plural: "configmaps".into(),
        identity: "".into(),
    }
}

fn map(name: &str, value: u32) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"namespace": "a", "name": name}, "data": {"v": value.to_string()}})
}

fn names(page: &Page) -> Vec<&str> {
    page.objects
        .iter()
        .map(|object| &*object.head.name)
        .collect()
}

#[test]
fn a_list_at_an_older_version_is_the_present_with_the_changes_undone() {
    let mut store = Store::new(10);
    store.put(&maps(), map("one", 1));
    let then = store.put(&maps(), map("two", 1)).head.version;
    store.put(&maps(), map("two", 2));
    store.put(&maps(), map("three", 1));
    store.remove(&maps(), "a/one");
    let old = store
        .page(&maps(), "a/", None, Some(then), 10, |_, _| true)
        .unwrap();
    assert_eq!(names(&old), ["one", "two"]);
    assert_eq!(old.objects[1].value()["data"]["v"], "1");
    let now = store
        .page(&maps(), "a/", None, None, 10, |_, _| true)
        .unwrap();
    assert_eq!(names(&now), ["three", "two"]);
}

#[test]
fn an_object_is_read_as_it_was() {
    let mut store = Store::new(10);
    let first = store.put(&maps(), map("one", 1)).head.version;
    store.put(&maps(), map("one", 2));
    store.put(&maps(), map("two", 1));
    store.remove(&maps(), "a/one");
    let value = |version| {
        let object = store.at(&maps(), "a/one", version);
        object.map(|object| object.value()["data"]["v"].clone())
    };
    assert_eq!(value(first - 1), None);
    assert_eq!(value(first), Some(json!("1")));
    assert_eq!(value(first + 2), Some(json!("2")));
    assert_eq!(value(store.version()), None);
}

#[test]
fn a_backup_has_the_objects_and_no_past() {
    let mut store = Store::new(10);
    store.put(&maps(), map("one", 1));
    let then = store.put(&maps(), map("two", 1)).head.version;
    let backup = store.backup(then);
    store.remove(&maps(), "a/one");
    let page = backup
        .page(&maps(), "a/", None, None, 10, |_, _| true)
        .unwrap();
    assert_eq!((names(&page), page.version), (vec!["one", "two"], then));
    assert!(backup.changes(&maps(), then - 1, 10).is_err());
    assert!(backup.changes(&maps(), then, 10).unwrap().is_empty());
}

#[test]
fn a_page_names_where_the_next_begins_and_how_much_is_left() {
    let mut store = Store::new(10);
    for name in ["c", "a", "b"] {
        store.put(&maps(), map(name, 1));
    }
    let page = store
        .page(&maps(), "a/", None, None, 1, |_, _| true)
        .unwrap();
    assert_eq!(
        (names(&page), page.rest.clone()),
        (vec!["a"], Some(("a/b".into(), 2)))
    );
}

#[test]
fn changes_before_the_ring_are_reported_as_gone() {
    let mut store = Store::new(2);
    let first = store.put(&maps(), map("a", 1)).head.version;
    assert_eq!(store.changes(&maps(), first, 9).unwrap().len(), 0);
    for value in 2..5 {
        store.put(&maps(), map("a", value));
    }
    assert!(store.changes(&maps(), first, 9).is_err());
    assert_eq!(store.changes(&maps(), first + 1, 9).unwrap().len(), 2);
    store.compact();
    assert!(store.changes(&maps(), first + 2, 9).is_err());
    assert!(
        store
            .changes(&maps(), store.version(), 9)
            .unwrap()
            .is_empty()
    );
}
