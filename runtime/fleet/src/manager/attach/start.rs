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
    /// What the watches before have to tell still.
    pub(super) left: Vec<Arc<SourceSink>>,
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
        self.caches.extend(before.caches_for(what));
        let (old, new) = (&before.what.watch, &what.watch);
        let mapped = |enqueue: &Enqueue| matches!(enqueue, Enqueue::Mapped(_));
        let same = old.enqueue == new.enqueue || mapped(&old.enqueue) && mapped(&new.enqueue);
        if old.kind != new.kind || !same {
            return;
        }
        let sinks = before.subscriptions.lock();
        self.left.extend(sinks.iter().map(|of| of.sink.clone()));
        drop(sinks);
        // One that has not come so far itself hands on what it has.
        let start = std::mem::take(&mut *before.start.lock());
        self.caches.extend(start.caches);
        self.left.extend(start.left);
        let like = start.before.into_iter().chain([before.clone()]);
        self.before
            .extend(like.filter(|source| source.is_like(what)));
    }

    /// The watch has to wait for its kind: it keeps nobody waiting, and keeps what is to be told.
    pub(super) fn let_go(&mut self) {
        self.pending = None;
        self.caches.clear();
        self.before.clear();
    }
}
