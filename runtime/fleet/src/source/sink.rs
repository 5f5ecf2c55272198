//! Where a store's changes become requests of one controller. Entry point: [`SourceSink`].

use super::Watch;
use super::enqueue::{Rule, requests};
use super::mapped::MappedEvents;
use super::missed::Missed;
use super::rescan::Rescan;
use crate::cache::store::{Change, Sink};
use crate::cluster::{Backend, Caller, Cluster, Fleet};
use crate::grant::Grant;
use crate::json::Object;
use crate::kind::GroupVersionKind;
use crate::name::ClusterName;
use crate::predicate;
use crate::queue::{Add, Cause, Origin};
use crate::request::Request;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Notify;

/// Most clusters that a mapper's watch remembers to have asked for.
const MAX_TARGETS: usize = 10_000;

/// Takes requests for one controller.
pub(crate) trait Offer: Send + Sync {
    /// Offers a request; `false` when the controller's share of the queue is full.
    fn offer(&self, request: &Request, add: Add) -> bool;

    /// Whom the controller's calls are made for.
    fn caller(&self) -> Caller;

    /// Counts the deletion of an object that is not passed to its mapper.
    fn lost(&self);
}

/// One watch of one controller in one cluster.
pub(crate) struct SourceSink {
    pub(crate) cluster: Arc<Cluster>,
    /// For mappers.
    pub(crate) fleet: Fleet,
    pub(crate) backend: Arc<Backend>,
    pub(crate) watch: Watch,
    /// What the controller may see.
    pub(crate) grant: Arc<Grant>,
    /// The one namespace that the watch may see, where its store holds more.
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) primary: Option<GroupVersionKind>,
    /// The stores' name of the index of a `by-index` rule.
    pub(crate) index: Option<Arc<str>>,
    pub(crate) offer: Arc<dyn Offer>,
    /// The controller's number for the watched kind.
    pub(crate) origin: Origin,
    /// Where mapped events wait for their code.
    pub(crate) mapped: Option<MappedEvents>,
    /// The part of the store to enqueue again: requests were rejected for lack of room, or a caller asked for all objects.
    pub(crate) rescan: Rescan,
    /// Requests that were rejected for lack of room and that no rescan finds: their objects are gone.
    pub(crate) missed: Mutex<Missed>,
    /// Told when nothing is missed any more.
    pub(crate) settled: Notify,
    /// Other clusters that the mapper has asked for: what it asks for while one is away must be asked for again. At most
    /// [`MAX_TARGETS`].
    pub(crate) targets: Mutex<BTreeSet<ClusterName>>,
}

impl Sink for SourceSink {
    fn changed(&self, change: &Change) {
        if !self.tell(change, None) {
            self.rescan.ask(Cause::List);
        }
    }
}

impl SourceSink {
    /// Turns a change into requests and offers them. `cause` says why what has not changed is told again. `false`: something was refused
    /// that is told again when the object is; what is not is kept by itself.
    pub(crate) fn tell(&self, change: &Change, cause: Option<Cause>) -> bool {
        // An event of a cluster that has left must not reach the queue.
        if self.cluster.token().is_cancelled() {
            return true;
        }
        let (old, new) = (
            self.selected(change.old.as_ref()),
            self.selected(change.new.as_ref()),
        );
        let seen = match (old, new) {
            (Some(old), Some(new)) => predicate::Change::Updated { old, new },
            (None, Some(new)) => predicate::Change::Created(new),
            (Some(old), None) => predicate::Change::Deleted(old),
            (None, None) => return true,
        };
        if !self.watch.predicate.admits(&seen) {
            return true;
        }
        let add = how(change, old, new, cause).by(self.origin);
        if let Some(mapped) = &self.mapped {
            let change = Change {
                old: old.cloned(),
                new: new.cloned(),
                initial: change.initial,
            };
            return mapped.push(change, add, &*self.offer);
        }
        let rule = Rule {
            enqueue: &self.watch.enqueue,
            primary: self.primary.as_ref(),
            index: self.index.as_ref(),
            backend: &self.backend,
            grant: &self.grant,
            cluster: self.cluster.facts(true),
        };
        let asks_for = |old, new| -> BTreeSet<Request> {
            let keys = requests(&rule, old, new).into_iter();
            keys.map(|key| Request::new(self.cluster.name().clone(), key))
                .collect()
        };
        if !self.missed.lock().is_empty() {
            // Looked up without the lock: indexes are in stores, which have locks of their own.
            let before = asks_for(old, None);
            let after = new.map(|new| asks_for(None, Some(new)));
            let mut missed = self.missed.lock();
            if let Some(object) = old.or(new)
                && !missed.is_empty()
            {
                // What is only told again has not changed.
                if cause.is_none() {
                    missed.changed(object.key(), before, after.as_ref(), add);
                }
                return after.is_none();
            }
        }
        let mut taken = true;
        for request in asks_for(old, new) {
            if !self.offer.offer(&request, add) {
                taken &= self.refused(request, add, |request| {
                    requests(&rule, None, new).contains(&request.key)
                });
            }
        }
        taken
    }

