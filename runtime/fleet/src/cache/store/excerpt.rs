//! The part of an object that a store keeps, where nobody reads the rest. Entry point: [`Excerpt`].

use crate::json::Object;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Makes the part of an object that a store keeps. Two of the same name are the same.
#[derive(Clone, Copy)]
pub(crate) struct Excerpt {
    name: &'static str,
    /// Makes an object's text shorter, with all of its metadata. `None`: it keeps the whole text.
    shorten: fn(&[u8]) -> Option<Vec<u8>>,
}

impl Excerpt {
    pub(crate) const fn new(name: &'static str, shorten: fn(&[u8]) -> Option<Vec<u8>>) -> Self {
        Self { name, shorten }
    }

    /// What it makes of a text.
    #[cfg(test)]
    pub(crate) fn shortened(self, text: &[u8]) -> Option<Vec<u8>> {
        (self.shorten)(text)
    }

    /// The excerpt of an object.
    pub(super) fn of(self, object: Object) -> Object {
        let shorter = (self.shorten)(object.json()).and_then(|mut text| {
            text.shrink_to_fit();
            object.with_text(text)
        });
        shorter.unwrap_or(object)
    }
}

impl PartialEq for Excerpt {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Excerpt {}

impl Hash for Excerpt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Excerpt").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Projection;
    use crate::cache::store::{LeftOut, Store, StoreKey};
    use crate::kind::{GroupVersionKind, Resource};
    use serde_json::{Value as Json, json};
    use std::sync::Arc;

    /// Keeps `data` without its values.
    const NAMES: Excerpt = Excerpt::new("names", |text| {
        let mut all: Json = serde_json::from_slice(text).ok()?;
        for value in all["data"].as_object_mut()?.values_mut() {
            *value = Json::Null;
        }
        serde_json::to_vec(&all).ok()
    });
    /// Another object than the one that it was given.
    const FORGED: Excerpt = Excerpt::new("forged", |text| {
        let mut all: Json = serde_json::from_slice(text).ok()?;
        all["metadata"]["name"] = "other".into();
        serde_json::to_vec(&all).ok()
    });

    fn kept(excerpt: Excerpt, object: &Json) -> Json {
        let resource = Arc::new(Resource {
            kind: GroupVersionKind::new("", "v1", "ConfigMap"),
            plural: "configmaps".into(),
            namespaced: true,
        });
        let mut key = StoreKey::whole(resource.kind.clone(), None, Projection::Full);
        key.excerpt = Some(excerpt);
        assert!(key.has(Projection::Metadata) && !key.has(Projection::Full));
        let store = Store::new(key, resource, LeftOut::default(), false);
        let kept = store.ingest(object.to_string().as_bytes()).unwrap();
        serde_json::from_slice(kept.json()).unwrap()
    }

    #[test]
    fn a_store_keeps_an_excerpt_of_the_same_object_or_all_of_it() {
        let metadata = json!({"name": "a", "namespace": "b", "resourceVersion": "1"});
        let of = |data: Json| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        let full = of(json!({"x": "long"}));
        assert_eq!(kept(NAMES, &full), of(json!({"x": null})));
        let without = of(Json::Null);
        assert_eq!(kept(NAMES, &without), without);
        assert_eq!(kept(FORGED, &full), full);
    }
}
