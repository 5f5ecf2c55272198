//! Which task runs next. Entry points: [`RunQueue::push`], [`RunQueue::pop`] and [`RunQueue::end`].
//!
//! Start-time fair queueing by tenant. Each tenant has a virtual time, which advances by the processor time that it used divided by
//! its weight. The tenant with the least virtual time is next. A tenant that returns from idleness begins at the virtual time of
//! the last slice: it has neither credit nor debt for the time when it wanted nothing. A tenant with a cap has a bucket of processor
//! time besides, and is next only while the bucket holds some.
//!
//! Inside a tenant, tasks run in the order in which they came, and tasks of guests that are being loaded come first.
//!
//! The queue does no I/O and reads no clock. Every operation is O(log n) in tenants and in tasks of one tenant.

mod bucket;
mod tenant;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use tenant::{Position, Tenant};
use windlass_fleet::TenantName;

/// Idle tenants are forgotten once there are more tenants than this.
const REMEMBERED: usize = 64;

/// Whose task is pushed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) tenant: &'a TenantName,
    /// The tenant's share beside other tenants'; at least 1.
    pub(super) weight: u32,
    /// Most thousandths of a processor that the tenant may use, even while processors are idle.
    pub(super) cap: Option<u32>,
    /// Before other tasks of its tenant.
    pub(super) first: bool,
}

/// The place of a task in its tenant's line; the least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    ordinary: bool,
    /// Grows with every push.
    number: u64,
}

/// A task that was popped and has not ended. Given back with [`RunQueue::end`].
#[derive(Debug)]
#[must_use]
pub(super) struct Slice {
    tenant: TenantName,
    stuck: bool,
}

/// Tasks that are ready to run. `T` is a task.
#[derive(Debug)]
pub(super) struct RunQueue<T> {
    /// What a slice is charged until its length is known.
    slice_length: Duration,
    /// Slices that have not ended.
    slices: usize,
    /// The virtual time at which the last slice began. Never goes back.
    virtual_clock: u128,
    /// The greatest virtual time of any tenant at the end of a slice.
    latest: u128,
    last_number: u64,
    tenants: HashMap<TenantName, Tenant<T>>,
    /// Number of tenants at which idle ones are forgotten.
    sweep_above: usize,
    /// Tenants whose tasks may run: by virtual time, then by the number of the first ticket.
    ready: BTreeSet<(u128, u64, TenantName)>,
    /// Tenants that wait for their cap, by the time when it lets them run.
    paused: BTreeSet<(Instant, TenantName)>,
}

impl<T> RunQueue<T> {
    pub(super) fn new(slice_length: Duration) -> Self {
        Self {
            slice_length,
            slices: 0,
            virtual_clock: 0,
            latest: 0,
            last_number: 0,
            tenants: HashMap::new(),
            sweep_above: REMEMBERED,
            ready: BTreeSet::new(),
            paused: BTreeSet::new(),
        }
    }

    /// Adds a task that is ready to run.
    pub(super) fn push(&mut self, owner: &Owner<'_>, task: T, now: Instant) -> Ticket {
        self.last_number += 1;
        let ticket = Ticket {
            ordinary: !owner.first,
            number: self.last_number,
        };
        let virtual_clock = self.virtual_clock;
        let tenant = self.tenant(owner, now);
        if tenant.is_idle() {
            tenant.virtual_time = tenant.virtual_time.max(virtual_clock);
        }
        tenant.line.insert(ticket, task);
        self.settle(owner.tenant, now);
        ticket
    }

