//! Where a store's changes become requests of one controller. Entry point: [`SourceSink`].

use super::debts::Debts;
use super::enqueue::{Rule, requests};
use super::mapped::MappedEvents;
use super::{Enqueue, Watch};
use crate::cache::store::{Change, Sink};
use crate::cluster::{Backend, Caller, Cluster, Fleet, may_see};
use crate::grant::Grant;
use crate::json::Object;
use crate::kind::GroupVersionKind;
use crate::name::ClusterName;
use crate::paused::Pause;
use crate::predicate;
use crate::queue::{Add, Cause, Origin};
use crate::request::Request;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// The queue, as the sources of one controller see it.
pub(crate) trait ControllerQueue: Send + Sync {
    /// Enqueues a request. `false`: refused, as the controller has as many keys in the queue as it may have.
    fn enqueue(&self, request: &Request, add: Add) -> bool;

    /// Names the controller in its calls to API servers.
    fn caller(&self) -> Caller;

    /// Counts a deletion that will not be mapped.
    fn count_lost_deletion(&self);
}

/// The task of a watch. A watch at rest has none.
pub(crate) trait WatchTask: Send + Sync {
    /// Has the task look for work, and starts it if there is none. Does no work once the watch has ended. Takes no lock of a store or of the
    /// queue, and drops nothing that does.
    fn wake(self: Arc<Self>);
}

/// One watch of one controller in one cluster.
pub(crate) struct SourceSink {
    /// Of the watch that it is a sink of.
    pub(crate) task: Arc<dyn WatchTask>,
    pub(crate) cluster: Arc<Cluster>,
    /// For mappers.
    pub(crate) fleet: Fleet,
    pub(crate) backend: Arc<Backend>,
    pub(crate) watch: Arc<Watch>,
    /// The rights of the controller.
    pub(crate) grant: Arc<Grant>,
    /// The one namespace that the watch may see, in its shown form, where its store holds more.
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) primary: Option<GroupVersionKind>,
    /// The stores' name of the index of a `by-index` rule.
    pub(crate) index: Option<Arc<str>>,
    pub(crate) queue: Arc<dyn ControllerQueue>,
    /// The controller's number for the watched kind.
    pub(crate) origin: Origin,
    /// Where mapped events wait for their code.
    pub(crate) mapped: Option<Box<MappedEvents>>,
    /// Empty until there are any. In a box, as there are thousands of sinks.
    pub(crate) debts: OnceLock<Box<Debts>>,
}

impl Sink for SourceSink {
    fn changed(&self, change: &Change) {
        if let Some(change) = self.cluster.scope().shown_change(change) {
            self.shown(&change);
        }
    }

    fn progressed(&self) {
        self.wake_task();
    }

    fn part(&self) -> Option<Arc<str>> {
        let scope = self.cluster.scope();
        // A watch is only granted namespaces that its cluster has.
        scope
            .stored_namespace(self.namespace.clone())
            .ok()
            .flatten()
    }
}

impl SourceSink {
    /// Handles a change in its shown form.
    fn shown(&self, change: &Change) {
        if !self.handle(change, None) {
            self.enqueue_all(Cause::List);
        }
    }

    /// The requests that found no room in the queue. Made with the first one.
    pub(crate) fn debts(&self) -> &Debts {
        self.debts.get_or_init(Box::default)
    }

    /// Enqueues every object of its store again, as soon as there is room.
    pub(crate) fn enqueue_all(&self, cause: Cause) {
        self.debts().rescan.ask(cause);
        self.wake_task();
    }

    /// Has what enqueues its debts look again, if there are any.
    pub(crate) fn look_again(&self) {
        if let Some(debts) = self.debts.get() {
            debts.rescan.wake();
        }
    }

    /// Has the watch's task look for what this sink owes.
    fn wake(&self) {
        self.look_again();
        self.wake_task();
    }

    /// Has the watch's task look for work.
    pub(crate) fn wake_task(&self) {
        self.task.clone().wake();
    }

    /// Turns a change, in its shown form, into requests and enqueues them. `cause` says why an object that has not changed is handled again. `false`: a
    /// request was refused, and handling the object again repeats it. Refused requests that this does not repeat are kept.
    pub(crate) fn handle(&self, change: &Change, cause: Option<Cause>) -> bool {
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
        if !self.watch.predicate.admits(&seen) && !self.is_paused_or_resumed(old, new) {
            return true;
        }
        let add = add_for(change, old, new, cause).by(self.origin);
        if let Some(mapped) = &self.mapped {
            let change = Change {
                old: old.cloned(),
                new: new.cloned(),
                initial: change.initial,
            };
            return mapped.push(change, add, &*self.queue);
        }
        let labels = self.cluster.labels();
        let rule = Rule {
            enqueue: &self.watch.enqueue,
            primary: self.primary.as_ref(),
            index: self.index.as_ref(),
            backend: &self.backend,
            grant: &self.grant,
            cluster: self.cluster.facts(&labels, true),
            scope: self.cluster.scope(),
        };
        let asks_for = |old, new| -> BTreeSet<Request> {
            let keys = requests(&rule, old, new).into_iter();
            keys.map(|key| Request::new(self.cluster.name().clone(), key))
                .collect()
        };
        if let Some(debts) = self.debts.get()
            && !debts.missed.lock().is_empty()
        {
            // Looked up without the lock: indexes are in stores, which have locks of their own.
            let before = asks_for(old, None);
            let after = new.map(|new| asks_for(None, Some(new)));
            let mut missed = debts.missed.lock();
            if let Some(object) = old.or(new)
                && !missed.is_empty()
            {
                // An object that is only handled again has not changed.
                if cause.is_none() {
                    missed.changed(object.key(), before, after.as_ref(), add);
                }
                return after.is_none();
            }
        }
        let mut taken = true;
        for request in asks_for(old, new) {
            if !self.queue.enqueue(&request, add) {
                taken &= self.refused(request, add, |request| {
                    requests(&rule, None, new).contains(&request.key)
                });
            }
        }
        taken
    }

