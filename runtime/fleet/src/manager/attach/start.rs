//! What a watch that is being brought up holds, so that nothing is listed anew and no event is lost where it takes another's place.
//! Entry point: [`Start::follow`].

use super::Source;
use super::what::What;
use crate::cluster::{Cluster, Pending, StoreUse};
use crate::source::{Enqueue, SourceSink};
use std::sync::Arc;

/// Empty once the watch has its caches.
#[derive(Default)]
pub(super) struct Start {
    /// The cluster is not ready before the watch has its caches.
    pending: Option<Pending>,
    /// Caches of the watches before that it will use too.
    caches: Vec<StoreUse>,
    /// The watches before that see what it will see: they go on until it does.
    before: Vec<Arc<Source>>,
    /// What the watches before have to tell still. Several watches may come after one, and each tells what is its own of it.
    left: Vec<Arc<SourceSink>>,
}

impl Start {
    /// Of a watch in a cluster.
    pub(super) fn new(cluster: &Arc<Cluster>) -> Self {
        Self {
            pending: Some(cluster.pending()),
            ..Self::default()
        }
    }

    /// Has the watch come after another of its controller, which ends.
    pub(super) fn follow(&mut self, before: &Arc<Source>, what: &What) {
        add(&mut self.caches, before.caches_for(what));
        let (old, new) = (&before.what.watch, &what.watch);
        let mapped = |enqueue: &Enqueue| matches!(enqueue, Enqueue::Mapped(_));
        let same = old.enqueue == new.enqueue || mapped(&old.enqueue) && mapped(&new.enqueue);
        if old.kind != new.kind || !same {
            return;
        }
        // One that has not come so far itself hands on what it has. Held until its sinks are known: it tells them what it has under
        // this lock.
        let start = before.start.lock();
        let sinks = before.sinks();
        add(&mut self.left, sinks.into_iter().chain(start.left.clone()));
        add(&mut self.caches, start.caches.iter().cloned());
        let like = start.before.iter().chain([before]);
        let like = like.filter(|source| source.is_like(what)).cloned();
        add(&mut self.before, like);
    }

    /// The watch has to wait for its kind: it keeps nobody waiting, and keeps what is to be told.
    pub(super) fn let_go(&mut self) {
        self.pending = None;
        self.caches.clear();
        self.before.clear();
    }

    /// Sinks of the watch's own that end before all they were to tell was mapped.
    pub(super) fn leave(&mut self, sinks: impl IntoIterator<Item = Arc<SourceSink>>) {
        let unfinished = |sink: &Arc<SourceSink>| sink.has_to_tell();
        add(&mut self.left, sinks.into_iter().filter(unfinished));
    }

    /// Has the watch's new sinks tell what is left. Each tells what it selects.
    pub(super) fn tell(&self, heirs: &[Arc<SourceSink>]) {
        for left in &self.left {
            heirs.iter().for_each(|heir| heir.inherit(left));
        }
    }

    /// The watch has all the caches that it is to have. What it held, to be let go without a lock.
    pub(super) fn succeed(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// Adds those that are not there yet: a watch that is replaced again and again holds each once.
fn add<T>(to: &mut Vec<Arc<T>>, more: impl IntoIterator<Item = Arc<T>>) {
    for one in more {
        if !to.iter().any(|there| Arc::ptr_eq(there, &one)) {
            to.push(one);
        }
    }
}
