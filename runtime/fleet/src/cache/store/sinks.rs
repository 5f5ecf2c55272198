//! The subscribers of a store. Entry points: [`Store::subscribe`] and [`Store::take_over`].

use super::Store;
use crate::json::Object;
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
}

/// The sinks of a store, with their ids.
pub(super) type Sinks = Vec<(u64, Arc<dyn Sink>)>;

impl Store {
    /// Shows a sink every cached object, then every change. Returns the id for [`Self::unsubscribe`].
    pub(crate) fn subscribe(&self, sink: Arc<dyn Sink>) -> u64 {
        let mut sinks = self.writer.lock();
        self.replay(&*sink);
        add(&mut sinks, sink)
    }

    /// Subscribes a sink that has followed another store of the kind until now: shows it the differences, then every change. The sink
    /// also stays with the other store until the caller unsubscribes it there, so that no change is missed.
    pub(crate) fn take_over(&self, sink: Arc<dyn Sink>, other: &Self) -> u64 {
        let mut sinks = self.writer.lock();
        let (mut newer, mut gone) = (Vec::new(), Vec::new());
        {
            let state = self.state.read();
            for (key, entry) in state.objects.iter() {
                if other
                    .version_of(key)
                    .is_none_or(|seen| seen < entry.version)
                {
                    newer.push(entry.object.clone());
                }
            }
            // The other store does not know of these deletions yet, or never will.
            for (key, entry) in other.state.read().objects.iter() {
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
        add(&mut sinks, sink)
    }

    fn replay(&self, sink: &dyn Sink) {
        // A copy: the sink may read this store.
        let objects = self.state.read().objects.clone();
        for (_, entry) in objects.iter() {
            sink.changed(&Change {
                old: None,
                new: Some(entry.object.clone()),
                initial: true,
            });
        }
    }

    pub(crate) fn unsubscribe(&self, id: u64) {
        self.writer.lock().retain(|(sink, _)| *sink != id);
    }
}

fn add(sinks: &mut Sinks, sink: Arc<dyn Sink>) -> u64 {
    let id = sinks.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
    sinks.push((id, sink));
    id
}
