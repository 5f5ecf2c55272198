//! Memory that a tenant's account has for an instance before it is made: what does not fit waits. Entry point: [`Promises`].
//!
//! An instance is promised what those of its guest had lately. Who waits has no memory and no place in the pool, and so keeps
//! nobody from ending; who is alone is always let in, and what it takes beyond the limit is refused to it where it takes it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The part of a tenant's memory that answers always find, whatever its instances are promised: one in so many. Without it a tenant whose
/// instances have all of it could not read anything. It may exceed its limit by as much.
const RESERVE: usize = 8;

/// What a tenant's instances are promised.
#[derive(Debug)]
pub(crate) struct Promises {
    line: Mutex<Line<oneshot::Sender<Promise>>>,
}

/// Memory that one instance is promised, or has, where that is more. Dropped after the instance.
#[derive(Debug)]
pub(crate) struct Promise {
    promises: Arc<Promises>,
    bytes: usize,
}

impl Promises {
    /// Of a tenant without instances that may have so many bytes.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            line: Mutex::new(Line::new(limit)),
        })
    }

    /// Changes how much there may be. What is promised beyond a smaller limit is kept until it ends by itself.
    pub(crate) fn set_limit(self: &Arc<Self>, limit: usize) {
        self.line.lock().limit = limit;
        self.serve();
    }

    /// So many bytes, if they are there and nobody waits. `loading`: for a guest that is loaded, which comes before calls.
    pub(crate) fn try_promise(self: &Arc<Self>, bytes: usize, loading: bool) -> Option<Promise> {
        let taken = self.line.lock().take(bytes, loading)?;
        Some(self.promise(taken))
    }

    /// Waits for so many bytes.
    ///
    /// # Cancellation
    /// Dropping the future gives up its place in the line.
    pub(crate) async fn wait(self: &Arc<Self>, bytes: usize, loading: bool) -> Promise {
        loop {
            let (sender, receiver) = oneshot::channel();
            let ticket = {
                let mut line = self.line.lock();
                if let Some(taken) = line.take(bytes, loading) {
                    drop(line);
                    return self.promise(taken);
                }
                line.wait(bytes, loading, sender)
            };
            let _leaves = Leaves {
                promises: self,
                ticket,
            };
            if let Ok(promise) = receiver.await {
                return promise;
            }
        }
    }

    /// Charges an answer, before those who wait for instances. `false`: there is no room.
    pub(crate) fn charge_answer(&self, bytes: usize) -> bool {
        self.line.lock().charge_answer(bytes)
    }

    /// Gives back what answers were charged.
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

    /// Bytes of answers.
    pub(crate) fn answers(&self) -> usize {
        self.line.lock().answers
    }

    /// Of these, those that instances cannot have.
    pub(crate) fn answers_beyond_reserve(&self) -> usize {
        let line = self.line.lock();
        line.answers.saturating_sub(line.limit / RESERVE)
    }

    /// Whether somebody waits: then nothing is kept for later.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.line.lock().waiting.is_empty()
    }

    fn promise(self: &Arc<Self>, bytes: usize) -> Promise {
        Promise {
            promises: self.clone(),
            bytes,
        }
    }

    /// Tells those who wait what there is for them now.
    fn serve(self: &Arc<Self>) {
        let mut line = self.line.lock();
        let mut due = Vec::new();
        while let Some((sender, bytes)) = line.next() {
            if sender.is_closed() {
                // Who has just left: not told, as its promise would come back here, for each of those before it.
                line.give_back(bytes);
            } else {
                due.push((sender, bytes));
            }
        }
        drop(line);
        for (sender, bytes) in due {
            // Who has left in the meantime gives it back by not taking it.
            drop(sender.send(self.promise(bytes)));
        }
    }
}

impl Promise {
    /// The instance has so much now.
    pub(crate) fn cover(&mut self, bytes: usize) {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            self.bytes = bytes;
            self.promises.line.lock().promised += more;
        }
    }

    /// All of it, out of this one.
    pub(crate) fn take(&mut self) -> Self {
        let bytes = std::mem::take(&mut self.bytes);
        self.promises.promise(bytes)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.promises.line.lock().give_back(self.bytes);
            self.promises.serve();
        }
    }
}

/// Somebody who waits. Dropped, it is in no line any more, and those behind it may fit.
struct Leaves<'a> {
    promises: &'a Arc<Promises>,
    ticket: Ticket,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let left = self.promises.line.lock().waiting.remove(&self.ticket);
        if left.is_some() {
            self.promises.serve();
        }
    }
}

/// A place in the line; the least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    /// Not for a guest that is loaded.
    call: bool,
    /// Grows from one who comes to the next.
    number: u64,
}

