//! The subscribers of a store. Entry points: [`Store::subscribe`] and [`Store::take_over`].

use super::Store;
use super::rules::Entry;
use super::sorted::Sorted;
use crate::json::Object;
use crate::request::ObjectKey;
use crate::workspace;
use std::collections::HashMap;
use std::sync::Arc;

/// One change of a cached object. `old` is absent on creation, `new` on deletion.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) old: Option<Object>,
    pub(crate) new: Option<Object>,
    /// Part of the first list, or of a replay for a late subscriber.
    pub(crate) initial: bool,
}

impl Change {
    pub(super) fn deleted(old: Object) -> Self {
        Self {
            old: Some(old),
            new: None,
            initial: false,
        }
    }

    /// The object in its newest known state.
    pub(crate) fn object(&self) -> Option<&Object> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// Receives the changes of a store in order. Must not block and must not write to the store; it may read any store.
pub(crate) trait Sink: Send + Sync {
    fn changed(&self, change: &Change);

    /// The store is [decided](super::Progress::is_decided) now, or its kind is not served any more. May be called when neither is new.
    fn progressed(&self) {}

    /// The only [part](crate::workspace) of the cache that it is shown; `None`: all of it. Stays the same.
    fn part(&self) -> Option<Arc<str>> {
        None
    }
}

/// A sink with its id.
type Subscriber = (u64, Arc<dyn Sink>);

/// The sinks of a store. A change is shown to those of its part only, however many other parts have sinks.
#[derive(Default)]
pub(super) struct Sinks {
    next_id: u64,
    of_all: Vec<Subscriber>,
    /// No list is empty.
    by_part: HashMap<Arc<str>, Vec<Subscriber>>,
}

impl Sinks {
    /// Shows a change to every sink that it concerns.
    pub(super) fn show(&self, change: &Change) {
        let of_parts = match change.object() {
            Some(object) if !self.by_part.is_empty() => self.of_parts(object),
            _ => Vec::new(),
        };
        for (_, sink) in self.of_all.iter().chain(of_parts.into_iter().flatten()) {
            sink.changed(change);
        }
    }

    /// The sinks of the parts that an object is in: its namespace, and its logical cluster.
    fn of_parts(&self, object: &Object) -> Vec<&Vec<Subscriber>> {
        let whole = object.workspace().map(|name| workspace::stored(name, None));
        // A cluster-scoped object is in the whole alone.
        let namespace = object
            .stored_namespace()
            .filter(|part| Some(part) != whole.as_ref());
        let parts = namespace.into_iter().chain(whole);
        parts.filter_map(|part| self.by_part.get(&part)).collect()
    }

    /// Tells every sink how far the store is.
    pub(super) fn progressed(&self) {
        for (_, sink) in self.of_all.iter().chain(self.by_part.values().flatten()) {
            sink.progressed();
        }
    }

    fn add(&mut self, sink: Arc<dyn Sink>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let list = match sink.part() {
            // Nearly all parts have one sink.
            Some(part) => self
                .by_part
                .entry(part)
                .or_insert_with(|| Vec::with_capacity(1)),
            None => &mut self.of_all,
        };
        list.push((id, sink));
        id
    }

    fn remove(&mut self, id: u64) {
        self.of_all.retain(|(sink, _)| *sink != id);
        self.by_part.retain(|_, sinks| {
            sinks.retain(|(sink, _)| *sink != id);
            !sinks.is_empty()
        });
    }
}

impl Store {
    /// Shows a sink every cached object, then every change. Returns the id for [`Self::unsubscribe`].
    pub(crate) fn subscribe(&self, sink: Arc<dyn Sink>) -> u64 {
        let mut sinks = self.writer.lock();
        self.replay(&*sink);
        sinks.add(sink)
    }

    /// Subscribes a sink that has followed another store of the kind until now: shows it the differences, then every change. The sink
    /// also stays with the other store until the caller unsubscribes it there, so that no change is missed.
    pub(crate) fn take_over(&self, sink: Arc<dyn Sink>, other: &Self) -> u64 {
        let mut sinks = self.writer.lock();
        let (mut newer, mut gone) = (Vec::new(), Vec::new());
        {
            let state = self.state.read();
            let part = sink.part();
            for (key, entry) in entries(&state.objects, part.as_ref()) {
                if other
                    .version_of(key)
                    .is_none_or(|seen| seen < entry.version)
                {
                    newer.push(entry.object.clone());
                }
            }
            // The other store does not know of these deletions yet, or never will.
            let others = other.state.read();
            for (key, entry) in entries(&others.objects, part.as_ref()) {
                if !state.objects.contains(key) {
                    gone.push(entry.object.clone());
                }
            }
        }
        for object in newer {
            let old = other.get(&object.key()).map(|(old, _)| old);
            sink.changed(&Change {
                initial: old.is_none(),
                old,
                new: Some(object),
            });
        }
        for object in gone {
            sink.changed(&Change::deleted(object));
        }
        sinks.add(sink)
    }

    fn replay(&self, sink: &dyn Sink) {
        // A copy: the sink may read this store.
        let objects = self.state.read().objects.clone();
        for (_, entry) in entries(&objects, sink.part().as_ref()) {
            sink.changed(&Change {
                old: None,
                new: Some(entry.object.clone()),
                initial: true,
            });
        }
    }

    pub(crate) fn unsubscribe(&self, id: u64) {
        self.writer.lock().remove(id);
    }
}

/// The entries of one part, or of all.
fn entries<'a>(
    objects: &'a Sorted<Entry>,
    part: Option<&'a Arc<str>>,
) -> Box<dyn Iterator<Item = (&'a ObjectKey, &'a Entry)> + 'a> {
    match part {
        Some(part) => Box::new(objects.in_part(part)),
        None => Box::new(objects.iter()),
    }
}
