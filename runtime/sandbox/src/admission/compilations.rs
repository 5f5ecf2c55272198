//! Permits to compile components, shared among tenants. Entry point: [`CompileQueue::permit`].
//!
//! There are two permits, and a tenant has one at a time. So a tenant with many slow components leaves the other permit to everybody
//! else. The next permit goes to the tenant that has waited longest since it last gave one back.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;
use windlass_fleet::TenantName;

/// Components that are compiled at once. Each may take all the memory that a compiler is allowed.
const PERMITS: usize = 2;

/// The permits of one engine.
#[derive(Debug)]
pub(crate) struct CompileQueue {
    lines: Mutex<Lines<oneshot::Sender<Permit>>>,
}

/// The right to compile one component, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    queue: Arc<CompileQueue>,
    tenant: TenantName,
}

impl CompileQueue {
    /// No permit is given out yet.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            lines: Mutex::new(Lines::default()),
        })
    }

    /// Waits for a permit.
    ///
    /// # Cancellation
    /// Dropping the future leaves the line.
    pub(crate) async fn permit(self: &Arc<Self>, tenant: &TenantName) -> Permit {
        loop {
            let (sender, receiver) = oneshot::channel();
            let number = self.lines.lock().wait(tenant, sender);
            let _leaves = Leaves {
                queue: self,
                tenant,
                number,
            };
            self.serve();
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }

    /// Gives free permits to tenants that wait.
    fn serve(self: &Arc<Self>) {
        let mut due = Vec::new();
        let mut lines = self.lines.lock();
        while let Some((tenant, sender)) = lines.next() {
            if sender.is_closed() {
                lines.give_back(&tenant);
            } else {
                due.push((tenant, sender));
            }
        }
        drop(lines);
        for (tenant, sender) in due {
            let queue = self.clone();
            // If the call has left in the meantime, the permit comes back as it is dropped.
            drop(sender.send(Permit { queue, tenant }));
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.queue.lines.lock().give_back(&self.tenant);
        self.queue.serve();
    }
}

/// Takes a waiting component out of its line when it is dropped.
struct Leaves<'a> {
    queue: &'a CompileQueue,
    tenant: &'a TenantName,
    number: u64,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let mut lines = self.queue.lines.lock();
        lines.leave_line(self.tenant, self.number);
    }
}

/// Tenants with a permit, and waiting components, without I/O. `W` is a waiting component.
#[derive(Debug)]
struct Lines<W> {
    busy: BTreeSet<TenantName>,
    /// Holds no empty line.
    waiting: BTreeMap<TenantName, Line<W>>,
    last: u64,
}

#[derive(Debug)]
struct Line<W> {
    /// When the line began, or its tenant gave a permit back: the least comes first.
    since: u64,
    /// Numbers grow along the line.
    waiting: VecDeque<(u64, W)>,
}

impl<W> Default for Lines<W> {
    fn default() -> Self {
        Self {
            busy: BTreeSet::new(),
            waiting: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<W> Lines<W> {
    /// Returns the number to [leave](Self::leave_line) with.
    fn wait(&mut self, tenant: &TenantName, waiter: W) -> u64 {
        self.last += 1;
        let line = self.waiting.entry(tenant.clone());
        let line = line.or_insert_with(|| Line {
            since: self.last,
            waiting: VecDeque::new(),
        });
        line.waiting.push_back((self.last, waiter));
        self.last
    }

    fn leave_line(&mut self, tenant: &TenantName, number: u64) {
        let Some(line) = self.waiting.get_mut(tenant) else {
            return;
        };
        line.waiting.retain(|(there, _)| *there != number);
        if line.waiting.is_empty() {
            self.waiting.remove(tenant);
        }
    }

    fn give_back(&mut self, tenant: &TenantName) {
        self.busy.remove(tenant);
        self.last += 1;
        if let Some(line) = self.waiting.get_mut(tenant) {
            line.since = self.last;
        }
    }

    /// The component that is next, if a permit is free, which is taken for it.
    fn next(&mut self) -> Option<(TenantName, W)> {
        if self.busy.len() >= PERMITS {
            return None;
        }
        let free = self.waiting.iter_mut();
        let free = free.filter(|(tenant, _)| !self.busy.contains(*tenant));
        let (tenant, line) = free.min_by_key(|(_, line)| line.since)?;
        let tenant = tenant.clone();
        let (_, waiter) = line.waiting.pop_front()?;
        if line.waiting.is_empty() {
            self.waiting.remove(&tenant);
        }
        self.busy.insert(tenant.clone());
        Some((tenant, waiter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantName {
        TenantName::new(name).unwrap()
    }

    /// Lines in which these wait, each with a number of its own.
    fn lines(waiting: &[&str]) -> Lines<usize> {
        let mut lines = Lines::default();
        for (at, name) in waiting.iter().enumerate() {
            lines.wait(&tenant(name), at);
        }
        lines
    }

    fn next(lines: &mut Lines<usize>) -> Option<usize> {
        lines.next().map(|(_, waiter)| waiter)
    }

    #[test]
    fn a_tenant_has_one_permit_however_much_it_has_to_compile() {
        let mut lines = lines(&["a", "a", "a"]);
        assert_eq!(next(&mut lines), Some(0));
        assert_eq!(next(&mut lines), None);
        lines.wait(&tenant("b"), 3);
        assert_eq!(next(&mut lines), Some(3), "the other permit is for others");
        lines.give_back(&tenant("a"));
        assert_eq!((next(&mut lines), next(&mut lines)), (Some(1), None));
    }

    #[test]
    fn nobody_waits_for_more_than_one_component_of_another_tenant() {
        let mut lines = lines(&["a", "b", "a", "a", "b", "c", "d"]);
        let mut order = vec![next(&mut lines), next(&mut lines)];
        for done in ["a", "b", "c", "a", "d", "b"] {
            lines.give_back(&tenant(done));
            order.push(next(&mut lines));
        }
        let order: Vec<usize> = order.into_iter().flatten().collect();
        assert_eq!(order, [0, 1, 5, 6, 2, 4, 3]);
        assert!(lines.waiting.is_empty());
    }

    #[tokio::test]
    async fn what_stops_waiting_leaves_the_line_and_the_permit() {
        let queue = CompileQueue::new();
        let a = tenant("a");
        let first = queue.permit(&a).await;
        {
            let second = queue.permit(&a);
            tokio::pin!(second);
            assert!(futures::poll!(&mut second).is_pending());
        }
        assert!(queue.lines.lock().waiting.is_empty());
        let third = queue.permit(&a);
        tokio::pin!(third);
        assert!(futures::poll!(&mut third).is_pending());
        drop(first);
        drop(third.await);
        assert!(queue.lines.lock().busy.is_empty());
    }
}