    /// Takes the task that is next, if any may run now, and charges its tenant for a slice of full length.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(T, Slice)> {
        self.release_paused(now);
        let (_, _, name) = self.ready.first()?;
        let name = name.clone();
        let (virtual_clock, slice_length) = (self.virtual_clock, self.slice_length);
        let tenant = self.tenants.get_mut(&name)?;
        let (_, task) = tenant.line.pop_first()?;
        self.virtual_clock = virtual_clock.max(tenant.start(virtual_clock, slice_length));
        self.slices += 1;
        self.settle(&name, now);
        let slice = Slice {
            tenant: name,
            stuck: false,
        };
        Some((task, slice))
    }

    /// Ends a slice that used so much processor time.
    pub(super) fn end(&mut self, slice: Slice, used: Duration, now: Instant) {
        self.slices -= 1;
        if let Some(tenant) = self.tenants.get_mut(&slice.tenant) {
            tenant.stop(used, self.slice_length, now);
            tenant.stuck -= usize::from(slice.stuck);
            self.latest = self.latest.max(tenant.virtual_time);
        }
        self.settle(&slice.tenant, now);
        if self.slices == 0 && self.ready.is_empty() {
            // No tenant computes: the next one starts level with the others, whatever they used.
            self.virtual_clock = self.latest;
        }
    }

    /// Notes that a slice does not end. Its tenant runs nothing else until it does, so that no tenant takes the spare workers too.
    pub(super) fn hold(&mut self, slice: &mut Slice, now: Instant) {
        if std::mem::replace(&mut slice.stuck, true) {
            return;
        }
        if let Some(tenant) = self.tenants.get_mut(&slice.tenant) {
            tenant.stuck += 1;
        }
        self.settle(&slice.tenant, now);
    }

    /// Takes a task out that has not been popped.
    pub(super) fn remove(
        &mut self,
        tenant: &TenantName,
        ticket: Ticket,
        now: Instant,
    ) -> Option<T> {
        let task = self.tenants.get_mut(tenant)?.line.remove(&ticket);
        self.settle(tenant, now);
        task
    }

    /// Takes all tasks out.
    pub(super) fn drain(&mut self) -> Vec<T> {
        self.ready.clear();
        self.paused.clear();
        let tenants = std::mem::take(&mut self.tenants).into_values();
        tenants
            .flat_map(|tenant| tenant.line.into_values())
            .collect()
    }

    /// Whether a task may run now.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the first tenant that waits for its cap may run.
    pub(super) fn next_release(&self) -> Option<Instant> {
        self.paused.first().map(|(at, _)| *at)
    }

    /// Moves a tenant to its position after a change of it.
    fn settle(&mut self, name: &TenantName, now: Instant) {
        let virtual_clock = self.virtual_clock;
        let Some(tenant) = self.tenants.get_mut(name) else {
            return;
        };
        let after = tenant.new_position(virtual_clock, now);
        let before = std::mem::replace(&mut tenant.position, after);
        if before == after {
            return;
        }
        match before {
            Position::Absent => {}
            Position::Ready(time, first) => drop(self.ready.remove(&(time, first, name.clone()))),
            Position::Paused(until) => drop(self.paused.remove(&(until, name.clone()))),
        }
        match after {
            Position::Absent => {}
            Position::Ready(time, first) => drop(self.ready.insert((time, first, name.clone()))),
            Position::Paused(until) => drop(self.paused.insert((until, name.clone()))),
        }
    }

    /// Lets those tenants run again whose caps do.
    fn release_paused(&mut self, now: Instant) {
        while let Some((until, name)) = self.paused.first() {
            if *until > now {
                return;
            }
            let name = name.clone();
            self.settle(&name, now);
        }
    }

    fn tenant(&mut self, owner: &Owner<'_>, now: Instant) -> &mut Tenant<T> {
        if !self.tenants.contains_key(owner.tenant) {
            self.forget_idle(now);
        }
        let tenant = self.tenants.entry(owner.tenant.clone());
        let tenant = tenant.or_insert_with(|| Tenant::new(now, owner.cap));
        tenant.weight = owner.weight.max(1);
        tenant.set_cap(owner.cap, now);
        tenant
    }

    /// Forgets idle tenants that neither owe time nor have used up their cap. Looks again once there are twice as many tenants as
    /// were left.
    fn forget_idle(&mut self, now: Instant) {
        if self.tenants.len() < self.sweep_above {
            return;
        }
        let virtual_clock = self.virtual_clock;
        self.tenants
            .retain(|_, tenant| !tenant.is_idle() || tenant.is_in_debt(virtual_clock, now));
        self.sweep_above = (2 * self.tenants.len()).max(REMEMBERED);
    }
}

#[cfg(test)]
mod tests;