    /// Whether an object of the controller's own is paused otherwise than before: its key looks at that at once, whatever the predicate
    /// admits.
    fn is_paused_or_resumed(&self, old: Option<&Object>, new: Option<&Object>) -> bool {
        self.watch.enqueue == Enqueue::Primary
            && old.zip(new).is_some_and(|(old, new)| {
                !old.same_annotations(new) && Pause::of(old) != Pause::of(new)
            })
    }

    /// Whether a request that found no room, or an object that was asked for, has not been enqueued since.
    pub(crate) fn owes(&self) -> bool {
        self.debts.get().is_some_and(|debts| debts.owes())
    }

    /// How many requests are missed.
    pub(crate) fn missed(&self) -> usize {
        let debts = self.debts.get();
        debts.map_or(0, |debts| debts.missed.lock().len())
    }

    /// Whether its mapper has made requests for a cluster.
    pub(crate) fn has_target(&self, cluster: &ClusterName) -> bool {
        self.debts
            .get()
            .is_some_and(|debts| debts.has_target(cluster))
    }

    /// The object if the watch may see it and asks for it: the store may hold more.
    fn selected<'a>(&self, object: Option<&'a Object>) -> Option<&'a Object> {
        let labels = self.watch.label_selector.as_ref();
        let is_made = self.watch.kind.is_of_host();
        object
            .filter(|object| !is_made || may_see(&self.grant, object))
            .filter(|object| {
                self.namespace.is_none()
                    || self.namespace.as_deref() == object.namespace().as_deref()
            })
            .filter(|object| labels.is_none_or(|labels| labels.matches(&object.labels())))
    }

    /// Why an object of its store enqueues nothing; `None` if it does.
    pub(crate) fn why_left_out(&self, object: &Object) -> Option<&'static str> {
        let shown = self.cluster.scope().shown(object.clone());
        let Some(object) = &shown else {
            return Some("it is not in this cluster");
        };
        if self.selected(Some(object)).is_none() {
            return Some(
                "its labels or its namespace are not those that the watch asks for, or no rule opens it",
            );
        }
        let seen = predicate::Change::Created(object);
        (!self.watch.predicate.admits(&seen)).then_some("its predicate does not let it pass")
    }

    /// Enqueues a request that the mapper made of an object. `exists`: rescans repeat the request with the object.
    pub(super) fn enqueue(&self, request: Request, add: Add, exists: bool) {
        if request.cluster != *self.cluster.name() {
            // Noted before the request is enqueued, so that it is not lost if the cluster comes in between.
            self.debts().note_target(&request.cluster);
        }
        if !self.queue.enqueue(&request, add) && !self.refused(request, add, |_| exists) {
            self.enqueue_all(Cause::List);
        }
    }

    /// Whether it has events or requests that a list of its store would not repeat.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.missed() > 0 || !self.mapped.as_deref().is_none_or(MappedEvents::is_idle)
    }

    /// Handles another sink's unfinished events and missed requests, as far as this one's watch selects it. Other sinks may handle the rest.
    pub(crate) fn inherit(&self, other: &Self) {
        let unfinished = other.mapped.as_deref().map(MappedEvents::unfinished);
        for change in unfinished.unwrap_or_default() {
            self.shown(&change);
        }
        let Some(debts) = other.debts.get() else {
            return;
        };
        let missed = std::mem::take(&mut *debts.missed.lock());
        debts.settled.notify_waiters();
        if !missed.is_empty() {
            self.debts().missed.lock().inherit(missed);
            self.wake();
        }
    }

    /// Says that no event follows.
    pub(crate) fn close(&self) {
        if let Some(mapped) = &self.mapped {
            mapped.close();
        }
    }

    /// Keeps a request that was refused. `false`: it is not kept, as a rescan `repeats` it.
    fn refused(&self, request: Request, add: Add, repeats: impl Fn(&Request) -> bool) -> bool {
        if repeats(&request) {
            return false;
        }
        self.debts().missed.lock().add(request, add);
        self.wake();
        true
    }

    /// Enqueues missed requests, until one is refused again. Returns whether none is missed any more.
    pub(crate) fn enqueue_missed(&self) -> bool {
        let enqueue = |request: &Request, add| self.queue.enqueue(request, add);
        let Some(debts) = self.debts.get() else {
            return true;
        };
        let all = debts.missed.lock().enqueue(enqueue);
        if all {
            debts.settled.notify_waiters();
        }
        all
    }

    /// Waits until no request is missed. A mapper that went on meanwhile could miss requests without bound.
    pub(super) async fn settled(&self) {
        let debts = self.debts();
        loop {
            let settled = debts.settled.notified();
            tokio::pin!(settled);
            // Listens before it checks, so that a change in between is not missed.
            settled.as_mut().enable();
            if debts.missed.lock().is_empty() {
                return;
            }
            settled.await;
        }
    }
}

/// How a change is enqueued. Objects that are only handled again, and updates that change nothing, get a low priority.
fn add_for(
    change: &Change,
    old: Option<&Object>,
    new: Option<&Object>,
    cause: Option<Cause>,
) -> Add {
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
