//! Memory of a tenant that is reserved for an instance before it is made. Entry point: [`Reservations`].
//!
//! A call reserves what earlier instances of its guest used. A call beyond the tenant's limit waits, and holds neither memory nor a
//! slot meanwhile, so it keeps no other call from ending. A tenant without instances can always reserve, however much it asks for:
//! memory beyond the limit is refused when the instance allocates it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// One part in so many of a tenant's limit is kept for answers of API servers, beyond what instances reserve. Without it, a tenant
/// whose instances have all of its memory could not read anything. The tenant may exceed its limit by as much.
const RESERVE: usize = 8;

/// The reservations of one tenant.
#[derive(Debug)]
pub(crate) struct Reservations {
    line: Mutex<Line<oneshot::Sender<Reservation>>>,
}

/// Memory reserved for one instance, or used by it if that is more. Drop it after the instance.
#[derive(Debug)]
pub(crate) struct Reservation {
    reservations: Arc<Reservations>,
    bytes: usize,
}

impl Reservations {
    /// No reservations yet. `limit` is in bytes.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            line: Mutex::new(Line::new(limit)),
        })
    }

    /// Changes the limit. Reservations beyond a smaller limit stay until their instances end.
    pub(crate) fn set_limit(self: &Arc<Self>, limit: usize) {
        self.line.lock().limit = limit;
        self.serve();
    }

    /// Reserves so many bytes if they are free and no call waits. `loading`: a guest that is being loaded comes before calls.
    pub(crate) fn try_reserve(
        self: &Arc<Self>,
        bytes: usize,
        loading: bool,
    ) -> Option<Reservation> {
        let taken = self.line.lock().take(bytes, loading)?;
        Some(self.reserve(taken))
    }

    /// Waits until so many bytes can be reserved.
    ///
    /// # Cancellation
    /// Dropping the future leaves the line.
    pub(crate) async fn wait(self: &Arc<Self>, bytes: usize, loading: bool) -> Reservation {
        loop {
            let (sender, receiver) = oneshot::channel();
            let ticket = {
                let mut line = self.line.lock();
                if let Some(taken) = line.take(bytes, loading) {
                    drop(line);
                    return self.reserve(taken);
                }
                line.wait(bytes, loading, sender)
            };
            let _leaves = Leaves {
                reservations: self,
                ticket,
            };
            if let Ok(reservation) = receiver.await {
                return reservation;
            }
        }
    }

    /// Charges an answer, before calls that wait. `false`: there is no room.
    pub(crate) fn charge_answer(&self, bytes: usize) -> bool {
        self.line.lock().charge_answer(bytes)
    }

    /// Takes back the charge of answers.
    pub(crate) fn release_answer(self: &Arc<Self>, bytes: usize) {
        if bytes > 0 {
            let mut line = self.line.lock();
            line.answers -= bytes;
            line.give_back(bytes);
            let waits = !line.waiting.is_empty();
            drop(line);
            if waits {
                self.serve();
            }
        }
    }

    /// Bytes charged for answers.
    pub(crate) fn answers(&self) -> usize {
        self.line.lock().answers
    }

    /// Of these, the bytes that instances cannot reserve.
    pub(crate) fn answers_beyond_reserve(&self) -> usize {
        let line = self.line.lock();
        line.answers.saturating_sub(line.limit / RESERVE)
    }

    /// Whether a call waits: then idle instances are evicted.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.line.lock().waiting.is_empty()
    }

    fn reserve(self: &Arc<Self>, bytes: usize) -> Reservation {
        Reservation {
            reservations: self.clone(),
            bytes,
        }
    }

    /// Tells those who wait what there is for them now.
    fn serve(self: &Arc<Self>) {
        let mut line = self.line.lock();
        let mut due = Vec::new();
        while let Some((sender, bytes)) = line.next() {
            if sender.is_closed() {
                // The call has just left. A reservation sent to it would be dropped, and end up here again, once for each such call.
                line.give_back(bytes);
            } else {
                due.push((sender, bytes));
            }
        }
        drop(line);
        for (sender, bytes) in due {
            // Who has left in the meantime gives it back by not taking it.
            drop(sender.send(self.reserve(bytes)));
        }
    }
}

