//! The changes of a store. Entry points: [`Store::apply`] and [`Store::replace`] for a watch, [`Store::record_write`] and
//! [`Store::record_delete`] for own writes.
//!
//! Each call locks the writers, changes the state under its own lock, and shows the change to the sinks before other writers go on.

use super::rules::State;
use super::{Change, Progress, Sinks, StaleList, Store, number};
use crate::json::Object;
use crate::request::ObjectKey;
use futures::FutureExt;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Store {
    // --- the watch ---

    /// Records an object that exists, from a watch event. Returns whether the watch made progress.
    pub(crate) fn apply(&self, object: Object) -> bool {
        let version = object.resource_version().into_owned();
        self.observe(&version, |state| {
            if self.leaves_out(&object) {
                state.reached(&version);
                return None;
            }
            state.observe(object)
        })
    }

    /// Removes an object that is gone, from a watch event. Returns whether the watch made progress.
    pub(crate) fn delete(&self, object: &Object) -> bool {
        self.observe(&object.resource_version(), |state| state.delete(object))
    }

    fn observe(&self, version: &str, observe: impl FnOnce(&mut State) -> Option<Change>) -> bool {
        let sinks = self.writer.lock();
        let (change, progressed) = {
            let mut state = self.state.write();
            let before = state.version.clone();
            let change = observe(&mut state);
            (change, state.version != before && state.version == version)
        };
        self.publish(&sinks, change);
        self.note_reached();
        progressed
    }

    /// Records a version that the watch has reached without an object, from a bookmark. Returns whether the watch made progress.
    pub(crate) fn reached(&self, version: &str) -> bool {
        let progressed = self.state.write().reached(version);
        self.note_reached();
        progressed
    }

    /// Replaces all objects by those of a list.
    ///
    /// # Errors
    /// [`StaleList`], and then nothing has changed.
    pub(crate) fn replace(
        &self,
        mut objects: Vec<Object>,
        version: String,
    ) -> Result<(), StaleList> {
        let sinks = self.writer.lock();
        objects.retain(|object| !self.leaves_out(object));
        let initial = !self.progress.borrow().synced;
        let changes = self.state.write().replace(objects, version, initial)?;
        self.publish(&sinks, changes);
        drop(sinks);
        self.note_reached();
        let is_first = self
            .progress
            .send_if_modified(|p| !std::mem::replace(&mut p.synced, true));
        if is_first {
            self.writer.lock().progressed();
        }
        Ok(())
    }

    // --- own writes ---

    /// Records the state that an own write gave an object, unless the watch has passed that state.
    pub(crate) fn record_write(&self, object: Object) {
        let sinks = self.writer.lock();
        if self.leaves_out(&object) {
            return;
        }
        let change = self.state.write().record_write(object);
        self.publish(&sinks, change);
    }

    /// Removes an object that an own write has moved out of the store's selection. Later events of older states are ignored.
    pub(crate) fn evict(&self, object: &Object, now: Instant) {
        let sinks = self.writer.lock();
        let change = self.state.write().evict(object, now);
        self.publish(&sinks, change);
    }

    /// Removes an object whose own delete the server has confirmed. Later events of it are ignored.
    pub(crate) fn record_delete(&self, key: &ObjectKey, uid: Option<&str>, now: Instant) {
        let sinks = self.writer.lock();
        let change = self.state.write().record_delete(key, uid, now);
        self.publish(&sinks, change);
    }

    // --- other servers, other histories ---

    /// Removes everything, as sinks see too, and accepts older versions again: the server no longer serves the kind.
    pub(crate) fn reset(&self) {
        let sinks = self.writer.lock();
        let changes = self.state.write().reset();
        self.publish(&sinks, changes);
        drop(sinks);
        self.progress.send_modify(|p| *p = Progress::default());
        self.forget_versions();
        self.relist.notify_one();
    }

    /// Prepares for the list of a new history. Until that list is in, readers see the cached objects, and events and own writes are
    /// ignored.
    pub(crate) fn rebuild(&self) {
        let _sinks = self.writer.lock();
        self.state.write().await_list();
        self.forget_versions();
    }

    fn forget_versions(&self) {
        self.seen.store(0, Ordering::Release);
        self.reached.send_replace(0);
    }

    // --- requests to the watch and to the drift check ---

    /// Requests a new list, because the store differs from its server.
    pub(crate) fn request_relist(&self) {
        self.repairs.fetch_add(1, Ordering::Relaxed);
        self.relist.notify_one();
    }

    /// Waits until a new list is requested.
    pub(crate) async fn relist_requested(&self) {
        self.relist.notified().await;
    }

    /// Takes a request for a new list, if there is one.
    pub(crate) fn take_relist_request(&self) -> bool {
        self.relist.notified().now_or_never().is_some()
    }

    /// How often a drift check has found a difference and requested a list.
    pub(crate) fn repairs(&self) -> u64 {
        self.repairs.load(Ordering::Relaxed)
    }

    /// Requests a drift check soon.
    pub(crate) fn request_drift_check(&self) {
        self.drift_check_requested.store(true, Ordering::Release);
    }

    /// Takes a request for a drift check, if there is one.
    pub(crate) fn take_drift_check_request(&self) -> bool {
        self.drift_check_requested.swap(false, Ordering::AcqRel)
    }

    // --- publishing ---

    pub(super) fn publish(&self, sinks: &Sinks, changes: impl IntoIterator<Item = Change>) {
        let mut seen = 0;
        for change in changes {
            let version = change.object().map(Object::resource_version);
            seen = seen.max(version.and_then(|version| number(&version)).unwrap_or(0));
            sinks.show(&change);
        }
        self.seen.fetch_max(seen, Ordering::AcqRel);
        self.raise_reached(seen);
    }

    fn note_reached(&self) {
        self.raise_reached(self.state.read().number.unwrap_or(0));
    }

    fn raise_reached(&self, version: u64) {
        self.reached.send_if_modified(|reached| {
            let is_later = version > *reached;
            *reached = version.max(*reached);
            is_later
        });
    }
}
