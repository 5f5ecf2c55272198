//! Pages of a store. Entry points: [`Query`] and [`Store::page`].
//!
//! A page is of one state of the store: the search works on a copy, which is made in constant time. It takes breaks between objects, so that
//! a search through a large store delays neither changes nor other readers.

use super::Store;
use super::index::IndexPath;
use super::rules::{Entry, State};
use super::sorted::{Cursor, Sorted};
use crate::api::{Json, ListPage, Projection};
use crate::breaks::Breaks;
use crate::json::Object;
use crate::request::ObjectKey;
use crate::selector::{FieldSelector, LabelSelector};
use crate::workspace;

/// Objects that a search tests before it may pause.
const STEP: usize = 16;

/// Some of the objects that a query selects.
pub(crate) struct Page {
    pub(crate) objects: Vec<Object>,
    /// Key of the last object; the next page begins after it.
    pub(crate) last: Option<ObjectKey>,
    /// Whether more objects follow.
    pub(crate) more: bool,
    pub(crate) version: String,
}

impl Page {
    /// The page as clients see it, in the projection that they asked for.
    pub(crate) async fn into_list(
        self,
        projection: Projection,
        continue_token: Option<String>,
    ) -> ListPage {
        let mut items = Vec::with_capacity(self.objects.len());
        let mut breaks = Breaks::begin();
        for object in self.objects {
            items.push(projected(&object, projection));
            breaks.check().await;
        }
        ListPage {
            items,
            continue_token,
            resource_version: self.version,
        }
    }
}

/// An object as a client asked for it.
pub(crate) fn projected(object: &Object, projection: Projection) -> Json {
    match projection {
        Projection::Full => object.json().clone(),
        Projection::Metadata => object.metadata_only().json().clone(),
    }
}

impl Store {
    /// The first `limit` objects after `after` that a query selects, in key order.
    pub(crate) async fn page(
        &self,
        query: &Query<'_>,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Page {
        let mut search = Search::begin(&self.state.read(), *query, after, limit);
        let step = search.step();
        let mut breaks = Breaks::begin();
        while search.advance(step) {
            breaks.check().await;
        }
        search.page
    }
}

/// A page that is being filled.
struct Search<'a> {
    query: Query<'a>,
    limit: usize,
    objects: Sorted<Entry>,
    /// The keys that an index has for the query's value, if the store has that index.
    indexed: Option<Sorted<()>>,
    /// A position in `indexed`, or else in `objects`.
    cursor: Cursor,
    page: Page,
}

impl<'a> Search<'a> {
    fn begin(state: &State, query: Query<'a>, after: Option<&ObjectKey>, limit: usize) -> Self {
        let indexed = query.index.and_then(|by| {
            let index = state.indexes.get(by.name);
            Some(index.filter(|index| index.is_filled())?.keys(by.value))
        });
        let objects = state.objects.clone();
        let cursor = query.from(after, |key, behind| match &indexed {
            Some(keys) => keys.seek(key, behind),
            None => objects.seek(key, behind),
        });
        Self {
            query,
            limit,
            objects,
            indexed,
            cursor,
            page: Page {
                objects: Vec::new(),
                last: None,
                more: false,
                version: state.version.clone(),
            },
        }
    }

    /// Objects to test before a pause: one at a time where a path must be searched for in each, because an object may be large.
    fn step(&self) -> usize {
        match (self.query.index, &self.indexed) {
            (Some(_), None) => 1,
            _ => STEP,
        }
    }

    /// Tests some objects. Returns whether there may be more.
    fn advance(&mut self, count: usize) -> bool {
        (0..count).all(|_| self.test_next().is_some())
    }

