//! A resource and its waiters, without I/O. Entry point: [`WaitList`].
//!
//! * Each tenant has a line. In a line urgent waiters come first, then the others; each group in the order of arrival.
//! * The first waiter of a line holds up the others of this line, and no other line. So a small demand never overtakes a large one of
//!   its tenant.
//! * Among the first waiters for whom there is enough, the [`Resource`] chooses.
//!
//! Entering and leaving cost the logarithm of a line; choosing looks at each tenant that waits. The list does not bound the number of
//! waiters: the callers do.

use std::collections::BTreeMap;
use std::fmt;

/// A resource that tenants share.
pub trait Resource: fmt::Debug {
    /// Each has a line.
    type Tenant: Ord + Clone + fmt::Debug;
    /// How much one waiter takes.
    type Amount: Copy + fmt::Debug;
    /// The order between lines: the least is served first.
    type Rank: Ord;

    /// Whether there is enough now.
    fn fits(&self, tenant: &Self::Tenant, urgent: bool, amount: Self::Amount) -> bool;

    /// The rank of a line by its first waiter, for whom there is enough.
    fn rank(&self, first: &First<'_, Self::Tenant>) -> Self::Rank;

    /// Takes an amount that [fits](Self::fits). Returns the amount that was taken, which may be less.
    fn take(&mut self, tenant: &Self::Tenant, amount: Self::Amount) -> Self::Amount;

    /// Takes back an amount that was [taken](Self::take).
    fn give_back(&mut self, tenant: &Self::Tenant, amount: Self::Amount);
}

/// The first waiter of a line.
#[derive(Debug)]
pub struct First<'a, T> {
    /// Whose line it is.
    pub tenant: &'a T,
    /// Its position.
    pub ticket: Ticket,
    /// When the line began, or its tenant last gave something back.
    pub since: u64,
}

/// The position of a waiter. The least comes first in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// `false` is less: urgent waiters come first.
    pub is_patient: bool,
    /// Of two waiters the earlier one has the smaller number.
    pub arrival: u64,
}

/// A resource and its waiters, which are of type `W`.
#[derive(Debug)]
pub struct WaitList<R: Resource, W> {
    /// What is shared. After a change, see [`Self::serve_next`].
    pub resource: R,
    /// No line is empty.
    lines: BTreeMap<R::Tenant, Line<R::Amount, W>>,
    /// Counts arrivals and returns, so that both have an order.
    clock: u64,
}

#[derive(Debug)]
struct Line<A, W> {
    since: u64,
    waiters: BTreeMap<Ticket, (A, W)>,
}

