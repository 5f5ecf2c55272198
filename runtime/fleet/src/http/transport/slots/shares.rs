//! Which call of a cluster begins next: a share of the slots for each owner, without I/O. Entry point: [`Shares::next`].
//!
//! Invariant: no call waits that may have a slot now. [`Shares::next`] restores it after a release.
//! A release costs a pass over the owners whose calls wait or are under way.

use crate::http::transport::Owner;
use std::collections::{BTreeMap, HashMap};

/// An owner takes one more slot only while it holds fewer than this many times the free ones. One owner alone therefore holds three
/// quarters of all slots at most, two hold three sevenths each, and an owner without a slot finds a free one.
const TIMES_THE_FREE: usize = 3;

/// The slots of one cluster and the calls that wait for one; `W` stands for a waiting call.
#[derive(Debug)]
pub(super) struct Shares<W> {
    free: usize,
    /// Counts calls that came to wait and slots that were given: what has a smaller number came earlier.
    clock: u64,
    /// Owners that hold a slot or wait for one.
    owners: HashMap<Owner, Share<W>>,
}

#[derive(Debug)]
struct Share<W> {
    held: usize,
    /// When the owner was given its last slot, or came.
    served: u64,
    /// In the order in which the calls came.
    waiting: BTreeMap<u64, W>,
}

impl<W> Shares<W> {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            free: slots,
            clock: 0,
            owners: HashMap::new(),
        }
    }

    /// Takes a slot for an owner that may have one now. By the invariant no call of its own waits then.
    pub(super) fn try_take(&mut self, owner: &Owner) -> bool {
        let held = self.owners.get(owner).map_or(0, |share| share.held);
        if !may_take(held, self.free) {
            return false;
        }
        let now = self.tick();
        let share = self.share(owner, now);
        share.held += 1;
        share.served = now;
        self.free -= 1;
        true
    }

    /// Has a call wait, and returns its ticket.
    pub(super) fn wait(&mut self, owner: &Owner, call: W) -> u64 {
        let now = self.tick();
        self.share(owner, now).waiting.insert(now, call);
        now
    }

    /// A call waits no longer. Nothing happens if it was given a slot before.
    pub(super) fn give_up(&mut self, owner: &Owner, ticket: u64) {
        if let Some(share) = self.owners.get_mut(owner) {
            share.waiting.remove(&ticket);
        }
        self.forget_if_idle(owner);
    }

    /// Takes back a slot. [`Shares::next`] says who gets it.
    pub(super) fn release(&mut self, owner: &Owner) {
        if let Some(share) = self.owners.get_mut(owner) {
            share.held -= 1;
            self.free += 1;
        }
        self.forget_if_idle(owner);
    }

    /// Gives a slot to the waiting call that is next, if one may have it: of the owner with the fewest slots, and among equals of the
    /// one that was served the longest ago.
    pub(super) fn next(&mut self) -> Option<(Owner, W)> {
        let waiting = self.owners.iter_mut().filter(|o| !o.1.waiting.is_empty());
        let (owner, share) = waiting.min_by_key(|(_, share)| (share.held, share.served))?;
        if !may_take(share.held, self.free) {
            return None;
        }
        let (_, call) = share.waiting.pop_first()?;
        self.free -= 1;
        self.clock += 1;
        share.held += 1;
        share.served = self.clock;
        Some((owner.clone(), call))
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn share(&mut self, owner: &Owner, now: u64) -> &mut Share<W> {
        self.owners.entry(owner.clone()).or_insert_with(|| Share {
            held: 0,
            served: now,
            waiting: BTreeMap::new(),
        })
    }

    fn forget_if_idle(&mut self, owner: &Owner) {
        let idle = |share: &Share<W>| share.held == 0 && share.waiting.is_empty();
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

    fn all_next<W>(shares: &mut Shares<W>) -> Vec<(Owner, W)> {
        std::iter::from_fn(|| shares.next()).collect()
    }

    #[test]
    fn one_owner_alone_leaves_a_quarter_of_the_slots_free() {
        let (mut shares, [busy, other]) = (Shares::new(128), [owner(1), owner(2)]);
        let taken = (0..1000).filter(|_| shares.try_take(&busy)).count();
        assert_eq!(taken, 96);
        for call in 0..100 {
            shares.wait(&busy, call);
        }
        assert_eq!(all_next(&mut shares), []);
        assert_eq!((0..1000).filter(|_| shares.try_take(&other)).count(), 24);
    }

    #[test]
    fn few_slots_are_all_had_by_one_owner() {
        for slots in 1..=3 {
            let mut shares: Shares<()> = Shares::new(slots);
            assert_eq!(
                (0..10).filter(|_| shares.try_take(&owner(1))).count(),
                slots
            );
        }
    }

    #[test]
    fn owners_take_turns_at_one_slot_however_many_calls_each_has() {
        let mut shares = Shares::new(1);
        assert!(shares.try_take(&owner(1)));
        for call in 0..100 {
            shares.wait(&owner(1), call);
        }
        for call in 100..103 {
            shares.wait(&owner(2), call);
            shares.wait(&owner(3), call);
        }
        let mut order = Vec::new();
        let mut holds = owner(1);
        for _ in 0..10 {
            shares.release(&holds);
            let (next, _) = shares.next().unwrap();
            assert_eq!(shares.next(), None);
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
        let mut shares = Shares::new(1);
        assert!(shares.try_take(&owner(1)));
        let ticket = shares.wait(&owner(2), "a");
        shares.wait(&owner(2), "b");
        shares.give_up(&owner(2), ticket);
        shares.release(&owner(1));
        assert_eq!(shares.next(), Some((owner(2), "b")));
        shares.give_up(&owner(2), ticket);
        shares.release(&owner(2));
        assert!(shares.owners.is_empty() && shares.free == 1);
    }

    /// A list of what is held and what waits, in order: what the rules say, in the plainest words.
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
            let (mut shares, mut model) = (Shares::new(SLOTS), Model::default());
            for _ in 0..400 {
                let at = rng.usize(0..5);
                match rng.u8(0..10) {
                    0..5 => {
                        let free = SLOTS - model.held.len();
                        let takes = model.held_by(at) < 3 * free;
                        assert_eq!(shares.try_take(&owner(at)), takes, "seed {seed}");
                        if takes {
                            model.held.push(at);
                        } else {
                            model.waiting.push((at, shares.wait(&owner(at), at)));
                        }
                    }
                    5 if !model.waiting.is_empty() => {
                        let given_up = rng.usize(0..model.waiting.len());
                        let (at, ticket) = model.waiting.remove(given_up);
                        shares.give_up(&owner(at), ticket);
                    }
                    _ if !model.held.is_empty() => {
                        let ended = rng.usize(0..model.held.len());
                        shares.release(&owner(model.held.swap_remove(ended)));
                    }
                    _ => {}
                }
                while let Some((_, at)) = shares.next() {
                    let least = model.waiting.iter().map(|(one, _)| model.held_by(*one));
                    assert_eq!(Some(model.held_by(at)), least.min(), "seed {seed}");
                    let first = model.waiting.iter().position(|(one, _)| *one == at);
                    model.waiting.remove(first.unwrap());
                    model.held.push(at);
                }
                let free = SLOTS - model.held.len();
                assert_eq!(shares.free, free, "seed {seed}");
                let mut waiting = model.waiting.iter();
                assert!(waiting.all(|(one, _)| model.held_by(*one) >= 3 * free));
            }
        }
    }
}
