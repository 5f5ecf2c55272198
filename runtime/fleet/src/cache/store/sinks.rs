//! Who follows a store. Entry points: [`Store::subscribe`] and [`Store::take_over`].

use super::{Change, Sink, Store};
use crate::json::Object;
use std::sync::Arc;

impl Store {
    /// Shows a sink every object there is, then every change. Returns what [`Self::unsubscribe`] takes.
    pub(crate) fn subscribe(&self, sink: Arc<dyn Sink>) -> u64 {
        let mut sinks = self.writer.lock();
        self.replay(&*sink);
        let id = sinks.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
        sinks.push((id, sink));
        id
    }

    /// Subscribes a sink that has followed another store of the kind until now: shows it what differs, then every change. The sink
    /// stays with the other one until its caller ends that, so that nothing falls in between.
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
            // What the other one has not heard of yet, or never will.
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
            sink.changed(&Change {
                old: Some(object),
                new: None,
                initial: false,
            });
        }
        let id = sinks.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
        sinks.push((id, sink));
        id
    }

    fn replay(&self, sink: &dyn Sink) {
        let objects: Vec<Object> = self
            .state
            .read()
            .objects
            .iter()
            .map(|(_, entry)| entry.object.clone())
            .collect();
        for object in objects {
            sink.changed(&Change {
                old: None,
                new: Some(object),
                initial: true,
            });
        }
    }

    pub(crate) fn unsubscribe(&self, id: u64) {
        self.writer.lock().retain(|(sink, _)| *sink != id);
    }
}
