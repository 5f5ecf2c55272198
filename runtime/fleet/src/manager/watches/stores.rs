//! Which stores a watch follows: one of its own selection as long as nobody needs the rest of the kind, else one of the whole kind.
//! Entry points: [`store_key`] and [`widen`].

use super::active::Subscription;
use super::links::WatchLinks;
use crate::cache::store::StoreKey;
use crate::cluster::{Backend, StoreUse};
use crate::kind::Resource;
use crate::source::SourceSink;
use std::sync::Arc;

/// The store to use: one of everything if there is one, else one of the namespace. A watch's selector filters its source; it
/// scopes the store too as long as nobody needs the rest of the kind.
pub(super) fn store_key(
    links: &WatchLinks,
    backend: &Backend,
    resource: &Resource,
    namespace: Option<Arc<str>>,
) -> StoreKey {
    let plan = &links.plan;
    let (labels, fields) = plan.selectors();
    let mut key = StoreKey::whole(resource.kind.clone(), None, plan.watch.projection);
    // Only the server can compare fields.
    key.field_selector = fields;
    let exists = |key: &StoreKey| {
        backend.stores.with_kind(&resource.kind, |stores| {
            stores.iter().any(|store| store.key == *key)
        })
    };
    if exists(&key) {
        return key;
    }
    // One store of the whole server serves all clusters that are parts of it.
    key.namespace = namespace.filter(|_| links.cluster.scope().is_whole());
    if !labels.is_empty() && is_only_selection(links, backend, &labels) {
        key.label_selector = labels;
    }
    key
}

/// Whether every user of the kind has this selector.
fn is_only_selection(links: &WatchLinks, backend: &Backend, labels: &str) -> bool {
    let kind = &links.plan.watch.kind;
    let Some(running) = links.running.upgrade() else {
        return false;
    };
    let same_stores = backend.stores.with_kind(kind, |stores| {
        stores
            .iter()
            .all(|store| &*store.key.label_selector == labels)
    });
    same_stores && running.all_select(kind, &links.cluster, labels)
}

/// Moves the watch from a store of a selection or of a namespace to one of the whole kind, as soon as somebody needs the rest of
/// it. The way back is never taken. Returns once it has moved.
pub(super) async fn widen(links: &WatchLinks, backend: &Arc<Backend>, resource: &Arc<Resource>) {
    let mut published = backend.stores.published();
    loop {
        if links.watch.strong_count() == 0 {
            return std::future::pending().await;
        }
        let scoped = links.store_uses().into_iter().find_map(|(user, sink)| {
            let key = store_key(links, backend, resource, sink.namespace.clone());
            is_wider(&key, &user.store().key).then_some((user, sink, key))
        });
        match scoped {
            Some((old, sink, key)) => {
                return Box::pin(move_to(links, key, &old, sink, backend, resource)).await;
            }
            None if published.changed().await.is_ok() => {}
            None => return std::future::pending().await,
        }
    }
}

/// Moves a sink to a wider store.
async fn move_to(
    links: &WatchLinks,
    key: StoreKey,
    old: &StoreUse,
    sink: Arc<SourceSink>,
    backend: &Arc<Backend>,
    resource: &Arc<Resource>,
) {
    let user = match backend.stores.open(key, resource) {
        Ok(user) => user,
        Err(problem) => {
            tracing::warn!(cluster = %links.cluster.name(), kind = %links.plan.watch.kind, %problem, "watch stays with its selection");
            return std::future::pending().await;
        }
    };
    // The old store serves until the new one knows as much.
    let mut progress = user.store().progress();
    if progress.wait_for(|progress| progress.synced).await.is_err() {
        return;
    }
    if let Some(watch) = links.watch.upgrade() {
        watch.replace_subscription(Subscription::moved(user, old, sink));
    }
}

/// Whether a store holds everything that another one does, and more.
fn is_wider(this: &StoreKey, other: &StoreKey) -> bool {
    let all_labels = this.label_selector.is_empty();
    let all_namespaces = this.namespace.is_none();
    this != other
        && (all_labels || this.label_selector == other.label_selector)
        && (all_namespaces || this.namespace == other.namespace)
        && this.field_selector == other.field_selector
}

/// Whether a store holds less than its kind, so that its users may have to move.
pub(super) fn may_widen(key: &StoreKey) -> bool {
    key.namespace.is_some() || !key.label_selector.is_empty()
}
