//! Where a store's changes become requests of one controller. Entry point: [`SourceSink`].

use super::Watch;
use super::enqueue::{Rule, requests};
use super::mapped::MappedEvents;
use crate::cluster::store::{Change, Sink};
use crate::cluster::{Backend, Cluster};
use crate::json::Object;
use crate::kind::GroupVersionKind;
use crate::predicate;
use crate::queue::{Add, Cause};
use crate::request::Request;
use std::sync::Arc;
use tokio::sync::Notify;

/// Takes requests for one controller.
pub(crate) trait Offer: Send + Sync {
    /// Offers a request; `false` when the controller's share of the queue is full.
    fn offer(&self, request: Request, add: Add) -> bool;
}

/// One watch of one controller in one cluster.
pub(crate) struct SourceSink {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) watch: Watch,
    /// The one namespace that the watch may see, where its store holds more.
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) primary: Option<GroupVersionKind>,
    /// The stores' name of the index of a `by-index` rule.
    pub(crate) index: Option<Arc<str>>,
    pub(crate) offer: Arc<dyn Offer>,
    /// Where mapped events wait for their code.
    pub(crate) mapped: Option<MappedEvents>,
    /// Told when requests were refused for want of room: the store must be offered once more.
    pub(crate) rescan: Notify,
}

impl Sink for SourceSink {
    fn changed(&self, change: &Change) {
        // An event of a cluster that has left must not reach the queue.
        if self.cluster.token().is_cancelled() {
            return;
        }
        let (old, new) = (
            self.selected(change.old.as_ref()),
            self.selected(change.new.as_ref()),
        );
        let seen = match (old, new) {
            (Some(old), Some(new)) => predicate::Change::Updated { old, new },
            (None, Some(new)) => predicate::Change::Created(new),
            (Some(old), None) => predicate::Change::Deleted(old),
            (None, None) => return,
        };
        if !self.watch.predicate.admits(&seen) {
            return;
        }
        let unchanged = old
            .zip(new)
            .is_some_and(|(old, new)| old.resource_version() == new.resource_version());
        let priority = if change.initial || unchanged {
            Add::LOW_PRIORITY
        } else {
            0
        };
        let cause = match (old, new) {
            _ if change.initial => Cause::List,
            (None, _) => Cause::Create,
            (Some(_), Some(_)) => Cause::Update,
            (Some(_), None) => Cause::Delete,
        };
        let add = Add {
            priority,
            after: None,
            cause,
        };
        if let Some(mapped) = &self.mapped {
            if !mapped.push(change, add) {
                self.rescan.notify_one();
            }
            return;
        }
        let rule = Rule {
            enqueue: &self.watch.enqueue,
            primary: self.primary.as_ref(),
            index: self.index.as_ref(),
            backend: &self.backend,
        };
        for key in requests(&rule, old, new) {
            self.enqueue(Request::new(self.cluster.name().clone(), key), add);
        }
    }
}

impl SourceSink {
    /// The object if the watch may see it and asks for it: the store may hold more.
    fn selected<'a>(&self, object: Option<&'a Object>) -> Option<&'a Object> {
        let labels = self.watch.label_selector.as_ref();
        object
            .filter(|object| {
                self.namespace.is_none()
                    || self.namespace.as_deref() == object.namespace().as_deref()
            })
            .filter(|object| labels.is_none_or(|labels| labels.matches(&object.labels())))
    }

    pub(crate) fn enqueue(&self, request: Request, add: Add) {
        if !self.offer.offer(request, add) {
            self.rescan.notify_one();
        }
    }
}
