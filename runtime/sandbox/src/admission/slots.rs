//! Slots for instances, shared among tenants. Entry point: [`Pool`].
//!
//! A call beyond the slots waits. The next free slot goes to the waiting tenant with the fewest slots. A call that runs cannot be taken
//! back, so no tenant may have all slots, and a few are reserved for guests that are being loaded.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;
use windlass_fleet::TenantName;

/// The slots of one engine.
#[derive(Debug)]
pub(crate) struct Pool {
    lines: Mutex<Lines<oneshot::Sender<Slot>>>,
}

/// Room for one instance. Drop it after the instance.
#[derive(Debug)]
pub(crate) struct Slot {
    pool: Arc<Pool>,
    tenant: TenantName,
}

impl Pool {
    pub(crate) fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            lines: Mutex::new(Lines::new(size)),
        })
    }

    /// A slot, if one is free for this tenant now. `loading`: a reserved slot may be used.
    pub(crate) fn try_slot(self: &Arc<Self>, tenant: &TenantName, loading: bool) -> Option<Slot> {
        let taken = self.lines.lock().take(tenant, loading);
        taken.then(|| self.slot(tenant.clone()))
    }

    /// Waits for a slot.
    ///
    /// # Cancellation
    /// Dropping the future leaves the line.
    pub(crate) async fn wait(self: &Arc<Self>, tenant: &TenantName, loading: bool) -> Slot {
        loop {
            let (sender, receiver) = oneshot::channel();
            let number = {
                let mut lines = self.lines.lock();
                if lines.take(tenant, loading) {
                    drop(lines);
                    return self.slot(tenant.clone());
                }
                lines.wait(tenant, loading, sender)
            };
            let _leaves = Leaves {
                pool: self,
                tenant,
                number,
            };
            if let Ok(slot) = receiver.await {
                return slot;
            }
        }
    }

    /// Whether a tenant has as many slots as one tenant may have.
    pub(crate) fn is_at_ceiling(&self, tenant: &TenantName) -> bool {
        self.lines.lock().is_at_ceiling(tenant)
    }

    /// Whether a call waits: then idle instances are evicted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.lines.lock().is_wanted()
    }

    fn slot(self: &Arc<Self>, tenant: TenantName) -> Slot {
        Slot {
            pool: self.clone(),
            tenant,
        }
    }
}

/// Takes a waiting call out of its line when it is dropped.
struct Leaves<'a> {
    pool: &'a Pool,
    tenant: &'a TenantName,
    number: u64,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.pool.lines.lock().leave(self.tenant, self.number);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut lines = self.pool.lines.lock();
        lines.give_back(&self.tenant);
        let mut due = Vec::new();
        while let Some((sender, tenant)) = lines.next() {
            if sender.is_closed() {
                // The call has just left. A slot sent to it would be dropped, and end up here again, once for each such call.
                lines.give_back(&tenant);
            } else {
                due.push((sender, tenant));
            }
        }
        drop(lines);
        for (sender, tenant) in due {
            // If the call has left in the meantime, the slot comes back as it is dropped.
            drop(sender.send(self.pool.slot(tenant)));
        }
    }
}

/// Slots and waiting calls, without I/O. `W` is a waiting call.
#[derive(Debug)]
struct Lines<W> {
    size: usize,
    free: usize,
    /// Slots that only guests that are being loaded may use.
    reserve: usize,
    /// Most slots of one tenant.
    ceiling: usize,
    /// Guests that are being loaded; they come before all calls.
    loading: VecDeque<(u64, TenantName, W)>,
    /// Only tenants that have a slot or wait for one.
    tenants: BTreeMap<TenantName, Line<W>>,
    last: u64,
}

#[derive(Debug)]
struct Line<W> {
    held: usize,
    /// Numbers grow along the line.
    waiting: VecDeque<(u64, W)>,
}

impl<W> Lines<W> {
    fn new(size: usize) -> Self {
        let reserve = if size < 4 { 0 } else { (size / 16).max(1) };
        Self {
            size,
            free: size,
            reserve,
            ceiling: (size * 3 / 4).max(1),
            loading: VecDeque::new(),
            tenants: BTreeMap::new(),
            last: 0,
        }
    }

    fn held(&self, tenant: &TenantName) -> usize {
        self.tenants.get(tenant).map_or(0, |line| line.held)
    }

    fn is_at_ceiling(&self, tenant: &TenantName) -> bool {
        self.held(tenant) >= self.ceiling
    }

    fn is_wanted(&self) -> bool {
        !self.loading.is_empty() || self.tenants.values().any(|line| !line.waiting.is_empty())
    }

    /// Takes a free slot that nobody else waits for.
    fn take(&mut self, tenant: &TenantName, loading: bool) -> bool {
        let there = if loading {
            self.free > 0 && self.loading.is_empty()
        } else {
            let line = self.tenants.get(tenant);
            self.free > self.reserve
                && !self.is_at_ceiling(tenant)
                && line.is_none_or(|line| line.waiting.is_empty())
        };
        if there {
            self.free -= 1;
            self.line(tenant).held += 1;
        }
        there
    }

    /// Returns the number to [leave](Self::leave) with.
    fn wait(&mut self, tenant: &TenantName, loading: bool, waiter: W) -> u64 {
        self.last += 1;
        let number = self.last;
        if loading {
            self.loading.push_back((number, tenant.clone(), waiter));
        } else {
            self.line(tenant).waiting.push_back((number, waiter));
        }
        number
    }

