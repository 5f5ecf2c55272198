//! Decides which call of a cluster begins next, fairly by owner, without I/O. Entry point: [`FairSlots::next`].
//!
//! Invariant: no call waits that may take a slot now. [`FairSlots::next`] restores it after a release.
//! A release costs one pass over the owners with calls that wait or are in flight.

use crate::http::transport::Owner;
use std::collections::{BTreeMap, HashMap};

/// An owner may take a slot while it holds fewer than this many times the free slots. So one owner alone holds at most three quarters of all
/// slots, two hold three sevenths each, and an owner without a slot finds a free one.
const TIMES_THE_FREE: usize = 3;

/// The slots of one cluster and the calls that wait for one. `W` is a waiting call.
#[derive(Debug)]
pub(super) struct FairSlots<W> {
    free: usize,
    /// Counts waits and slots taken: the smaller number is the earlier event.
    clock: u64,
    /// Owners that hold a slot or wait for one.
    owners: HashMap<Owner, Owned<W>>,
}

#[derive(Debug)]
struct Owned<W> {
    held: usize,
    /// When the owner took its last slot, or first appeared.
    served: u64,
    /// In order of arrival.
    waiting: BTreeMap<u64, W>,
}

impl<W> FairSlots<W> {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            free: slots,
            clock: 0,
            owners: HashMap::new(),
        }
    }

    /// Takes a slot if the owner may have one now. By the invariant no earlier call of the owner waits then.
    pub(super) fn try_take(&mut self, owner: &Owner) -> bool {
        let held = self.owners.get(owner).map_or(0, |owned| owned.held);
        if !may_take(held, self.free) {
            return false;
        }
        let now = self.tick();
        let owned = self.owned(owner, now);
        owned.held += 1;
        owned.served = now;
        self.free -= 1;
        true
    }

    /// Adds a waiting call and returns its ticket.
    pub(super) fn wait(&mut self, owner: &Owner, call: W) -> u64 {
        let now = self.tick();
        self.owned(owner, now).waiting.insert(now, call);
        now
    }

    /// Removes a waiting call. Does nothing if the call has a slot already.
    pub(super) fn give_up(&mut self, owner: &Owner, ticket: u64) {
        if let Some(owned) = self.owners.get_mut(owner) {
            owned.waiting.remove(&ticket);
        }
        self.remove_if_idle(owner);
    }

    /// Takes back a slot. [`FairSlots::next`] must be called after it.
    pub(super) fn release(&mut self, owner: &Owner) {
        if let Some(owned) = self.owners.get_mut(owner) {
            owned.held -= 1;
            self.free += 1;
        }
        self.remove_if_idle(owner);
    }

    /// Gives a slot to the next waiting call, if it may have one. The owner with the fewest slots goes first; among equals, the owner
    /// whose last slot is the longest ago.
    pub(super) fn next(&mut self) -> Option<(Owner, W)> {
        let waiting = self.owners.iter_mut().filter(|o| !o.1.waiting.is_empty());
        let (owner, owned) = waiting.min_by_key(|(_, owned)| (owned.held, owned.served))?;
        if !may_take(owned.held, self.free) {
            return None;
        }
        let (_, call) = owned.waiting.pop_first()?;
        self.free -= 1;
        self.clock += 1;
        owned.held += 1;
        owned.served = self.clock;
        Some((owner.clone(), call))
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn owned(&mut self, owner: &Owner, now: u64) -> &mut Owned<W> {
        self.owners.entry(owner.clone()).or_insert_with(|| Owned {
            held: 0,
            served: now,
            waiting: BTreeMap::new(),
        })
    }

    fn remove_if_idle(&mut self, owner: &Owner) {
        let idle = |owned: &Owned<W>| owned.held == 0 && owned.waiting.is_empty();
        if self.owners.get(owner).is_some_and(idle) {
            self.owners.remove(owner);
        }
    }
}

