//! Who has a component compiled next. Entry point: [`Workshop::bench`].
//!
//! There are two benches, and a tenant has one at a time, so that components of one tenant, however many and however slow, leave
//! the other to everybody else. The tenant comes next that has waited the longest since it last left a bench.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;
use windlass_fleet::TenantName;

/// Components that are compiled at once: each may take all the memory that a compiler is allowed.
const BENCHES: usize = 2;

/// The benches and who waits for one.
#[derive(Debug)]
pub(crate) struct Workshop {
    lines: Mutex<Lines<oneshot::Sender<Bench>>>,
}

/// Leave to compile one component, until it is dropped.
#[derive(Debug)]
pub(crate) struct Bench {
    workshop: Arc<Workshop>,
    tenant: TenantName,
}

impl Workshop {
    /// With nobody in it.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            lines: Mutex::new(Lines::default()),
        })
    }

    /// Waits for a bench.
    ///
    /// # Cancellation
    /// Dropping the future gives up its place in the line.
    pub(crate) async fn bench(self: &Arc<Self>, tenant: &TenantName) -> Bench {
        loop {
            let (sender, receiver) = oneshot::channel();
            let number = self.lines.lock().wait(tenant, sender);
            let _leaves = Leaves {
                workshop: self,
                tenant,
                number,
            };
            self.serve();
            if let Ok(bench) = receiver.await {
                return bench;
            }
        }
    }

    /// Hands out what is free.
    fn serve(self: &Arc<Self>) {
        let mut due = Vec::new();
        let mut lines = self.lines.lock();
        while let Some((tenant, sender)) = lines.next() {
            if sender.is_closed() {
                lines.leave_bench(&tenant);
            } else {
                due.push((tenant, sender));
            }
        }
        drop(lines);
        for (tenant, sender) in due {
            let workshop = self.clone();
            // Who has left in the meantime gives the bench back by not taking it.
            drop(sender.send(Bench { workshop, tenant }));
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.workshop.lines.lock().leave_bench(&self.tenant);
        self.workshop.serve();
    }
}

/// Somebody who waits. Dropped, it is in no line any more.
struct Leaves<'a> {
    workshop: &'a Workshop,
    tenant: &'a TenantName,
    number: u64,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let mut lines = self.workshop.lines.lock();
        lines.leave_line(self.tenant, self.number);
    }
}

/// Who is at a bench and who waits for one, without I/O. `W` is told when its turn has come.
#[derive(Debug)]
struct Lines<W> {
    busy: BTreeSet<TenantName>,
    /// Holds no empty line.
    waiting: BTreeMap<TenantName, Line<W>>,
    last: u64,
}

#[derive(Debug)]
struct Line<W> {
    /// When it began, or its tenant left a bench: the least comes first.
    since: u64,
    /// With a number that grows from one who waits to the next.
    who: VecDeque<(u64, W)>,
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
            who: VecDeque::new(),
        });
        line.who.push_back((self.last, waiter));
        self.last
    }

    fn leave_line(&mut self, tenant: &TenantName, number: u64) {
        let Some(line) = self.waiting.get_mut(tenant) else {
            return;
        };
        line.who.retain(|(there, _)| *there != number);
        if line.who.is_empty() {
            self.waiting.remove(tenant);
        }
    }

    fn leave_bench(&mut self, tenant: &TenantName) {
        self.busy.remove(tenant);
        self.last += 1;
        if let Some(line) = self.waiting.get_mut(tenant) {
            line.since = self.last;
        }
    }

    /// Who comes next, if there is a bench, which is taken for it.
    fn next(&mut self) -> Option<(TenantName, W)> {
        if self.busy.len() >= BENCHES {
            return None;
        }
        let free = self.waiting.iter_mut();
        let free = free.filter(|(tenant, _)| !self.busy.contains(*tenant));
        let (tenant, line) = free.min_by_key(|(_, line)| line.since)?;
        let tenant = tenant.clone();
        let (_, waiter) = line.who.pop_front()?;
        if line.who.is_empty() {
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
    fn a_tenant_has_one_bench_however_much_it_has_to_compile() {
        let mut lines = lines(&["a", "a", "a"]);
        assert_eq!(next(&mut lines), Some(0));
        assert_eq!(next(&mut lines), None);
        lines.wait(&tenant("b"), 3);
        assert_eq!(next(&mut lines), Some(3), "the other bench is for others");
        lines.leave_bench(&tenant("a"));
        assert_eq!((next(&mut lines), next(&mut lines)), (Some(1), None));
    }

    #[test]
    fn nobody_waits_for_more_than_one_component_of_another_tenant() {
        let mut lines = lines(&["a", "b", "a", "a", "b", "c", "d"]);
        let mut order = vec![next(&mut lines), next(&mut lines)];
        for done in ["a", "b", "c", "a", "d", "b"] {
            lines.leave_bench(&tenant(done));
            order.push(next(&mut lines));
        }
        let order: Vec<usize> = order.into_iter().flatten().collect();
        assert_eq!(order, [0, 1, 5, 6, 2, 4, 3]);
        assert!(lines.waiting.is_empty());
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_the_line_and_the_bench() {
        let workshop = Workshop::new();
        let a = tenant("a");
        let first = workshop.bench(&a).await;
        {
            let second = workshop.bench(&a);
            tokio::pin!(second);
            assert!(futures::poll!(&mut second).is_pending());
        }
        assert!(workshop.lines.lock().waiting.is_empty());
        let third = workshop.bench(&a);
        tokio::pin!(third);
        assert!(futures::poll!(&mut third).is_pending());
        drop(first);
        drop(third.await);
        assert!(workshop.lines.lock().busy.is_empty());
    }
}
