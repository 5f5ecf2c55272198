//! Slots for the calls in flight of one cluster, the host's own apart. Entry point: [`CallSlots`].
//!
//! A release costs one pass over the owners whose calls wait.

use super::Owner;
use crate::fair::{FairSemaphore, First, Held, Permit, Resource};

/// An owner may take a slot while it holds fewer than this many times the free slots. So one owner alone holds at most three quarters of all
/// slots, two hold three sevenths each, and an owner without a slot finds a free one.
const TIMES_THE_FREE: usize = 3;

/// The slots of one cluster, and the calls that wait for one.
pub(super) type Slots = FairSemaphore<CallSlots>;

/// A slot for one call.
pub(super) type Slot = Permit<CallSlots>;

/// The slots of one cluster.
#[derive(Debug)]
pub(super) struct CallSlots {
    free: usize,
    held: Held<Owner>,
}

impl CallSlots {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            free: slots,
            held: Held::default(),
        }
    }
}

impl Resource for CallSlots {
    type Tenant = Owner;
    type Amount = ();
    /// The owner with the fewest slots goes first; among equals, the one that has waited longest since it last gave one back.
    type Rank = (usize, u64);

    fn fits(&self, owner: &Owner, _: bool, (): ()) -> bool {
        self.held.by(owner) < self.free.saturating_mul(TIMES_THE_FREE)
    }

    fn rank(&self, first: &First<'_, Owner>) -> Self::Rank {
        (self.held.by(first.tenant), first.since)
    }

    fn take(&mut self, owner: &Owner, (): ()) {
        self.free -= 1;
        self.held.add(owner, 1);
    }

    fn give_back(&mut self, owner: &Owner, (): ()) {
        self.free += 1;
        self.held.subtract(owner, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::{Ticket, WaitList};
    use crate::name::TenantName;
    use futures::FutureExt;

    fn owner(at: usize) -> Owner {
        match at {
            0 => Owner::Program,
            at => Owner::Tenant(TenantName::new(format!("t{at}")).unwrap()),
        }
    }

    /// Calls, each with its number, and slots.
    type Calls = WaitList<CallSlots, usize>;

    fn take_all(calls: &mut Calls, owner: &Owner) -> usize {
        std::iter::from_fn(|| calls.try_take(owner, false, ())).count()
    }

    #[test]
    fn one_owner_alone_leaves_a_quarter_of_the_slots_free() {
        let mut calls = Calls::new(CallSlots::new(128));
        assert_eq!(take_all(&mut calls, &owner(1)), 96);
        for call in 0..100 {
            calls.wait(&owner(1), false, (), call);
        }
        assert_eq!(calls.serve_next(), None);
        assert_eq!(take_all(&mut calls, &owner(2)), 24);
    }

    #[test]
    fn one_owner_may_hold_all_of_few_slots() {
        for total in 1..=3 {
            let mut calls = Calls::new(CallSlots::new(total));
            assert_eq!(take_all(&mut calls, &owner(1)), total);
        }
    }

    #[test]
    fn owners_take_turns_at_one_slot_however_many_calls_each_has() {
        let mut calls = Calls::new(CallSlots::new(1));
        assert_eq!(take_all(&mut calls, &owner(1)), 1);
        for call in 0..100 {
            calls.wait(&owner(1), false, (), call);
        }
        for call in 100..103 {
            calls.wait(&owner(2), false, (), call);
            calls.wait(&owner(3), false, (), call);
        }
        let mut order = Vec::new();
        let mut holds = owner(1);
        for _ in 0..9 {
            calls.give_back(&holds, ());
            let (next, ..) = calls.serve_next().unwrap();
            assert_eq!(calls.serve_next(), None);
            order.push(next.clone());
            holds = next;
        }
        for at in 1..=3 {
            let served = order.iter().filter(|one| **one == owner(at)).count();
            assert_eq!(served, 3, "owner {at}: {order:?}");
        }
    }

    #[test]
    fn a_call_that_gave_up_gets_no_slot_and_leaves_nothing_behind() {
        let mut calls = Calls::new(CallSlots::new(1));
        assert_eq!(take_all(&mut calls, &owner(1)), 1);
        let ticket = calls.wait(&owner(2), false, (), 1);
        calls.wait(&owner(2), false, (), 2);
        assert!(calls.leave(&owner(2), ticket).is_some());
        calls.give_back(&owner(1), ());
        assert_eq!(calls.serve_next(), Some((owner(2), (), 2)));
        assert!(calls.leave(&owner(2), ticket).is_none());
        calls.give_back(&owner(2), ());
        let slots = &calls.resource;
        assert!(calls.is_empty() && slots.held.is_empty() && slots.free == 1);
    }

    /// The same rules over plain lists.
    #[derive(Default)]
    struct Model {
        held: Vec<usize>,
        /// Owner, ticket.
        waiting: Vec<(usize, Ticket)>,
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
            let (mut calls, mut model) = (Calls::new(CallSlots::new(SLOTS)), Model::default());
            for _ in 0..400 {
                let at = rng.usize(0..5);
                match rng.u8(0..10) {
                    0..5 => {
                        let free = SLOTS - model.held.len();
                        let takes = model.held_by(at) < 3 * free;
                        let taken = calls.try_take(&owner(at), false, ());
                        assert_eq!(taken.is_some(), takes, "seed {seed}");
                        if takes {
                            model.held.push(at);
                        } else {
                            let ticket = calls.wait(&owner(at), false, (), at);
                            model.waiting.push((at, ticket));
                        }
                    }
                    5 if !model.waiting.is_empty() => {
                        let given_up = rng.usize(0..model.waiting.len());
                        let (at, ticket) = model.waiting.remove(given_up);
                        assert!(calls.leave(&owner(at), ticket).is_some());
                    }
                    _ if !model.held.is_empty() => {
                        let ended = rng.usize(0..model.held.len());
                        calls.give_back(&owner(model.held.swap_remove(ended)), ());
                    }
                    _ => {}
                }
                while let Some((.., at)) = calls.serve_next() {
                    let least = model.waiting.iter().map(|(one, _)| model.held_by(*one));
                    assert_eq!(Some(model.held_by(at)), least.min(), "seed {seed}");
                    let first = model.waiting.iter().position(|(one, _)| *one == at);
                    model.waiting.remove(first.unwrap());
                    model.held.push(at);
                }
                let free = SLOTS - model.held.len();
                assert_eq!(calls.resource.free, free, "seed {seed}");
                let mut waiting = model.waiting.iter();
                assert!(waiting.all(|(one, _)| model.held_by(*one) >= 3 * free));
            }
        }
    }

    #[tokio::test]
    async fn a_slot_goes_to_the_next_call_that_still_waits() {
        let (slots, owner) = (Slots::new(CallSlots::new(1)), Owner::Program);
        let take = || slots.acquire(&owner, false, ());
        let held = take().await;
        let mut first = Box::pin(take());
        let mut second = Box::pin(take());
        let mut third = Box::pin(take());
        for waits in [&mut first, &mut second, &mut third] {
            assert!(waits.now_or_never().is_none());
        }
        drop(first);
        drop(held);
        // Given, and never picked up: the slot goes on.
        drop(second);
        let held = third.await;
        assert!(take().now_or_never().is_none());
        drop(held);
        assert!(take().now_or_never().is_some());
    }
}