impl Reservation {
    /// The instance has so much now.
    pub(crate) fn cover(&mut self, bytes: usize) {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            self.bytes = bytes;
            self.reservations.line.lock().reserved += more;
        }
    }

    /// All of it, out of this one.
    pub(crate) fn take(&mut self) -> Self {
        let bytes = std::mem::take(&mut self.bytes);
        self.reservations.reserve(bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.reservations.line.lock().give_back(self.bytes);
            self.reservations.serve();
        }
    }
}

/// Somebody who waits. Dropped, it is in no line any more, and those behind it may fit.
struct Leaves<'a> {
    reservations: &'a Arc<Reservations>,
    ticket: Ticket,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let left = self.reservations.line.lock().waiting.remove(&self.ticket);
        if left.is_some() {
            self.reservations.serve();
        }
    }
}

/// A place in the line; the least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    /// Not for a guest that is loaded.
    call: bool,
    /// Grows with every call that begins to wait.
    number: u64,
}

/// Reservations and waiting calls, without I/O. `W` is a waiting call.
#[derive(Debug)]
struct Line<W> {
    /// In bytes. It may have been lowered below what is reserved.
    limit: usize,
    /// Sum over all live instances, in bytes, and what answers are charged.
    reserved: usize,
    /// Of that, answers.
    answers: usize,
    waiting: BTreeMap<Ticket, (usize, W)>,
    last: u64,
}