impl<R: Resource, W> WaitList<R, W> {
    /// A resource that nobody waits for.
    #[must_use]
    pub fn new(resource: R) -> Self {
        Self {
            resource,
            lines: BTreeMap::new(),
            clock: 0,
        }
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Takes an amount at once, if there is enough and no waiter of the tenant comes first.
    pub fn try_take(
        &mut self,
        tenant: &R::Tenant,
        urgent: bool,
        amount: R::Amount,
    ) -> Option<R::Amount> {
        let line = self.lines.get(tenant);
        let first = line.and_then(|line| line.waiters.keys().next());
        let overtakes = first.is_none_or(|first| urgent && first.is_patient);
        let there = overtakes && self.resource.fits(tenant, urgent, amount);
        there.then(|| self.resource.take(tenant, amount))
    }

    /// Enters a line. Returns the ticket to [leave](Self::leave) it with.
    pub fn wait(
        &mut self,
        tenant: &R::Tenant,
        urgent: bool,
        amount: R::Amount,
        waiter: W,
    ) -> Ticket {
        self.clock += 1;
        let ticket = Ticket {
            is_patient: !urgent,
            arrival: self.clock,
        };
        let line = self.lines.entry(tenant.clone()).or_insert_with(|| Line {
            since: self.clock,
            waiters: BTreeMap::new(),
        });
        line.waiters.insert(ticket, (amount, waiter));
        ticket
    }

    /// Leaves a line, unless the waiter was served.
    pub fn leave(&mut self, tenant: &R::Tenant, ticket: Ticket) -> Option<(R::Amount, W)> {
        let line = self.lines.get_mut(tenant)?;
        let waiter = line.waiters.remove(&ticket);
        if line.waiters.is_empty() {
            self.lines.remove(tenant);
        }
        waiter
    }

    /// Gives back an amount that was taken.
    pub fn give_back(&mut self, tenant: &R::Tenant, amount: R::Amount) {
        self.resource.give_back(tenant, amount);
        self.clock += 1;
        if let Some(line) = self.lines.get_mut(tenant) {
            line.since = self.clock;
        }
    }

    /// Takes the amount of the next waiter. Returns its tenant, the amount and the waiter. Call it after each change until it returns
    /// `None`.
    pub fn serve_next(&mut self) -> Option<(R::Tenant, R::Amount, W)> {
        let fitting = self.lines.iter().filter_map(|(tenant, line)| {
            let (&ticket, (amount, _)) = line.waiters.first_key_value()?;
            let first = First {
                tenant,
                ticket,
                since: line.since,
            };
            let fits = self.resource.fits(tenant, !ticket.is_patient, *amount);
            fits.then_some(first)
        });
        let first = fitting.min_by_key(|first| self.resource.rank(first))?;
        let (tenant, ticket) = (first.tenant.clone(), first.ticket);
        let (amount, waiter) = self.leave(&tenant, ticket)?;
        let taken = self.resource.take(&tenant, amount);
        Some((tenant, taken, waiter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::Held;

    /// So many units, of which a tenant has at most all but one; the last one is for urgent waiters. The tenant with the fewest is next.
    #[derive(Debug, Clone)]
    struct Units {
        free: usize,
        most: usize,
        held: Held<u8>,
    }

    impl Units {
        fn new(count: usize) -> Self {
            Self {
                free: count,
                most: count - 1,
                held: Held::default(),
            }
        }
    }

    impl Resource for Units {
        type Tenant = u8;
        type Amount = usize;
        type Rank = (usize, u64);

        fn fits(&self, tenant: &u8, urgent: bool, amount: usize) -> bool {
            let most = if urgent { usize::MAX } else { self.most };
            self.free >= amount + usize::from(!urgent) && self.held.by(tenant) + amount <= most
        }

        fn rank(&self, first: &First<'_, u8>) -> (usize, u64) {
            (self.held.by(first.tenant), first.since)
        }

        fn take(&mut self, tenant: &u8, amount: usize) -> usize {
            self.free -= amount;
            self.held.add(tenant, amount);
            amount
        }

        fn give_back(&mut self, tenant: &u8, amount: usize) {
            self.free += amount;
            self.held.subtract(tenant, amount);
        }
    }

    /// The same list, which looks at all of its waiters every time.
    struct Naive {
        units: Units,
        /// In the order of arrival: tenant, urgent, amount, identifier.
        waiters: Vec<(u8, bool, usize, u32)>,
        since: BTreeMap<u8, u64>,
        clock: u64,
    }

    impl Naive {
        fn first(&self, of: u8) -> Option<(u8, bool, usize, u32)> {
            let line = || self.waiters.iter().filter(|waiter| waiter.0 == of);
            let urgent = line().find(|waiter| waiter.1);
            urgent.or_else(|| line().next()).copied()
        }

        fn try_take(&mut self, tenant: u8, urgent: bool, amount: usize) -> bool {
            let first = self.first(tenant);
            let free = first.is_none_or(|first| urgent && !first.1);
            let there = free && self.units.fits(&tenant, urgent, amount);
            if there {
                self.units.take(&tenant, amount);
            }
            there
        }

        fn wait(&mut self, waiter: (u8, bool, usize, u32)) {
            self.clock += 1;
            if self.first(waiter.0).is_none() {
                self.since.insert(waiter.0, self.clock);
            }
            self.waiters.push(waiter);
        }

        fn give_back(&mut self, tenant: u8, amount: usize) {
            self.clock += 1;
            self.units.give_back(&tenant, amount);
            self.since.insert(tenant, self.clock);
        }

        fn next(&mut self) -> Option<(u8, usize, u32)> {
            let firsts = (0..=u8::MAX).filter_map(|tenant| self.first(tenant));
            let fit = firsts.filter(|first| self.units.fits(&first.0, first.1, first.2));
            let rank = |first: &(u8, bool, usize, u32)| {
                (self.units.held.by(&first.0), self.since[&first.0])
            };
            let (tenant, _, amount, next) = fit.min_by_key(rank)?;
            self.waiters.retain(|waiter| waiter.3 != next);
            self.units.take(&tenant, amount);
            Some((tenant, amount, next))
        }
    }

    #[test]
    fn random_operations_end_as_on_a_naive_list() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let units = Units::new(4);
            let mut list = WaitList::new(units.clone());
            let mut naive = Naive {
                units,
                waiters: Vec::new(),
                since: BTreeMap::new(),
                clock: 0,
            };
            let (mut tickets, mut held) = (BTreeMap::new(), Vec::new());
            for id in 0..300 {
                let (tenant, urgent) = (random.u8(0..4), random.u8(0..5) == 0);
                let amount = random.usize(1..3);
                match random.u8(0..4) {
                    0 => {
                        let taken = list.try_take(&tenant, urgent, amount);
                        assert_eq!(taken.is_some(), naive.try_take(tenant, urgent, amount));
                        held.extend(taken.map(|taken| (tenant, taken)));
                    }
                    1 => {
                        let ticket = list.wait(&tenant, urgent, amount, id);
                        tickets.insert(id, (tenant, ticket));
                        naive.wait((tenant, urgent, amount, id));
                    }
                    2 => {
                        let left = random.u32(0..300);
                        if let Some((tenant, ticket)) = tickets.remove(&left) {
                            assert!(list.leave(&tenant, ticket).is_some());
                            naive.waiters.retain(|waiter| waiter.3 != left);
                        }
                    }
                    _ if held.is_empty() => {}
                    _ => {
                        let (tenant, amount) = held.swap_remove(random.usize(..held.len()));
                        list.give_back(&tenant, amount);
                        naive.give_back(tenant, amount);
                    }
                }
                loop {
                    let next = list.serve_next();
                    assert_eq!(next, naive.next(), "seed {seed}");
                    let Some((tenant, amount, id)) = next else {
                        break;
                    };
                    tickets.remove(&id);
                    held.push((tenant, amount));
                }
                assert_eq!(list.is_empty(), naive.waiters.is_empty());
            }
            for (tenant, ticket) in tickets.into_values() {
                assert!(list.leave(&tenant, ticket).is_some());
            }
            assert!(list.is_empty());
        }
    }
}
