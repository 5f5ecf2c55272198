//! Requests of what is gone that found no room in the queue. No rescan of the store would bring them. Entry point: [`Missed`].
//!
//! None is ever dropped, and they need no limit of their own: **there are never more than the objects asked for that the store held as the
//! first of them found no room.** What keeps it so is that nothing new is offered while there are any. Until they have all been taken, a
//! change is only noted here: what its object asked for before and asks for no more is missed too. What it asks for now has not been
//! offered, so that nobody need hear of its end, and is offered by a rescan afterwards. So objects that come and go, however many they
//! are, leave nothing behind.
//!
//! What is kept are keys. An object in the store takes several times as much.

use crate::queue::Add;
use crate::request::{ObjectKey, Request};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Requests that wait for room, and what is known of the objects that have changed since there are any.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    requests: BTreeMap<Request, Add>,
    /// By object that has changed and is there: of the requests that were offered for it before, those that it still asks for.
    offered: HashMap<ObjectKey, BTreeSet<Request>>,
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

    /// Notes a change of an object while there is something missed. `before`: what it asked for until now; `after`: what it asks for
    /// from now on, none once it is gone.
    pub(super) fn changed(
        &mut self,
        object: ObjectKey,
        before: BTreeSet<Request>,
        after: Option<&BTreeSet<Request>>,
        add: Add,
    ) {
        let mut offered = self.offered.remove(&object).unwrap_or(before);
        let missed = match after {
            None => offered,
            Some(after) => {
                let missed = offered.difference(after).cloned().collect();
                offered.retain(|request| after.contains(request));
                self.offered.insert(object, offered);
                missed
            }
        };
        let missed = missed.into_iter().map(|request| (request, add));
        self.requests.extend(missed);
    }

    /// Offers them until one is refused. Returns whether all have been taken.
    pub(super) fn offer(&mut self, mut take: impl FnMut(&Request, Add) -> bool) -> bool {
        while let Some((request, add)) = self.requests.pop_first() {
            if !take(&request, add) {
                self.requests.insert(request, add);
                return false;
            }
        }
        self.offered = HashMap::new();
        true
    }

    /// Takes over those of another watch of the same objects.
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
        assert!(missed.offer(|request, _| {
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
        assert_eq!((missed.len(), missed.offered.len()), (1, 0));
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
        let taken = missed.offer(|_, _| {
            room -= 1;
            room == 0
        });
        assert!(!taken && missed.len() == 1);
        assert_eq!(left(missed), ["b"]);
    }
}
