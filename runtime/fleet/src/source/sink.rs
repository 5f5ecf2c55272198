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
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// Most requests of what is gone that a watch in a cluster keeps while its controller's share of the queue is full.
const MAX_MISSED: usize = 100_000;

/// Takes requests for one controller.
pub(crate) trait Offer: Send + Sync {
    /// Offers a request; `false` when the controller's share of the queue is full.
    fn offer(&self, request: &Request, add: Add) -> bool;
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
    /// Requests refused for want of room that no rescan would bring: those of what is gone. At most [`MAX_MISSED`].
    pub(crate) missed: Mutex<BTreeMap<Request, Add>>,
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
            let change = Change {
                old: old.cloned(),
                new: new.cloned(),
                initial: change.initial,
            };
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
            let request = Request::new(self.cluster.name().clone(), key);
            if !self.offer.offer(&request, add) {
                let told_again = requests(&rule, None, new).contains(&request.key);
                self.refused(request, add, told_again);
            }
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

    /// Why an object that is there enqueues nothing; `None` if it does.
    pub(crate) fn leaves_out(&self, object: &Object) -> Option<&'static str> {
        if self.selected(Some(object)).is_none() {
            return Some("its labels or its namespace are not those that the watch asks for");
        }
        let seen = predicate::Change::Created(object);
        (!self.watch.predicate.admits(&seen)).then_some("its predicate does not let it pass")
    }

    /// Offers a request that the mapper made of an object that is there (or is not).
    pub(super) fn enqueue(&self, request: Request, add: Add, is_there: bool) {
        if !self.offer.offer(&request, add) {
            self.refused(request, add, is_there);
        }
    }

    /// There was no room for a request: the next rescan tells it again, or else it is kept by itself.
    fn refused(&self, request: Request, add: Add, told_again: bool) {
        if !told_again {
            let mut missed = self.missed.lock();
            if missed.len() < MAX_MISSED {
                missed.insert(request, add);
            } else {
                tracing::error!(cluster = %self.cluster.name(), kind = %self.watch.kind, "too many deletions while the queue was full: one is not told");
            }
        }
        self.rescan.notify_one();
    }

    /// Offers what was missed once more, until one is refused again. Returns whether all has been taken.
    pub(crate) fn offer_missed(&self) -> bool {
        loop {
            let Some((request, add)) = self.missed.lock().pop_first() else {
                return true;
            };
            if !self.offer.offer(&request, add) {
                self.missed.lock().insert(request, add);
                self.rescan.notify_one();
                return false;
            }
        }
    }
}