    /// Tests the next object, and adds it to the page if the query selects it. `None` ends the search.
    fn test_next(&mut self) -> Option<()> {
        let (key, object) = match &self.indexed {
            None => self.objects.read(&mut self.cursor)?,
            Some(keys) => {
                let (key, ()) = keys.read(&mut self.cursor)?;
                let Some(object) = self.objects.get(key) else {
                    return Some(());
                };
                (key, object)
            }
        };
        if self.query.is_past(key) {
            return None;
        }
        let object = &object.object;
        let has_value = match (self.query.index, &self.indexed) {
            (Some(by), None) => by.path.holds(object, by.value),
            _ => true,
        };
        if !has_value || !self.query.matches(key, object) {
            return Some(());
        }
        if self.page.objects.len() == self.limit {
            self.page.more = true;
            return None;
        }
        self.page.objects.push(object.clone());
        self.page.last = Some(key.clone());
        Some(())
    }
}

/// A value at the path of an index.
#[derive(Clone, Copy)]
pub(crate) struct ByIndex<'a> {
    /// The stores' name of the index. A store that has not filled such an index is searched object by object.
    pub(crate) name: &'a str,
    pub(crate) path: &'a IndexPath,
    pub(crate) value: &'a str,
}

/// Selects objects of a store.
#[derive(Clone, Copy, Default)]
pub(crate) struct Query<'a> {
    /// The [part](crate::workspace) of the cache; `None`: all of it.
    pub(crate) part: Option<&'a str>,
    pub(crate) labels: Option<&'a LabelSelector>,
    /// Requirements on `metadata.name` and `metadata.namespace` only.
    pub(crate) fields: Option<&'a FieldSelector>,
    pub(crate) index: Option<ByIndex<'a>>,
    /// Which objects the caller may see, beside the rules on namespaces; `None`: all.
    pub(crate) visible: Option<&'a Visible<'a>>,
}

/// Whether a caller may see an object.
pub(crate) type Visible<'a> = dyn Fn(&Object) -> bool + Send + Sync + 'a;

impl Query<'_> {
    pub(crate) fn matches(&self, key: &ObjectKey, object: &Object) -> bool {
        self.part
            .is_none_or(|part| workspace::holds(part, key.namespace.as_deref()))
            && self
                .labels
                .is_none_or(|labels| labels.matches(&object.labels()))
            && self.fields.is_none_or(|fields| {
                fields.matches(|field| match field {
                    "metadata.name" => &*key.name,
                    _ => shown_namespace(key),
                })
            })
            && self.visible.is_none_or(|visible| visible(object))
    }

    /// The first position. `seek` finds the position of a key, or the one after it.
    fn from(
        &self,
        after: Option<&ObjectKey>,
        seek: impl FnOnce(&ObjectKey, bool) -> Cursor,
    ) -> Cursor {
        match (after, self.part) {
            (Some(after), _) => seek(after, true),
            (None, Some(part)) => seek(&ObjectKey::namespaced(part, ""), false),
            (None, None) => Cursor::default(),
        }
    }

    /// Whether neither this key nor a later one can be in the part.
    fn is_past(&self, key: &ObjectKey) -> bool {
        let namespace = key.namespace.as_deref();
        self.part
            .is_some_and(|part| namespace > Some(part) && !workspace::holds(part, namespace))
    }
}

