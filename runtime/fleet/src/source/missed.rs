//! Requests for objects that are gone, which found no room in the queue. No rescan of the store would repeat them.
//! Entry point: [`Missed`].
//!
//! None is ever dropped, and they need no limit of their own. **Invariant: there are never more than the requests for objects that the
//! store held when the first of them found no room.** It holds because nothing new is enqueued while any request is missed. Until all of
//! them have been enqueued, a change is only noted here: a request that its object made before, and does not make any more, is missed
//! too. A request that the object makes only now is not enqueued, so its end is not missed either; a rescan enqueues it afterwards.
//! So objects that come and go, however many there are, leave nothing behind.
//!
//! Cost: a key for each missed request. An object in the store takes several times as much.

use crate::queue::Add;
use crate::request::{ObjectKey, Request};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Requests that wait for room, and the objects that have changed since the first of them was missed.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    requests: BTreeMap<Request, Add>,
    /// By object that has changed and exists: of the requests that were enqueued for it before, those that it still makes.
    enqueued: HashMap<ObjectKey, BTreeSet<Request>>,
}

impl Missed {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn add(&mut self, request: Request, add: Add) {
        self.requests.insert(request, add);
    }

    /// Notes a change of an object while any request is missed. `before`: the requests that it made until now; `after`: those that it
    /// makes from now on, `None` once it is gone.
    pub(super) fn changed(
        &mut self,
        object: ObjectKey,
        before: BTreeSet<Request>,
        after: Option<&BTreeSet<Request>>,
        add: Add,
    ) {
        let mut enqueued = self.enqueued.remove(&object).unwrap_or(before);
        let missed = match after {
            None => enqueued,
            Some(after) => {
                let missed = enqueued.difference(after).cloned().collect();
                enqueued.retain(|request| after.contains(request));
                self.enqueued.insert(object, enqueued);
                missed
            }
        };
        let missed = missed.into_iter().map(|request| (request, add));
        self.requests.extend(missed);
    }

    /// Enqueues them until one is refused. Returns whether none is left.
    pub(super) fn enqueue(&mut self, mut enqueue: impl FnMut(&Request, Add) -> bool) -> bool {
        while let Some((request, add)) = self.requests.pop_first() {
            if !enqueue(&request, add) {
                self.requests.insert(request, add);
                return false;
            }
        }
        self.enqueued = HashMap::new();
        true
    }

    /// Adds those of another watch of the same objects.
    pub(super) fn inherit(&mut self, other: Self) {
        self.requests.extend(other.requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ClusterName;
    use crate::queue::Cause;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("default", name)
    }

    fn of(names: &[&str]) -> BTreeSet<Request> {
        let cluster = ClusterName::new("alpha").unwrap();
        let keys = names.iter().map(|name| key(name));
        keys.map(|key| Request::new(cluster.clone(), key)).collect()
    }

    fn gone() -> Add {
        Add::now(Cause::Delete)
    }

    fn missing(request: &str) -> Missed {
        let mut missed = Missed::default();
        missed.add(of(&[request]).pop_first().unwrap(), gone());
        missed
    }

    fn left(mut missed: Missed) -> Vec<String> {
        let mut left = Vec::new();
        assert!(missed.enqueue(|request, _| {
            left.push(request.key.name.to_string());
            true
        }));
        left
    }

    #[test]
    fn objects_that_come_and_go_meanwhile_leave_nothing() {
        let mut missed = missing("a");
        for n in 0..1000 {
            let name = n.to_string();
            missed.changed(key(&name), BTreeSet::new(), Some(&of(&[&name])), gone());
            missed.changed(key(&name), of(&[&name]), None, gone());
        }
        assert_eq!((missed.len(), missed.enqueued.len()), (1, 0));
    }

    #[test]
    fn what_was_there_and_goes_is_missed_once() {
        let mut missed = missing("a");
        for _ in 0..2 {
            missed.changed(key("b"), of(&["b"]), None, gone());
            missed.changed(key("b"), BTreeSet::new(), Some(&of(&["b"])), gone());
        }
        assert_eq!(left(missed), ["a", "b"]);
    }

    #[test]
    fn what_an_object_asked_for_first_is_missed_however_often_it_changes() {
        let mut missed = missing("a");
        let mut before = of(&["one", "two"]);
        for owners in [&["one", "three"], &["four", "one"], &["five", "six"]] {
            let after = of(owners);
            missed.changed(key("b"), before, Some(&after), gone());
            before = after;
        }
        assert_eq!(left(missed), ["a", "one", "two"]);
    }

    #[test]
    fn those_that_are_refused_again_wait_on() {
        let mut missed = missing("a");
        missed.inherit(missing("b"));
        let mut room = 1;
        let taken = missed.enqueue(|_, _| {
            room -= 1;
            room == 0
        });
        assert!(!taken && missed.len() == 1);
        assert_eq!(left(missed), ["b"]);
    }
}
