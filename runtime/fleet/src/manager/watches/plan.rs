//! How a watch is to run: what it selects, and which stores it would use. Entry point: [`WatchPlan::of`].

use crate::cache::store::Store;
use crate::cluster::{Cluster, TooManyStores};
use crate::controller::Controller;
use crate::grant::{Access, Grant, Namespaces, Verb};
use crate::kind::{GroupVersionKind, Resource};
use crate::pairs::Pairs;
use crate::source::{Enqueue, Watch};
use std::sync::Arc;

/// How a watch is to run. A watch whose plan stays equal goes on undisturbed.
#[derive(PartialEq)]
pub(super) struct WatchPlan {
    pub(super) watch: Arc<Watch>,
    pub(super) grant: Arc<Grant>,
    pub(super) primary: Option<GroupVersionKind>,
    /// The stores' name of the index of a `by-index` rule.
    pub(super) index: Option<Arc<str>>,
    /// The cluster's labels, if the grant depends on them: then other labels may grant other namespaces.
    labels: Option<Pairs>,
}

impl WatchPlan {
    /// The plan of a controller's watch in a cluster.
    pub(super) fn of(controller: &Controller, watch: &Arc<Watch>, cluster: &Cluster) -> Self {
        let index = match (&watch.enqueue, &controller.primary) {
            (Enqueue::ByIndex(name), Some(primary)) => controller
                .indexes
                .get(&(primary.clone(), name.clone()))
                .map(|index| index.id.clone()),
            _ => None,
        };
        Self {
            watch: watch.clone(),
            grant: controller.grant.clone(),
            primary: controller.primary.clone(),
            index,
            labels: controller
                .grant
                .selects_by_label()
                .then(|| cluster.labels()),
        }
    }

    /// The namespaces that the grant lets the watch read: all at once (`None`), or each by itself.
    pub(super) fn namespaces(
        &self,
        cluster: &Cluster,
        resource: &Resource,
    ) -> Result<Vec<Option<Arc<str>>>, NoStore> {
        if let Err(error) = cluster.scope().check_kind(resource) {
            return Err(NoStore::NotInScope(error.message));
        }
        let labels = cluster.labels();
        let facts = cluster.facts(&labels, true);
        // One object by its name can be granted alone.
        let fields = self.watch.field_selector.as_ref();
        let name = fields.and_then(|fields| fields.exact("metadata.name"));
        let granted = |verb| {
            self.grant.needed_namespaces(&Access {
                cluster: facts,
                group: &resource.kind.group,
                resource: &resource.plural,
                subresource: None,
                verb,
                namespaced: resource.namespaced,
                namespace: None,
                name,
            })
        };
        let denied = || NoStore::Denied(resource.plural.clone());
        match (granted(Verb::List), granted(Verb::Watch)) {
            (Namespaces::All, Namespaces::All) => Ok(vec![None]),
            (list, watch) if resource.namespaced => {
                let both: Vec<_> = match (&list, &watch) {
                    (Namespaces::Only(names), other) | (other, Namespaces::Only(names)) => names
                        .iter()
                        .filter(|name| other.contains(Some(name)))
                        .cloned()
                        .map(Some)
                        .collect(),
                    _ => Vec::new(),
                };
                if both.is_empty() {
                    Err(denied())
                } else {
                    Ok(both)
                }
            }
            _ => Err(denied()),
        }
    }

    /// The selectors of its stores, as the server takes them: of labels, and of fields.
    pub(super) fn selectors(&self) -> (Arc<str>, Arc<str>) {
        let labels = self.watch.label_selector.as_ref();
        let fields = self.watch.field_selector.as_ref();
        (
            labels.map(ToString::to_string).unwrap_or_default().into(),
            fields.map(ToString::to_string).unwrap_or_default().into(),
        )
    }

    /// Whether a store is one that the watch would open if it were alone.
    pub(super) fn would_use(&self, cluster: &Cluster, store: &Store) -> bool {
        let (key, (labels, fields)) = (&store.key, self.selectors());
        key.kind == self.watch.kind
            && key.projection == self.watch.projection
            && key.excerpt.is_none()
            && (&key.label_selector, &key.field_selector) == (&labels, &fields)
            && self
                .namespaces(cluster, &store.resource)
                .is_ok_and(|namespaces| {
                    !cluster.scope().is_whole() || namespaces.contains(&key.namespace)
                })
    }
}

/// Why a watch has no cache, or not one in every namespace.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoStore {
    #[error("no rule grants list and watch on {0}")]
    Denied(Arc<str>),
    #[error("{0}")]
    NotInScope(String),
    #[error(transparent)]
    TooMany(TooManyStores),
}
