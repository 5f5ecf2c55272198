//! A watch that leaves its store: for the whole kind when a selection is not enough any more, and for good when the kind is not
//! served any more. Entry points: [`Task::widen`] and [`unserved`].

use super::Subscription;
use super::task::Task;
use crate::api::ApiCode;
use crate::cache::store::{Progress, Store, StoreKey};
use crate::cluster::Backend;
use crate::kind::Resource;
use futures::future::select_all;
use std::sync::Arc;

impl Task {
    /// The stores that the watch follows now.
    pub(super) fn stores(&self) -> Vec<Arc<Store>> {
        let Some(source) = self.source.upgrade() else {
            return Vec::new();
        };
        let subscriptions = source.subscriptions.lock();
        subscriptions
            .iter()
            .map(|subscription| subscription.user.store().clone())
            .collect()
    }

    /// Ends the subscriptions.
    pub(super) fn unsubscribe(&self) {
        if let Some(source) = self.source.upgrade() {
            let subscriptions = std::mem::take(&mut *source.subscriptions.lock());
            for subscription in &subscriptions {
                subscription.sink.close();
            }
            let sinks = subscriptions.iter().map(|of| of.sink.clone());
            source.start.lock().leave(sinks);
            drop(subscriptions);
        }
    }

    /// Moves the watch from a store of a selection or of a namespace to one of the whole kind, as soon as somebody needs the rest of
    /// it. The way back is never taken. Returns once it has moved.
    pub(super) async fn widen(&self, backend: &Arc<Backend>, resource: &Arc<Resource>) {
        let mut published = backend.stores.published();
        loop {
            let Some(source) = self.source.upgrade() else {
                return std::future::pending().await;
            };
            let subscriptions: Vec<_> = source
                .subscriptions
                .lock()
                .iter()
                .map(|subscription| {
                    let key = subscription.user.store().key.clone();
                    (key, subscription.sink.namespace.clone())
                })
                .collect();
            drop(source);
            // Looked at without the lock, as this takes others.
            let scoped = subscriptions.into_iter().position(|(key, namespace)| {
                is_wider(&self.store_key(backend, resource, namespace), &key)
            });
            match scoped {
                Some(at) => return self.move_to_whole(at, backend, resource).await,
                None if published.changed().await.is_ok() => {}
                None => return std::future::pending().await,
            }
        }
    }

    async fn move_to_whole(&self, at: usize, backend: &Arc<Backend>, resource: &Arc<Resource>) {
        let Some((old, sink)) = self.source.upgrade().and_then(|source| {
            let subscriptions = source.subscriptions.lock();
            let subscription = subscriptions.get(at)?;
            Some((subscription.user.clone(), subscription.sink.clone()))
        }) else {
            return;
        };
        let key = self.store_key(backend, resource, sink.namespace.clone());
        let user = match backend.stores.open(key, resource) {
            Ok(user) => user,
            Err(problem) => {
                tracing::warn!(cluster = %self.cluster.name(), kind = %self.what.watch.kind, %problem, "watch stays with its selection");
                return std::future::pending().await;
            }
        };
        // The old store serves until the new one knows as much.
        let mut progress = user.store().progress();
        if progress.wait_for(|progress| progress.synced).await.is_err() {
            return;
        }
        let Some(source) = self.source.upgrade() else {
            return;
        };
        let id = user.store().take_over(sink.clone(), old.store());
        let moved = Subscription { user, id, sink };
        let left = {
            let mut subscriptions = source.subscriptions.lock();
            subscriptions
                .get_mut(at)
                .map(|subscription| std::mem::replace(subscription, moved))
        };
        drop(left);
    }
}

/// Whether a store holds all that a narrower one does, and more.
fn is_wider(this: &StoreKey, other: &StoreKey) -> bool {
    let covers = |all: bool, same: bool| all || same;
    covers(
        this.label_selector.is_empty(),
        this.label_selector == other.label_selector,
    ) && covers(this.namespace.is_none(), this.namespace == other.namespace)
        && this.field_selector == other.field_selector
        && this != other
}

/// Returns when the server has said that it does not serve a store's kind, and the store is empty.
pub(super) async fn unserved(stores: Vec<Arc<Store>>) {
    if stores.is_empty() {
        return std::future::pending().await;
    }
    let each = stores.iter().map(|store| Box::pin(is_unserved(store)));
    select_all(each).await;
}

async fn is_unserved(store: &Store) {
    let mut progress = store.progress();
    let ended = progress.wait_for(gone).await.is_err();
    if ended {
        std::future::pending().await
    }
}

fn gone(progress: &Progress) -> bool {
    let problem = progress.problem.as_ref();
    let error = problem.and_then(|problem| problem.error.as_ref());
    !progress.synced && error.is_some_and(|error| error.code == ApiCode::UnknownKind)
}