fn may_take(held: usize, free: usize) -> bool {
    held < free.saturating_mul(TIMES_THE_FREE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::TenantName;

    fn owner(at: usize) -> Owner {
        match at {
            0 => Owner::Program,
            at => Owner::Tenant(TenantName::new(format!("t{at}")).unwrap()),
        }
    }

    fn all_next<W>(slots: &mut FairSlots<W>) -> Vec<(Owner, W)> {
        std::iter::from_fn(|| slots.next()).collect()
    }

    #[test]
    fn one_owner_alone_leaves_a_quarter_of_the_slots_free() {
        let (mut slots, [busy, other]) = (FairSlots::new(128), [owner(1), owner(2)]);
        let taken = (0..1000).filter(|_| slots.try_take(&busy)).count();
        assert_eq!(taken, 96);
        for call in 0..100 {
            slots.wait(&busy, call);
        }
        assert_eq!(all_next(&mut slots), []);
        assert_eq!((0..1000).filter(|_| slots.try_take(&other)).count(), 24);
    }

    #[test]
    fn one_owner_may_hold_all_of_few_slots() {
        for total in 1..=3 {
            let mut slots: FairSlots<()> = FairSlots::new(total);
            assert_eq!((0..10).filter(|_| slots.try_take(&owner(1))).count(), total);
        }
    }

    #[test]
    fn owners_take_turns_at_one_slot_however_many_calls_each_has() {
        let mut slots = FairSlots::new(1);
        assert!(slots.try_take(&owner(1)));
        for call in 0..100 {
            slots.wait(&owner(1), call);
        }
        for call in 100..103 {
            slots.wait(&owner(2), call);
            slots.wait(&owner(3), call);
        }
        let mut order = Vec::new();
        let mut holds = owner(1);
        for _ in 0..10 {
            slots.release(&holds);
            let (next, _) = slots.next().unwrap();
            assert_eq!(slots.next(), None);
            order.push(next.clone());
            holds = next;
        }
        for at in 1..=3 {
            let served = order.iter().filter(|one| **one == owner(at)).count();
            assert!(
                served >= 3,
                "owner {at} had {served} of ten turns: {order:?}"
            );
        }
    }

    #[test]
    fn a_call_that_gave_up_gets_no_slot_and_leaves_nothing_behind() {
        let mut slots = FairSlots::new(1);
        assert!(slots.try_take(&owner(1)));
        let ticket = slots.wait(&owner(2), "a");
        slots.wait(&owner(2), "b");
        slots.give_up(&owner(2), ticket);
        slots.release(&owner(1));
        assert_eq!(slots.next(), Some((owner(2), "b")));
        slots.give_up(&owner(2), ticket);
        slots.release(&owner(2));
        assert!(slots.owners.is_empty() && slots.free == 1);
    }

    /// The same rules over plain lists.
    #[derive(Default)]
    struct Model {
        held: Vec<usize>,
        /// Owner, ticket.
        waiting: Vec<(usize, u64)>,
    }

    impl Model {
        fn held_by(&self, owner: usize) -> usize {
            self.held.iter().filter(|one| **one == owner).count()
        }
    }

    #[test]
    fn random_calls_are_served_as_in_a_plain_list() {
        const SLOTS: usize = 9;
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut slots, mut model) = (FairSlots::new(SLOTS), Model::default());
            for _ in 0..400 {
                let at = rng.usize(0..5);
                match rng.u8(0..10) {
                    0..5 => {
                        let free = SLOTS - model.held.len();
                        let takes = model.held_by(at) < 3 * free;
                        assert_eq!(slots.try_take(&owner(at)), takes, "seed {seed}");
                        if takes {
                            model.held.push(at);
                        } else {
                            model.waiting.push((at, slots.wait(&owner(at), at)));
                        }
                    }
                    5 if !model.waiting.is_empty() => {
                        let given_up = rng.usize(0..model.waiting.len());
                        let (at, ticket) = model.waiting.remove(given_up);
                        slots.give_up(&owner(at), ticket);
                    }
                    _ if !model.held.is_empty() => {
                        let ended = rng.usize(0..model.held.len());
                        slots.release(&owner(model.held.swap_remove(ended)));
                    }
                    _ => {}
                }
                while let Some((_, at)) = slots.next() {
                    let least = model.waiting.iter().map(|(one, _)| model.held_by(*one));
                    assert_eq!(Some(model.held_by(at)), least.min(), "seed {seed}");
                    let first = model.waiting.iter().position(|(one, _)| *one == at);
                    model.waiting.remove(first.unwrap());
                    model.held.push(at);
                }
                let free = SLOTS - model.held.len();
                assert_eq!(slots.free, free, "seed {seed}");
                let mut waiting = model.waiting.iter();
                assert!(waiting.all(|(one, _)| model.held_by(*one) >= 3 * free));
            }
        }
    }
}