/// What is promised and who waits, without I/O. `W` is told when its turn has come.
#[derive(Debug)]
struct Line<W> {
    /// In bytes. It may have been lowered below what is promised.
    limit: usize,
    /// Sum over all live instances, in bytes, and what answers are charged.
    promised: usize,
    /// Of that, answers.
    answers: usize,
    waiting: BTreeMap<Ticket, (usize, W)>,
    last: u64,
}

impl<W> Line<W> {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            promised: 0,
            answers: 0,
            waiting: BTreeMap::new(),
            last: 0,
        }
    }

    /// Who wants more than there ever is waits until there is nobody else.
    fn fits(&self, bytes: usize) -> Option<usize> {
        let bytes = bytes.min(self.limit);
        let sum = self.promised.checked_add(bytes)?;
        (sum <= self.limit || self.promised == 0).then_some(bytes)
    }

    /// Takes what is there and nobody else waits for.
    fn take(&mut self, bytes: usize, loading: bool) -> Option<usize> {
        let first = self.waiting.keys().next();
        if first.is_some_and(|first| !(loading && first.call)) {
            return None;
        }
        let bytes = self.fits(bytes)?;
        self.promised += bytes;
        Some(bytes)
    }

    fn charge_answer(&mut self, bytes: usize) -> bool {
        let Some(promised) = self.promised.checked_add(bytes) else {
            return false;
        };
        let answers = self.answers.saturating_add(bytes);
        if promised > self.limit && answers > self.limit / RESERVE {
            return false;
        }
        (self.promised, self.answers) = (promised, answers);
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
        self.promised -= bytes;
    }

    /// Who comes next, if what it waits for is there, which is taken for it.
    fn next(&mut self) -> Option<(W, usize)> {
        let (_, (bytes, _)) = self.waiting.first_key_value()?;
        let bytes = self.fits(*bytes)?;
        let (_, (_, waiter)) = self.waiting.pop_first()?;
        self.promised += bytes;
        Some((waiter, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn promised(promises: &Promises) -> usize {
        promises.line.lock().promised
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
        assert_eq!((line.next(), line.promised), (None, 50));
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
        let promises = Promises::new(80);
        assert!(promises.charge_answer(30));
        let instance = promises.try_promise(50, false);
        assert!(instance.is_some() && !promises.charge_answer(1));
        assert_eq!(promises.answers_beyond_reserve(), 20);
        assert!(promises.try_promise(1, false).is_none());
        promises.release_answer(21);
        assert!(promises.charge_answer(1), "ten are reserved");
        let other = promises.try_promise(20, false);
        assert!(other.is_some() && !promises.charge_answer(1));
        promises.release_answer(10);
        let full = promises.try_promise(10, false);
        assert!(full.is_some() && promises.charge_answer(10));
        assert!(!promises.charge_answer(1), "beyond the reserve");
        promises.release_answer(10);
        drop((instance, other, full));
        assert_eq!(promised(&promises), 0);
    }

    #[tokio::test]
    async fn what_an_instance_takes_beyond_its_promise_is_not_promised_to_others() {
        let promises = Promises::new(100);
        let mut first = promises.try_promise(10, false).unwrap();
        first.cover(5);
        assert_eq!(promised(&promises), 10);
        first.cover(95);
        assert!(promises.try_promise(10, false).is_none());
        let waits = promises.wait(10, false);
        tokio::pin!(waits);
        assert!(futures::poll!(&mut waits).is_pending());
        promises.set_limit(200);
        let second = waits.await;
        assert_eq!(promised(&promises), 105);
        let taken = first.take();
        assert_eq!(promised(&promises), 105);
        drop(taken);
        assert_eq!(promised(&promises), 10);
        drop((first, second));
        assert_eq!(promised(&promises), 0);
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_the_line_to_those_behind() {
        let promises = Promises::new(100);
        let held = promises.try_promise(60, false);
        let small = promises.wait(30, false);
        tokio::pin!(small);
        {
            let large = promises.wait(50, false);
            let gone = tokio::time::timeout(Duration::from_millis(1), async {
                tokio::pin!(large);
                assert!(futures::poll!(&mut large).is_pending());
                assert!(futures::poll!(&mut small).is_pending());
                large.await
            });
            assert!(gone.await.is_err());
        }
        let small = small.await;
        assert!(!promises.is_wanted());
        drop((held, small));
        assert_eq!(promised(&promises), 0);
    }

    #[tokio::test]
    async fn many_who_leave_as_memory_comes_cost_nobody_anything() {
        let promises = Promises::new(1);
        let held = promises.try_promise(1, false);
        for _ in 0..100_000 {
            let (sender, receiver) = oneshot::channel();
            promises.line.lock().wait(1, false, sender);
            drop(receiver);
        }
        drop(held);
        assert!(!promises.is_wanted());
        assert!(promises.try_promise(1, false).is_some());
    }
}
