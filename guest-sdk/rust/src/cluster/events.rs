//! Events about objects. Entry point: [`Cluster::event`].

use super::Cluster;
use crate::resource::Resource;
use crate::types::{Event, EventType};

impl Cluster {
    /// Records an event about an object, for people: shown by `kubectl describe` and `kubectl get events`. `reason` is one CamelCase word.
    /// Recorded in the background; never fails a reconcile.
    pub fn event<T: Resource>(&self, about: &T, reason: &str, note: impl Into<String>) {
        self.record(about, EventType::Normal, reason, note.into());
    }

    /// As [`Self::event`], with the type Warning.
    pub fn warn<T: Resource>(&self, about: &T, reason: &str, note: impl Into<String>) {
        self.record(about, EventType::Warning, reason, note.into());
    }

    fn record<T: Resource>(&self, about: &T, event_type: EventType, reason: &str, note: String) {
        self.raw.record_event(&Event {
            kind: about.kind(),
            key: about.key(),
            event_type,
            reason: reason.to_owned(),
            action: "Reconcile".to_owned(),
            note,
        });
    }
}
