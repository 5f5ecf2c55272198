//! A shard: [`Shard`], some workspaces that share one row of versions and one base URL for virtual workspaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::queue::Queue;
use crate::cluster::Cluster;
use crate::resource::CollectionId;
use crate::store::{Event, Upper};

/// One shard.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) name: Box<str>,
    /// Where its virtual workspaces are reached, without a slash at the end.
    pub(crate) url: String,
    /// Everything in its workspaces, keyed by logical cluster, namespace and name: what wildcard requests read.
    pub(crate) all: Cluster,
    /// The status that its virtual workspaces answer; 0: they serve.
    refusal: AtomicU16,
}

impl Shard {
    pub(crate) fn new(name: String, url: String, all: Cluster) -> Self {
        Self {
            name: name.into(),
            url,
            all,
            refusal: AtomicU16::new(0),
        }
    }

    /// Lets its virtual workspaces answer with this status.
    pub(crate) fn refuse(&self, status: Option<u16>) {
        self.refusal.store(status.unwrap_or(0), Ordering::SeqCst);
    }

    /// The status that its virtual workspaces answer instead of serving.
    pub(crate) fn refusal(&self) -> Option<u16> {
        Some(self.refusal.load(Ordering::SeqCst)).filter(|status| *status != 0)
    }
}

/// One workspace's part of a shard.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) all: Cluster,
    pub(crate) cluster: Box<str>,
    pub(crate) queue: Arc<Queue>,
}

impl Upper for Part {
    fn version(&self) -> u64 {
        self.all.with(|state| state.store.version())
    }

    fn take(&self, id: &CollectionId, make: &mut dyn FnMut(u64) -> Arc<Event>) -> Arc<Event> {
        let event = self
            .all
            .with(|state| state.store.adopt(id, &self.cluster, make));
        self.queue.changed(&self.cluster, id, &event);
        event
    }
}
