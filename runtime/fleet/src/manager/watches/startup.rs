//! The references that a starting watch holds, so that nothing is listed anew and no event is lost where it replaces others.
//! Entry point: [`Startup::replace`].

use super::active::ActiveWatch;
use super::plan::WatchPlan;
use crate::cluster::{Cluster, Pending, StoreUse};
use crate::source::{Enqueue, SourceSink};
use std::sync::Arc;

/// Empty once the watch has its caches.
#[derive(Default)]
pub(super) struct Startup {
    /// The cluster is not ready before the watch has its caches.
    pending: Option<Pending>,
    /// Caches of the replaced watches that it will use too.
    caches: Vec<StoreUse>,
    /// Replaced watches that see the same objects: they go on until it has its caches.
    replaced: Vec<Arc<ActiveWatch>>,
    /// Sinks of replaced watches with events that are not mapped yet. Several watches may replace one, and each handles those of the
    /// events that it selects.
    unfinished: Vec<Arc<SourceSink>>,
}

impl Startup {
    /// Of a watch in a cluster.
    pub(super) fn new(cluster: &Arc<Cluster>) -> Self {
        Self {
            pending: Some(cluster.pending()),
            ..Self::default()
        }
    }

    /// Lets the watch replace another one of its controller.
    pub(super) fn replace(&mut self, before: &Arc<ActiveWatch>, plan: &WatchPlan) {
        add(&mut self.caches, before.caches_for(plan));
        let (old, new) = (&before.plan().watch, &plan.watch);
        let mapped = |enqueue: &Enqueue| matches!(enqueue, Enqueue::Mapped(_));
        let same = old.enqueue == new.enqueue || mapped(&old.enqueue) && mapped(&new.enqueue);
        if old.kind != new.kind || !same {
            return;
        }
        // A watch that is starting itself passes on what it holds. Its sinks are read under the same lock, under which it hands
        // them the unfinished events.
        before.with_startup(|start| {
            let sinks = before.sinks().into_iter();
            add(&mut self.unfinished, sinks.chain(start.unfinished.clone()));
            add(&mut self.caches, start.caches.iter().cloned());
            let like = start.replaced.iter().chain([before]);
            let like = like.filter(|watch| watch.is_like(plan)).cloned();
            add(&mut self.replaced, like);
        });
    }

    /// Releases all but the unfinished events: the watch has to wait for its kind, and nothing else waits for the watch.
    pub(super) fn release(&mut self) {
        self.pending = None;
        self.caches.clear();
        self.replaced.clear();
    }

    /// Adds sinks of the watch's own that end before all their events are mapped.
    pub(super) fn leave(&mut self, sinks: impl IntoIterator<Item = Arc<SourceSink>>) {
        let unfinished = |sink: &Arc<SourceSink>| sink.has_unfinished();
        add(&mut self.unfinished, sinks.into_iter().filter(unfinished));
    }

    /// Gives the unfinished events to the watch's new sinks, each of which handles those that it selects.
    pub(super) fn pass_on(&self, sinks: &[Arc<SourceSink>]) {
        for unfinished in &self.unfinished {
            sinks.iter().for_each(|sink| sink.inherit(unfinished));
        }
    }

    /// The watch has all its caches. Returns what it held, to be dropped without a lock.
    #[must_use]
    pub(super) fn finish(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// Adds those that are not there yet: a watch that is replaced again and again holds each once.
fn add<T>(to: &mut Vec<Arc<T>>, more: impl IntoIterator<Item = Arc<T>>) {
    for one in more {
        if !to.iter().any(|known| Arc::ptr_eq(known, &one)) {
            to.push(one);
        }
    }
}
