//! Lookups in a store. Entry point: [`Store::get`]; pages are in [`page`](super::page).

use super::{Store, number};
use crate::json::Object;
use crate::request::ObjectKey;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

impl Store {
    /// An object and its version; 0 where versions are not integers.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<(Object, u64)> {
        let state = self.state.read();
        let entry = state.objects.get(key)?;
        Some((entry.object.clone(), entry.version))
    }

    /// The version of an object; 0 where versions are not integers.
    pub(crate) fn version_of(&self, key: &ObjectKey) -> Option<u64> {
        let state = self.state.read();
        state.objects.get(key).map(|entry| entry.version)
    }

    /// Calls `f` with key and version of every object.
    pub(crate) fn each_version(&self, mut f: impl FnMut(&ObjectKey, u64)) {
        for (key, entry) in self.state.read().objects.iter() {
            f(key, entry.version);
        }
    }

    /// Every object, of one state of the store.
    pub(crate) fn objects(&self) -> Vec<Object> {
        // A copy, which is made in constant time, so that a large store delays no writer.
        let objects = self.state.read().objects.clone();
        objects
            .iter()
            .map(|(_, entry)| entry.object.clone())
            .collect()
    }

    /// Keys of the objects of a part (`None`: of all) that have a value in an index.
    pub(crate) fn by_index(
        &self,
        name: &str,
        value: &str,
        part: Option<&Arc<str>>,
    ) -> Vec<ObjectKey> {
        let keys = match self.state.read().indexes.get(name) {
            Some(index) => index.keys(value),
            None => return Vec::new(),
        };
        match part {
            Some(part) => keys.in_part(part).map(|(key, ())| key.clone()).collect(),
            None => keys.iter().map(|(key, ())| key.clone()).collect(),
        }
    }

    /// Number of objects and bytes of their texts.
    pub(crate) fn size(&self) -> (usize, usize) {
        let state = self.state.read();
        (state.objects.len(), state.bytes)
    }

    /// As [`Self::size`], of one part.
    pub(crate) fn size_in(&self, part: &Arc<str>) -> (usize, usize) {
        let state = self.state.read();
        let objects = state.objects.in_part(part);
        objects.fold((0, 0), |(count, bytes), (_, entry)| {
            (count + 1, bytes + entry.object.json().len())
        })
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.progress.borrow().synced
    }

    /// The resource version that list and watch have reached, as the server gave it.
    pub(crate) fn version(&self) -> String {
        self.state.read().version.clone()
    }

    /// Whether the server's versions are integers. Without them an older state is not detected.
    pub(crate) fn is_monotonic(&self) -> bool {
        let state = self.state.read();
        state.version.is_empty() || state.number.is_some()
    }

    /// The highest version of an object that was published, by the watch or by an own write.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// The highest version that the server must have, by list, watch and own writes; `None` where versions are not integers.
    pub(crate) fn newest_version(&self) -> Option<u64> {
        let version = number(&self.version())?;
        Some(version.max(self.seen()))
    }

    /// The version up to which no change is missing, and a way to wait for a later one.
    pub(crate) fn reached_version(&self) -> watch::Receiver<u64> {
        self.reached.subscribe()
    }
}