impl<W> Line<W> {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            reserved: 0,
            answers: 0,
            waiting: BTreeMap::new(),
            last: 0,
        }
    }

    /// Who wants more than there ever is waits until there is nobody else.
    fn fits(&self, bytes: usize) -> Option<usize> {
        let bytes = bytes.min(self.limit);
        let sum = self.reserved.checked_add(bytes)?;
        (sum <= self.limit || self.reserved == 0).then_some(bytes)
    }

    /// Takes what is there and nobody else waits for.
    fn take(&mut self, bytes: usize, loading: bool) -> Option<usize> {
        let first = self.waiting.keys().next();
        if first.is_some_and(|first| !(loading && first.call)) {
            return None;
        }
        let bytes = self.fits(bytes)?;
        self.reserved += bytes;
        Some(bytes)
    }

    fn charge_answer(&mut self, bytes: usize) -> bool {
        let Some(reserved) = self.reserved.checked_add(bytes) else {
            return false;
        };
        let answers = self.answers.saturating_add(bytes);
        if reserved > self.limit && answers > self.limit / RESERVE {
            return false;
        }
        (self.reserved, self.answers) = (reserved, answers);
        true
    }

    fn wait(&mut self, bytes: usize, loading: bool, waiter: W) -> Ticket {
        self.last += 1;
        let ticket = Ticket {
            call: !loading,
            number: self.last,
        };
        self.waiting.insert(ticket, (bytes, waiter));
        ticket
    }

    fn give_back(&mut self, bytes: usize) {
        self.reserved -= bytes;
    }

    /// Who comes next, if what it waits for is there, which is taken for it.
    fn next(&mut self) -> Option<(W, usize)> {
        let (_, (bytes, _)) = self.waiting.first_key_value()?;
        let bytes = self.fits(*bytes)?;
        let (_, (_, waiter)) = self.waiting.pop_first()?;
        self.reserved += bytes;
        Some((waiter, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn reserved(reservations: &Reservations) -> usize {
        reservations.line.lock().reserved
    }

    #[test]
    fn who_comes_later_never_passes_one_who_waits_for_more() {
        let mut line = Line::new(100);
        assert_eq!(line.take(70, false), Some(70));
        assert_eq!(line.take(40, false), None);
        line.wait(40, false, "large");
        assert_eq!(line.take(10, false), None, "it fits, and is behind");
        line.wait(10, false, "small");
        assert_eq!(line.take(10, true), Some(10), "a guest that is loaded");
        assert_eq!(line.next(), None);
        line.give_back(10);
        line.give_back(70);
        assert_eq!(line.next(), Some(("large", 40)));
        assert_eq!(line.next(), Some(("small", 10)));
        assert_eq!((line.next(), line.reserved), (None, 50));
    }

    #[test]
    fn who_wants_more_than_there_ever_is_has_it_alone() {
        let mut line = Line::new(100);
        assert_eq!(line.take(1, false), Some(1));
        line.wait(1000, false, "greedy");
        assert_eq!(line.next(), None);
        line.give_back(1);
        assert_eq!(line.next(), Some(("greedy", 100)));
        line.wait(1, false, "other");
        assert_eq!(line.next(), None);
        line.limit = 10;
        line.give_back(100);
        assert_eq!(line.next(), Some(("other", 1)));
    }

    #[test]
    fn answers_take_what_instances_leave_and_always_find_their_reserve() {
        let reservations = Reservations::new(80);
        assert!(reservations.charge_answer(30));
        let instance = reservations.try_reserve(50, false);
        assert!(instance.is_some() && !reservations.charge_answer(1));
        assert_eq!(reservations.answers_beyond_reserve(), 20);
        assert!(reservations.try_reserve(1, false).is_none());
        reservations.release_answer(21);
        assert!(reservations.charge_answer(1), "ten are reserved");
        let other = reservations.try_reserve(20, false);
        assert!(other.is_some() && !reservations.charge_answer(1));
        reservations.release_answer(10);
        let full = reservations.try_reserve(10, false);
        assert!(full.is_some() && reservations.charge_answer(10));
        assert!(!reservations.charge_answer(1), "beyond the reserve");
        reservations.release_answer(10);
        drop((instance, other, full));
        assert_eq!(reserved(&reservations), 0);
    }

    #[tokio::test]
    async fn what_an_instance_uses_beyond_its_reservation_is_not_reserved_for_others() {
        let reservations = Reservations::new(100);
        let mut first = reservations.try_reserve(10, false).unwrap();
        first.cover(5);
        assert_eq!(reserved(&reservations), 10);
        first.cover(95);
        assert!(reservations.try_reserve(10, false).is_none());
        let waits = reservations.wait(10, false);
        tokio::pin!(waits);
        assert!(futures::poll!(&mut waits).is_pending());
        reservations.set_limit(200);
        let second = waits.await;
        assert_eq!(reserved(&reservations), 105);
        let taken = first.take();
        assert_eq!(reserved(&reservations), 105);
        drop(taken);
        assert_eq!(reserved(&reservations), 10);
        drop((first, second));
        assert_eq!(reserved(&reservations), 0);
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_the_line_to_those_behind() {
        let reservations = Reservations::new(100);
        let held = reservations.try_reserve(60, false);
        let small = reservations.wait(30, false);
        tokio::pin!(small);
        {
            let large = reservations.wait(50, false);
            let gone = tokio::time::timeout(Duration::from_millis(1), async {
                tokio::pin!(large);
                assert!(futures::poll!(&mut large).is_pending());
                assert!(futures::poll!(&mut small).is_pending());
                large.await
            });
            assert!(gone.await.is_err());
        }
        let small = small.await;
        assert!(!reservations.is_wanted());
        drop((held, small));
        assert_eq!(reserved(&reservations), 0);
    }

    #[tokio::test]
    async fn many_who_leave_as_memory_comes_cost_nobody_anything() {
        let reservations = Reservations::new(1);
        let held = reservations.try_reserve(1, false);
        for _ in 0..100_000 {
            let (sender, receiver) = oneshot::channel();
            reservations.line.lock().wait(1, false, sender);
            drop(receiver);
        }
        drop(held);
        assert!(!reservations.is_wanted());
        assert!(reservations.try_reserve(1, false).is_some());
    }
}