/// The namespace of a key without the logical cluster.
fn shown_namespace(key: &ObjectKey) -> &str {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    match workspace::split(namespace) {
        Some((_, shown)) => shown.unwrap_or_default(),
        None => namespace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::store::{LeftOut, StoreKey};
    use crate::kind::{GroupVersionKind, Resource};
    use bytes::Bytes;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn store() -> Store {
        let kind = GroupVersionKind::new("", "v1", "ConfigMap");
        let resource = Arc::new(Resource {
            kind: kind.clone(),
            plural: "configmaps".into(),
            namespaced: true,
        });
        Store::new(
            StoreKey::whole(kind, None, Projection::Full),
            resource,
            LeftOut::default(),
            false,
        )
    }

    fn object(namespace: &str, name: &str, colour: &str, version: u64) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{name}","resourceVersion":"{version}","labels":{{"colour":"{colour}"}}}},"data":{{"colour":"{colour}"}}}}"#
        );
        Object::parse(Bytes::from(json)).unwrap()
    }

    fn path() -> IndexPath {
        IndexPath {
            path: "data.colour".parse().unwrap(),
            namespace_path: None,
        }
    }

    fn fill(store: &Store, path: &IndexPath) {
        store.begin_index("colour", path);
        while store.fill_index("colour") {}
    }

    fn keys(page: &Page) -> Vec<ObjectKey> {
        page.objects.iter().map(Object::key).collect()
    }

    fn rest(search: &mut Search<'_>) {
        while search.advance(STEP) {}
    }

    #[test]
    fn a_page_is_of_one_state_of_a_store_that_changes_meanwhile() {
        let path = path();
        let by = ByIndex {
            name: "colour",
            path: &path,
            value: "red",
        };
        for index in [None, Some(by)] {
            let store = store();
            for number in 0..1000 {
                store.apply(object("ns", &format!("m{number:04}"), "red", number + 1));
            }
            fill(&store, &path);
            let query = Query {
                index,
                ..Query::default()
            };
            let mut search = Search::begin(&store.state.read(), query, None, usize::MAX);
            assert!(search.advance(STEP));
            // A search without a copy would see neither the first nor the last object, although one of them existed at any time.
            store.apply(object("ns", "a", "red", 2000));
            store.delete(&object("ns", "m0999", "red", 2001));
            rest(&mut search);
            assert_eq!(search.page.objects.len(), 1000);
            assert_eq!(&*search.page.last.unwrap().name, "m0999");
            assert_eq!(search.page.version, "1000");
        }
    }

    #[test]
    fn pages_have_what_a_naive_search_finds() {
        let mut random = fastrand::Rng::with_seed(7);
        let (store, path) = (store(), path());
        let mut naive = BTreeMap::new();
        let colours = ["red", "green", "blue"];
        for version in 1..1500 {
            match version {
                400 => store.begin_index("colour", &path),
                // Objects change while it is filled, before and after the key that it has reached.
                _ if version % 4 == 0 => drop(store.fill_index("colour")),
                _ => {}
            }
            let namespace = random.choice(["a", "b", "c"]).unwrap();
            let colour = random.choice(colours).unwrap();
            let object = object(namespace, &random.u16(..500).to_string(), colour, version);
            if random.u8(..4) == 0 {
                naive.remove(&object.key());
                store.delete(&object);
            } else {
                naive.insert(object.key(), colour);
                store.apply(object);
            }
        }
        assert!(
            store.fill_index("colour"),
            "objects change while it is filled"
        );
        for whole in [false, true] {
            while whole && store.fill_index("colour") {}
            for round in 0..2000 {
                let wanted = random.choice(colours).unwrap();
                let by = ByIndex {
                    name: random.choice(["colour", "none"]).unwrap(),
                    path: &path,
                    value: wanted,
                };
                let labels = format!("colour!={}", random.choice(colours).unwrap());
                let labels: LabelSelector = labels.parse().unwrap();
                let query = Query {
                    part: random
                        .choice([None, Some("a"), Some("b"), Some("d")])
                        .unwrap(),
                    labels: random.bool().then_some(&labels),
                    fields: None,
                    visible: None,
                    index: random.bool().then_some(by),
                };
                let after = ObjectKey::namespaced("b", &random.u16(..500).to_string());
                let after = random.bool().then_some(&after);
                let limit = random.usize(1..300);
                let mut search = Search::begin(&store.state.read(), query, after, limit);
                rest(&mut search);
                let all = naive.iter().filter(|(key, colour)| {
                    let part = query.part;
                    part.is_none_or(|part| key.namespace.as_deref() == Some(part))
                        && after.is_none_or(|after| *key > after)
                        && query.index.is_none_or(|by| by.value == **colour)
                        && (query.labels.is_none()
                            || labels.to_string() != format!("colour!={colour}"))
                });
                let all: Vec<ObjectKey> = all.map(|(key, _)| key.clone()).collect();
                let found = keys(&search.page);
                assert!(found.iter().eq(all.iter().take(limit)), "round {round}");
                assert_eq!(search.page.more, all.len() > limit, "round {round}");
                assert_eq!(search.page.last.as_ref(), found.last(), "round {round}");
            }
        }
    }
}
