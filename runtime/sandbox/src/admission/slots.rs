//! Instance slots, shared among tenants. Entry point: [`Slots`].
//!
//! A call beyond the slots waits. The next free slot goes to the waiting tenant with the fewest slots. A call that runs cannot be
//! preempted, so no tenant may have all slots, and a few are reserved for guests that are being loaded.

use windlass_fleet::TenantName;
use windlass_fleet::fair::{First, Held, Permit, Resource};

/// One slot in 16 is reserved for guests that are being loaded, which are few at a time. They load even while calls hold all other slots.
const RESERVED_ONE_IN: usize = 16;

/// An engine with fewer slots reserves none.
const FEWEST_WITH_RESERVE: usize = 4;

/// One tenant may have three slots in four, so that a tenant whose calls all hang leaves a quarter to the others.
const CEILING: (usize, usize) = (3, 4);

/// Room for one instance. Drop it after the instance.
pub(crate) type Slot = Permit<Slots>;

/// The slots of one engine.
#[derive(Debug)]
pub(crate) struct Slots {
    free: usize,
    /// Slots that only guests that are being loaded may use.
    reserve: usize,
    /// Most slots of one tenant.
    ceiling: usize,
    held: Held<TenantName>,
}

impl Slots {
    /// So many slots, all free.
    pub(crate) fn new(size: usize) -> Self {
        let reserve = if size < FEWEST_WITH_RESERVE {
            0
        } else {
            (size / RESERVED_ONE_IN).max(1)
        };
        Self {
            free: size,
            reserve,
            ceiling: (size * CEILING.0 / CEILING.1).max(1),
            held: Held::default(),
        }
    }

    /// Whether a tenant has as many slots as one tenant may have.
    pub(crate) fn is_at_ceiling(&self, tenant: &TenantName) -> bool {
        self.held.by(tenant) >= self.ceiling
    }
}

impl Resource for Slots {
    type Tenant = TenantName;
    type Amount = ();
    /// Loading before calls; then by the slots of the tenant, which does not count for loading; then by arrival.
    type Rank = (bool, usize, u64);

    fn fits(&self, tenant: &TenantName, loading: bool, (): ()) -> bool {
        if loading {
            return self.free > 0;
        }
        self.free > self.reserve && !self.is_at_ceiling(tenant)
    }

    fn rank(&self, first: &First<'_, TenantName>) -> Self::Rank {
        let is_patient = first.ticket.is_patient;
        let held = if is_patient {
            self.held.by(first.tenant)
        } else {
            0
        };
        (is_patient, held, first.ticket.arrival)
    }

    fn take(&mut self, tenant: &TenantName, (): ()) {
        self.free -= 1;
        self.held.add(tenant, 1);
    }

    fn give_back(&mut self, tenant: &TenantName, (): ()) {
        self.free += 1;
        self.held.subtract(tenant, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::fair::WaitList;

    fn name(of: &str) -> TenantName {
        TenantName::new(of).unwrap()
    }

    fn take_all(list: &mut WaitList<Slots, &str>, tenant: &TenantName) -> usize {
        std::iter::from_fn(|| list.try_take(tenant, false, ())).count()
    }

    #[test]
    fn no_tenant_has_all_slots_and_the_one_with_the_fewest_is_next() {
        let mut list = WaitList::new(Slots::new(16));
        let (a, b, c) = (name("a"), name("b"), name("c"));
        assert_eq!(take_all(&mut list, &a), 12, "three quarters");
        assert_eq!(take_all(&mut list, &b), 3);
        assert_eq!(list.resource.free, 1, "reserved for guests that load");
        for (tenant, waiter) in [(&a, "a"), (&b, "b1"), (&b, "b2"), (&c, "c")] {
            list.wait(tenant, false, (), waiter);
        }
        let mut order = Vec::new();
        for _ in 0..4 {
            list.give_back(&a, ());
            order.extend(list.serve_next().map(|(.., waiter)| waiter));
        }
        assert_eq!(order, ["c", "b1", "b2", "a"]);
        assert!(list.serve_next().is_none() && list.is_empty());
    }

    #[test]
    fn a_guest_that_is_loaded_finds_a_slot_beside_busy_ones() {
        let mut list = WaitList::new(Slots::new(16));
        let (a, b) = (name("a"), name("b"));
        take_all(&mut list, &a);
        take_all(&mut list, &b);
        let reserved = list.try_take(&a, true, ());
        assert!(reserved.is_some() && list.try_take(&a, true, ()).is_none());
        list.wait(&b, false, (), "call");
        list.wait(&a, true, (), "load");
        list.give_back(&b, ());
        assert_eq!(list.serve_next().map(|(.., waiter)| waiter), Some("load"));
    }

    #[test]
    fn the_smallest_engine_serves_every_tenant() {
        let mut list = WaitList::<_, ()>::new(Slots::new(1));
        assert!(list.try_take(&name("a"), false, ()).is_some());
        list.give_back(&name("a"), ());
        assert!(list.try_take(&name("b"), true, ()).is_some());
        list.give_back(&name("b"), ());
        assert!(list.resource.held.is_empty());
    }
}