    /// Takes a waiting call out of its line.
    fn leave(&mut self, tenant: &TenantName, number: u64) {
        self.loading.retain(|(of, ..)| *of != number);
        let Some(line) = self.tenants.get_mut(tenant) else {
            return;
        };
        // Numbers grow along the line.
        if let Ok(at) = line.waiting.binary_search_by_key(&number, |(of, _)| *of) {
            line.waiting.remove(at);
        }
        if line.held == 0 && line.waiting.is_empty() {
            self.tenants.remove(tenant);
        }
    }

    fn give_back(&mut self, tenant: &TenantName) {
        self.free = (self.free + 1).min(self.size);
        if let Some(line) = self.tenants.get_mut(tenant) {
            line.held -= 1;
            if line.held == 0 && line.waiting.is_empty() {
                self.tenants.remove(tenant);
            }
        }
    }

    /// The waiting call that gets the next free slot, which is taken for it.
    fn next(&mut self) -> Option<(W, TenantName)> {
        if self.free == 0 {
            return None;
        }
        if let Some((_, tenant, waiter)) = self.loading.pop_front() {
            self.free -= 1;
            self.line(&tenant).held += 1;
            return Some((waiter, tenant));
        }
        if self.free <= self.reserve {
            return None;
        }
        let ceiling = self.ceiling;
        let waiting = self.tenants.iter_mut().filter_map(|(name, line)| {
            let first = line.waiting.front()?.0;
            (line.held < ceiling).then_some(((line.held, first), name, line))
        });
        let (_, name, line) = waiting.min_by_key(|(order, ..)| *order)?;
        let (_, waiter) = line.waiting.pop_front()?;
        line.held += 1;
        self.free -= 1;
        Some((waiter, name.clone()))
    }

    fn line(&mut self, tenant: &TenantName) -> &mut Line<W> {
        self.tenants.entry(tenant.clone()).or_insert_with(|| Line {
            held: 0,
            waiting: VecDeque::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn name(of: &str) -> TenantName {
        TenantName::new(of).unwrap()
    }

    #[test]
    fn one_tenant_never_has_all_and_who_has_fewest_comes_next() {
        let mut lines = Lines::new(16);
        let (a, b, c) = (name("a"), name("b"), name("c"));
        let taken = (0..100).filter(|_| lines.take(&a, false)).count();
        assert_eq!(taken, 12, "three quarters");
        assert_eq!((0..100).filter(|_| lines.take(&b, false)).count(), 3);
        assert_eq!(lines.free, 1, "kept for guests that are loaded");
        for (tenant, waiter) in [(&a, "a"), (&b, "b1"), (&b, "b2"), (&c, "c")] {
            lines.wait(tenant, false, waiter);
        }
        let mut order = Vec::new();
        for _ in 0..4 {
            lines.give_back(&a);
            order.extend(lines.next().map(|(waiter, _)| waiter));
        }
        assert_eq!(order, ["c", "b1", "b2", "a"]);
        assert!(lines.next().is_none() && !lines.is_wanted());
    }

    #[test]
    fn a_guest_that_is_loaded_finds_a_place_beside_busy_ones() {
        let mut lines = Lines::new(16);
        let (a, b) = (name("a"), name("b"));
        for tenant in [&a, &b] {
            while lines.take(tenant, false) {}
        }
        assert!(lines.take(&a, true), "the place that is kept");
        assert!(!lines.take(&a, true));
        lines.wait(&b, false, "call");
        lines.wait(&a, true, "load");
        lines.give_back(&b);
        assert_eq!(lines.next().map(|(waiter, _)| waiter), Some("load"));
    }

    #[test]
    fn the_smallest_pool_serves_everybody() {
        let mut lines = Lines::<()>::new(1);
        assert!(lines.take(&name("a"), false));
        lines.give_back(&name("a"));
        assert!(lines.take(&name("b"), true));
        assert!(!lines.tenants.contains_key(&name("a")));
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_the_place_to_the_next() {
        let pool = Pool::new(1);
        let held = pool.try_slot(&name("a"), false).unwrap();
        let (first, second) = (name("b"), name("c"));
        let gone = tokio::time::timeout(Duration::from_millis(1), pool.wait(&first, false));
        assert!(gone.await.is_err());
        assert!(!pool.is_wanted(), "it is in no line any more");
        let next = pool.wait(&second, false);
        tokio::pin!(next);
        assert!(futures::poll!(&mut next).is_pending() && pool.is_wanted());
        drop(held);
        let slot = next.await;
        assert_eq!(slot.tenant, second);
        drop(slot);
        assert_eq!(pool.lines.lock().free, 1);
        assert!(pool.lines.lock().tenants.is_empty());
    }

    #[tokio::test]
    async fn many_who_leave_as_a_place_comes_cost_nobody_anything() {
        let pool = Pool::new(1);
        let held = pool.try_slot(&name("a"), false).unwrap();
        let tenant = name("b");
        // Who is about to leave: the place comes before their futures are dropped.
        for _ in 0..100_000 {
            let (sender, receiver) = oneshot::channel();
            pool.lines.lock().wait(&tenant, false, sender);
            drop(receiver);
        }
        drop(held);
        assert!(!pool.is_wanted());
        assert!(pool.try_slot(&tenant, false).is_some());
    }
}
