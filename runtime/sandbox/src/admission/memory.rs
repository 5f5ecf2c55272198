//! Memory of a tenant that is reserved for an instance before it is made. Entry point: [`Memory`].
//!
//! A call reserves what earlier instances of its guest used. A call beyond the tenant's limit waits, and holds neither memory nor a
//! slot meanwhile, so it keeps no other call from ending. A tenant without instances can always reserve, however much it asks for:
//! memory beyond the limit is refused when the instance allocates it.

use windlass_fleet::fair::{FairSemaphore, First, Permit, Resource};

/// One eighth of a tenant's limit is reserved for answers of API servers, beyond the reservations of instances. Without it, a tenant whose
/// instances have all of its memory could not read anything. The tenant may exceed its limit by as much.
const RESERVED_ONE_IN: usize = 8;

/// The reservations of one tenant.
pub(crate) type Reservations = FairSemaphore<Memory>;

/// Memory reserved for one instance, or used by it if that is more. Drop it after the instance.
pub(crate) type Reservation = Permit<Memory>;

/// The memory of one tenant.
#[derive(Debug)]
pub(crate) struct Memory {
    /// In bytes. It may have been lowered below what is reserved.
    limit: usize,
    /// Of all live instances and of answers, in bytes.
    reserved: usize,
    /// The part of `reserved` that is of answers.
    answers: usize,
}

impl Memory {
    /// No reservations yet. `limit` is in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            reserved: 0,
            answers: 0,
        }
    }

    /// Changes the limit. Reservations beyond a smaller limit stay until their instances end.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// A demand beyond the limit is cut to it, so that it fits once nothing else is reserved.
    fn cut(&self, bytes: usize) -> usize {
        bytes.min(self.limit)
    }

    fn reserve_for_answers(&self) -> usize {
        self.limit / RESERVED_ONE_IN
    }

    /// Charges an answer, before calls that wait. `false`: there is not enough.
    pub(crate) fn charge_answer(&mut self, bytes: usize) -> bool {
        let Some(reserved) = self.reserved.checked_add(bytes) else {
            return false;
        };
        let answers = self.answers.saturating_add(bytes);
        if reserved > self.limit && answers > self.reserve_for_answers() {
            return false;
        }
        (self.reserved, self.answers) = (reserved, answers);
        true
    }

    /// Takes back the charge of answers.
    pub(crate) fn release_answer(&mut self, bytes: usize) {
        self.answers -= bytes;
        self.reserved -= bytes;
    }

    /// Bytes charged for answers.
    pub(crate) fn answers(&self) -> usize {
        self.answers
    }

    /// Of these, the bytes that instances cannot reserve.
    pub(crate) fn answers_beyond_reserve(&self) -> usize {
        self.answers.saturating_sub(self.reserve_for_answers())
    }
}

impl Resource for Memory {
    /// All reservations are of one tenant.
    type Tenant = ();
    /// In bytes.
    type Amount = usize;
    type Rank = ();

    fn fits(&self, (): &(), _: bool, bytes: usize) -> bool {
        let sum = self.reserved.checked_add(self.cut(bytes));
        sum.is_some_and(|sum| sum <= self.limit || self.reserved == 0)
    }

    fn rank(&self, _: &First<'_, ()>) {}

    fn take(&mut self, (): &(), bytes: usize) -> usize {
        let bytes = self.cut(bytes);
        self.reserved += bytes;
        bytes
    }

    fn give_back(&mut self, (): &(), bytes: usize) {
        self.reserved -= bytes;
    }
}

/// Raises a reservation to what its instance has now, if that is more.
pub(crate) fn cover(reservation: &mut Reservation, bytes: usize) {
    if let Some(more) = bytes.checked_sub(reservation.amount()) {
        reservation.set_amount(bytes, |memory| memory.reserved += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::fair::WaitList;

    fn list(limit: usize) -> WaitList<Memory, &'static str> {
        WaitList::new(Memory::new(limit))
    }

    fn next(list: &mut WaitList<Memory, &'static str>) -> Option<(&'static str, usize)> {
        list.serve_next().map(|((), bytes, waiter)| (waiter, bytes))
    }

    #[test]
    fn a_later_call_never_overtakes_one_that_waits_for_more() {
        let mut list = list(100);
        assert_eq!(list.try_take(&(), false, 70), Some(70));
        assert_eq!(list.try_take(&(), false, 40), None);
        list.wait(&(), false, 40, "large");
        let small = list.try_take(&(), false, 10);
        assert_eq!(small, None, "there is enough, and another call was first");
        list.wait(&(), false, 10, "small");
        let loaded = list.try_take(&(), true, 10);
        assert_eq!(loaded, Some(10), "a guest that is loaded comes first");
        assert_eq!(next(&mut list), None);
        list.give_back(&(), 10);
        list.give_back(&(), 70);
        assert_eq!(next(&mut list), Some(("large", 40)));
        assert_eq!(next(&mut list), Some(("small", 10)));
        assert_eq!((next(&mut list), list.resource.reserved), (None, 50));
    }

    #[test]
    fn a_call_that_needs_more_than_the_limit_waits_until_it_is_alone() {
        let mut list = list(100);
        assert_eq!(list.try_take(&(), false, 1), Some(1));
        list.wait(&(), false, 1000, "greedy");
        assert_eq!(next(&mut list), None);
        list.give_back(&(), 1);
        assert_eq!(next(&mut list), Some(("greedy", 100)));
        list.wait(&(), false, 1, "other");
        assert_eq!(next(&mut list), None);
        list.resource.set_limit(10);
        list.give_back(&(), 100);
        assert_eq!(next(&mut list), Some(("other", 1)));
    }

    #[test]
    fn answers_take_what_instances_leave_and_always_find_their_reserve() {
        let reservations = Reservations::new(Memory::new(80));
        let reserve = |bytes| reservations.try_acquire(&(), false, bytes);
        let charge = |bytes| reservations.update(|memory| memory.charge_answer(bytes));
        let release = |bytes| reservations.update(|memory| memory.release_answer(bytes));
        assert!(charge(30));
        let instance = reserve(50);
        assert!(instance.is_some() && !charge(1));
        assert_eq!(reservations.read(Memory::answers_beyond_reserve), 20);
        assert!(reserve(1).is_none());
        release(21);
        assert!(charge(1), "ten are reserved");
        let other = reserve(20);
        assert!(other.is_some() && !charge(1));
        release(10);
        let full = reserve(10);
        assert!(full.is_some() && charge(10));
        assert!(!charge(1), "beyond the reserve");
        release(10);
        drop((instance, other, full));
        assert_eq!(reservations.read(|memory| memory.reserved), 0);
    }

    #[tokio::test]
    async fn what_an_instance_uses_beyond_its_reservation_is_not_reserved_for_others() {
        let reservations = Reservations::new(Memory::new(100));
        let reserved = || reservations.read(|memory| memory.reserved);
        let mut first = reservations.try_acquire(&(), false, 10).unwrap();
        cover(&mut first, 5);
        assert_eq!(reserved(), 10);
        cover(&mut first, 95);
        assert!(reservations.try_acquire(&(), false, 10).is_none());
        let waits = reservations.acquire(&(), false, 10);
        tokio::pin!(waits);
        assert!(futures::poll!(&mut waits).is_pending());
        reservations.update(|memory| memory.set_limit(200));
        let second = waits.await;
        assert_eq!(reserved(), 105);
        let taken = first.take();
        assert_eq!(reserved(), 105);
        drop(taken);
        assert_eq!(reserved(), 10);
        drop((first, second));
        assert_eq!(reserved(), 0);
    }
}
