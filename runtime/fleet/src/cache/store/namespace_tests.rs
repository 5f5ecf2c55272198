//! Namespaces of a store: sinks that are shown one of them, and namespaces that are left out.

use super::*;
use crate::request::ObjectKey;
use bytes::Bytes;

fn store(left_out: LeftOut) -> Store {
    let resource = Arc::new(Resource {
        kind: GroupVersionKind::new("", "v1", "ConfigMap"),
        plural: "configmaps".into(),
        namespaced: true,
    });
    let key = StoreKey::whole(resource.kind.clone(), None, Projection::Full);
    Store::new(key, resource, left_out, false)
}

fn object(namespace: &str, name: &str, version: u64) -> Object {
    let json = format!(
        r#"{{"kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{namespace}/{name}","resourceVersion":"{version}"}}}}"#
    );
    Object::parse(Bytes::from(json)).unwrap()
}

/// What it was shown, as `+namespace/name` and `-namespace/name`.
struct Seen {
    namespace: Option<Arc<str>>,
    shown: Mutex<Vec<String>>,
}

impl Seen {
    fn of(namespace: Option<&str>) -> Arc<Self> {
        Arc::new(Self {
            namespace: namespace.map(Arc::from),
            shown: Mutex::default(),
        })
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.shown.lock())
    }
}

impl Sink for Seen {
    fn changed(&self, change: &Change) {
        let sign = if change.new.is_some() { '+' } else { '-' };
        let key = change.object().unwrap().key();
        self.shown.lock().push(format!("{sign}{key}"));
    }

    fn part(&self) -> Option<Arc<str>> {
        self.namespace.clone()
    }
}

#[test]
fn a_sink_of_a_namespace_is_shown_nothing_of_others() {
    let store = store(LeftOut::default());
    let held = vec![
        object("a", "one", 1),
        object("b", "one", 2),
        object("c", "one", 3),
    ];
    store.replace(held, "3".into()).unwrap();
    let (a, b, all) = (Seen::of(Some("a")), Seen::of(Some("b")), Seen::of(None));
    let id = store.subscribe(a.clone());
    store.subscribe(b.clone());
    store.subscribe(all.clone());
    assert_eq!(
        (a.take(), b.take()),
        (vec!["+a/one".into()], vec!["+b/one".into()])
    );
    assert_eq!(all.take().len(), 3);
    store.apply(object("a", "two", 4));
    store.delete(&object("b", "one", 5));
    assert_eq!(
        (a.take(), b.take()),
        (vec!["+a/two".into()], vec!["-b/one".into()])
    );
    assert_eq!(all.take(), ["+a/two", "-b/one"]);
    store.unsubscribe(id);
    store.apply(object("a", "three", 6));
    assert!(a.take().is_empty());
}

#[test]
fn a_sink_of_a_namespace_takes_over_only_that_namespace() {
    let (old, new) = (store(LeftOut::default()), store(LeftOut::default()));
    old.replace(
        vec![object("a", "gone", 1), object("b", "gone", 2)],
        "2".into(),
    )
    .unwrap();
    new.replace(
        vec![object("a", "new", 3), object("b", "new", 4)],
        "4".into(),
    )
    .unwrap();
    let a = Seen::of(Some("a"));
    old.subscribe(a.clone());
    a.take();
    new.take_over(a.clone(), &old);
    assert_eq!(a.take(), ["+a/new", "-a/gone"]);
}

#[test]
fn objects_of_a_namespace_that_is_left_out_are_not_kept() {
    let left_out = LeftOut::default();
    let store = store(left_out.clone());
    let all = Seen::of(None);
    let list = || vec![object("a", "one", 1), object("b", "one", 2)];
    store.replace(list(), "2".into()).unwrap();
    store.subscribe(all.clone());
    all.take();

    left_out.set(["b".into()].into());
    store.remove_left_out();
    assert_eq!(all.take(), ["-b/one"]);
    assert!(store.apply(object("b", "two", 3)), "the watch is as far");
    store.record_write(object("b", "three", 4));
    assert_eq!((store.size().0, store.version()), (1, "3".to_owned()));
    store.replace(list(), "5".into()).unwrap();
    assert_eq!(store.size().0, 1);
    assert!(all.take().is_empty());

    left_out.set([].into());
    store.replace(list(), "6".into()).unwrap();
    assert_eq!(all.take(), ["+b/one"]);
}

#[test]
fn the_size_of_a_namespace_is_that_of_its_objects() {
    let store = store(LeftOut::default());
    let objects = vec![
        object("a", "one", 1),
        object("b", "one", 2),
        object("b", "two", 3),
    ];
    let bytes = objects[1].json().len() + objects[2].json().len();
    store.replace(objects, "3".into()).unwrap();
    assert_eq!(store.size_in(&"b".into()), (2, bytes));
    assert_eq!(store.size_in(&"absent".into()), (0, 0));
    let key = ObjectKey::namespaced("b", "one");
    assert!(store.get(&key).is_some());
}
