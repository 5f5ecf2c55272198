//! A list before it is complete, with checks that every list passes. Entry point: [`Listing::add`].

use super::end::{Malformed, WatchEnd};
use crate::cache::store::number;
use crate::json::Object;
use crate::request::ObjectKey;
use std::collections::{BTreeMap, HashSet};

/// Objects listed so far.
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

    /// Adds an object of a paged list. No snapshot contains an object twice.
    pub(super) fn add(&mut self, object: Object) -> Result<(), WatchEnd> {
        self.put(object, |_, _| false)
    }

    /// Adds an object of a streamed list, where a newer state may follow an older one.
    pub(super) fn update(&mut self, object: Object) -> Result<(), WatchEnd> {
        self.put(object, |old, new| {
            let version = |object: &Object| number(&object.resource_version());
            version(new) > version(old)
        })
    }

    fn put(
        &mut self,
        object: Object,
        may_follow: impl Fn(&Object, &Object) -> bool,
    ) -> Result<(), WatchEnd> {
        let key = object.key();
        if let Some(old) = self.objects.get(&key)
            && !may_follow(old, &object)
        {
            return Err(Malformed::DuplicateObject.into());
        }
        self.bytes += object.json().len();
        if let Some(old) = self.objects.insert(key, object) {
            self.bytes -= old.json().len();
        }
        if self.bytes > self.max_bytes {
            return Err(WatchEnd::TooLarge(self.max_bytes));
        }
        Ok(())
    }

    /// Removes an object that is deleted while the list is streamed.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(before) = self.objects.remove(key) {
            self.bytes -= before.json().len();
        }
    }

    /// The complete list, in the order of its keys.
    pub(super) fn finish(self) -> Result<Vec<Object>, Malformed> {
        let mut uids = HashSet::with_capacity(self.objects.len());
        for object in self.objects.values() {
            let uid = object.uid();
            if !uid.is_empty() && !uids.insert(uid) {
                return Err(Malformed::DuplicateUid);
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

    fn is_duplicate(result: Result<(), WatchEnd>) -> bool {
        matches!(result, Err(WatchEnd::Malformed(Malformed::DuplicateObject)))
    }

    #[test]
    fn a_list_with_an_object_or_a_uid_twice_is_refused() {
        let mut listing = Listing::new(1000);
        listing.add(object("a", "u", 1)).unwrap();
        assert!(is_duplicate(listing.add(object("a", "v", 2))));
        listing.add(object("b", "u", 1)).unwrap();
        assert_eq!(listing.finish().err(), Some(Malformed::DuplicateUid));
    }

    #[test]
    fn while_a_list_is_streamed_a_newer_state_may_follow_and_an_equal_one_may_not() {
        let mut listing = Listing::new(1000);
        listing.update(object("a", "u", 1)).unwrap();
        listing.update(object("a", "u", 2)).unwrap();
        assert!(is_duplicate(listing.update(object("a", "u", 2))));
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
            .expect("the list is refused");
        assert!(matches!(refused, WatchEnd::TooLarge(10_000)));
        assert!(listing.bytes < 11_000);
    }
}