    /// Whether something found no room, or was asked for, and has not been offered since.
    pub(crate) fn owes(&self) -> bool {
        self.rescan.is_owed() || !self.missed.lock().is_empty()
    }

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
        if request.cluster != *self.cluster.name() {
            // Before it is offered: a cluster that comes in between hears of it one way or the other.
            self.note_target(&request.cluster);
        }
        if !self.offer.offer(&request, add) && !self.refused(request, add, |_| is_there) {
            self.rescan.ask(Cause::List);
        }
    }

    /// Whether it has events or requests that a list of its store would not repeat.
    pub(crate) fn has_unfinished(&self) -> bool {
        !self.missed.lock().is_empty() || !self.mapped.as_ref().is_none_or(MappedEvents::is_idle)
    }

    /// Tells what another sink was to tell still, as far as this one's watch selects it. Others may tell the rest.
    pub(crate) fn inherit(&self, other: &Self) {
        let left = other.mapped.as_ref().map(MappedEvents::left);
        for change in left.unwrap_or_default() {
            self.changed(&change);
        }
        let missed = std::mem::take(&mut *other.missed.lock());
        other.settled.notify_waiters();
        if !missed.is_empty() {
            self.missed.lock().inherit(missed);
            self.rescan.wake();
        }
    }

    /// Says that no event follows.
    pub(crate) fn close(&self) {
        if let Some(mapped) = &self.mapped {
            mapped.close();
        }
    }

    fn note_target(&self, cluster: &ClusterName) {
        let mut targets = self.targets.lock();
        if targets.len() < MAX_TARGETS && !targets.contains(cluster) {
            targets.insert(cluster.clone());
        }
    }

    /// There was no room for a request. `false`: it is told again with its object; else it is kept by itself.
    fn refused(&self, request: Request, add: Add, told_again: impl Fn(&Request) -> bool) -> bool {
        if told_again(&request) {
            return false;
        }
        self.missed.lock().add(request, add);
        self.rescan.wake();
        true
    }

    /// Offers what was missed once more, until one is refused again. Returns whether all has been taken.
    pub(crate) fn offer_missed(&self) -> bool {
        let offer = |request: &Request, add| self.offer.offer(request, add);
        let all = self.missed.lock().offer(offer);
        if all {
            self.settled.notify_waiters();
        }
        all
    }

    /// Waits until nothing is missed: a mapper that went on meanwhile would have more to miss without end.
    pub(super) async fn settled(&self) {
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            // Listens before it looks, so that what comes in between is not missed.
            settled.as_mut().enable();
            if self.missed.lock().is_empty() {
                return;
            }
            settled.await;
        }
    }
}

/// How a change is added: what is only told again, and what changes nothing, waits behind the rest.
fn how(change: &Change, old: Option<&Object>, new: Option<&Object>, cause: Option<Cause>) -> Add {
    let unchanged = old.zip(new).is_some_and(|(old, new)| {
        (old.resource_version(), old.uid()) == (new.resource_version(), new.uid())
    });
    let cause = cause.unwrap_or(match (old, new) {
        _ if change.initial => Cause::List,
        (None, _) => Cause::Create,
        (Some(_), Some(_)) => Cause::Update,
        (Some(_), None) => Cause::Delete,
    });
    if change.initial || unchanged {
        Add::low(cause)
    } else {
        Add::now(cause)
    }
}
