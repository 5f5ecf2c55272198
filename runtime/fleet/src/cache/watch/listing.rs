//! A list on its way into a store. Entry point: [`Listing::add`].

use super::end::WatchEnd;
use crate::cache::store::number;
use crate::json::Object;
use crate::request::ObjectKey;
use std::collections::{BTreeMap, HashSet};

/// Objects listed so far. The store is not touched before the list is whole.
pub(super) struct Listing {
    objects: BTreeMap<ObjectKey, Object>,
    bytes: usize,
    max_bytes: usize,
}

impl Listing {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            objects: BTreeMap::new(),
            bytes: 0,
            max_bytes,
        }
    }

    /// Takes in an object of the list. One that is there already is garbage, as no snapshot holds it twice.
    pub(super) fn add(&mut self, object: Object) -> Result<(), WatchEnd> {
        self.put(object, |_, _| false)
    }

    /// Takes in what an event tells while the list is streamed: a newer state may follow an older one.
    pub(super) fn update(&mut self, object: Object) -> Result<(), WatchEnd> {
        self.put(object, |there, new| {
            let version = |object: &Object| number(&object.resource_version());
            version(new) > version(there)
        })
    }

    fn put(
        &mut self,
        object: Object,
        may_follow: impl Fn(&Object, &Object) -> bool,
    ) -> Result<(), WatchEnd> {
        let key = object.key();
        if let Some(there) = self.objects.get(&key)
            && !may_follow(there, &object)
        {
            return Err(WatchEnd::Garbage("one object twice".into()));
        }
        self.bytes += object.json().len();
        if let Some(before) = self.objects.insert(key, object) {
            self.bytes -= before.json().len();
        }
        if self.bytes > self.max_bytes {
            return Err(WatchEnd::TooMuch(self.max_bytes));
        }
        Ok(())
    }

    /// Takes out what an event tells to be gone while the list is streamed.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(before) = self.objects.remove(key) {
            self.bytes -= before.json().len();
        }
    }

    /// The whole list.
    pub(super) fn finish(self) -> Result<Vec<Object>, WatchEnd> {
        let mut uids = HashSet::with_capacity(self.objects.len());
        for object in self.objects.values() {
            let uid = object.uid();
            if !uid.is_empty() && !uids.insert(uid) {
                return Err(WatchEnd::Garbage("two objects of one uid".into()));
            }
        }
        drop(uids);
        Ok(self.objects.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn object(name: &str, uid: &str, version: u64) -> Object {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        Object::parse(Bytes::from(text)).unwrap()
    }

    fn is_garbage<T>(result: Result<T, WatchEnd>) -> bool {
        matches!(result, Err(WatchEnd::Garbage(_)))
    }

    #[test]
    fn a_list_that_names_an_object_or_a_uid_twice_is_garbage() {
        let mut listing = Listing::new(1000);
        listing.add(object("a", "u", 1)).unwrap();
        assert!(is_garbage(listing.add(object("a", "v", 2))));
        listing.add(object("b", "u", 1)).unwrap();
        assert!(is_garbage(listing.finish()));
    }

    #[test]
    fn while_a_list_is_streamed_a_newer_state_may_follow_and_an_equal_one_may_not() {
        let mut listing = Listing::new(1000);
        listing.update(object("a", "u", 1)).unwrap();
        listing.update(object("a", "u", 2)).unwrap();
        assert!(is_garbage(listing.update(object("a", "u", 2))));
        listing.update(object("b", "", 3)).unwrap();
        listing.update(object("c", "", 4)).unwrap();
        listing.remove(&object("b", "", 3).key());
        let mut names: Vec<String> = listing
            .finish()
            .unwrap()
            .iter()
            .map(|object| format!("{}@{}", object.name(), object.resource_version()))
            .collect();
        names.sort();
        assert_eq!(names, ["a@2", "c@4"]);
    }

    #[test]
    fn a_list_that_has_no_end_is_cut_off() {
        let mut listing = Listing::new(10_000);
        let refused = (0..1000)
            .find_map(|n| listing.add(object(&n.to_string(), "", 1)).err())
            .expect("it ends");
        assert!(matches!(refused, WatchEnd::TooMuch(10_000)));
        assert!(listing.bytes < 11_000);
    }
}
