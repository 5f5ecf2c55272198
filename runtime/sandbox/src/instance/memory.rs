//! Limits on the memory and the tables of an instance, and on the memory of all instances of a tenant. Entry point: [`Meter`].

use crate::admission::memory::{Reservation, cover};
use crate::tenant::context::GuestContext;
use crate::tenant::usage::Limit;
use std::sync::Arc;
use wasmtime::ResourceLimiter;

/// Which limit refused an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The instance's own memory limit, in bytes.
    Instance(usize),
    /// The tenant's memory limit.
    Tenant,
    /// The instance's table elements.
    Table(usize),
}

impl Refusal {
    fn limit(self) -> Limit {
        match self {
            Self::Instance(_) => Limit::Memory,
            Self::Tenant => Limit::TenantMemory,
            Self::Table(_) => Limit::Tables,
        }
    }

    /// For a failure's message.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Instance(limit) => format!("its memory limit of {}: raise limits.memory, or hold less", Size(limit)),
            Self::Tenant => "the memory that its tenant's guests share: raise the tenant's limits.memory, or run fewer at once".to_owned(),
            Self::Table(limit) => format!("its limit of {limit} table elements"),
        }
    }
}

/// The memory of one instance, charged to its tenant until this is dropped: after the instance, which holds its memory until then. The
/// charge of an evicted instance ends earlier, because another call waits for it.
#[derive(Debug)]
pub(crate) struct MemoryCharge {
    guest: Arc<GuestContext>,
    reservation: Reservation,
    /// Bytes of all memories; charged to the tenant.
    memory: usize,
}

/// Counts what one instance allocates.
#[derive(Debug)]
pub(crate) struct Meter {
    charge: MemoryCharge,
    /// Bytes of the last growth, which the engine may still fail to allocate.
    granted: usize,
    /// Elements of all tables.
    elements: usize,
    /// The last allocation that was refused in this call. The guest may go on. If it traps, this is the reason.
    refusal: Option<Refusal>,
}

impl Meter {
    /// For an instance with this reservation.
    pub(crate) fn new(guest: Arc<GuestContext>, reservation: Reservation) -> Self {
        let charge = MemoryCharge {
            guest,
            reservation,
            memory: 0,
        };
        Self {
            charge,
            granted: 0,
            elements: 0,
            refusal: None,
        }
    }

    /// Bytes held now. Memories never shrink, so this is also the peak.
    pub(crate) fn memory(&self) -> usize {
        self.charge.memory
    }

    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Another call begins in the same instance. Earlier refusals are not its own.
    pub(crate) fn begin(&mut self) {
        self.refusal = None;
    }

    /// Moves the charge out, to be dropped after the instance. The meter counts nothing after this.
    pub(crate) fn take_charge(&mut self) -> MemoryCharge {
        self.charge.take()
    }

    fn grow_memory(&mut self, more: usize) -> Result<(), Refusal> {
        if self.charge.memory.saturating_add(more) > self.charge.guest.limits.memory {
            return Err(Refusal::Instance(self.charge.guest.limits.memory));
        }
        if !self.charge.guest.tenant.charge(more) {
            return Err(Refusal::Tenant);
        }
        self.charge.memory += more;
        cover(&mut self.charge.reservation, self.charge.memory);
        Ok(())
    }

    fn grow_table(&mut self, more: usize) -> Result<(), Refusal> {
        if self.elements.saturating_add(more) > self.charge.guest.limits.table_elements {
            return Err(Refusal::Table(self.charge.guest.limits.table_elements));
        }
        self.elements += more;
        Ok(())
    }

    fn allows(&mut self, outcome: Result<(), Refusal>) -> bool {
        let Err(refusal) = outcome else { return true };
        if self.refusal.is_none() {
            self.charge.guest.hit(refusal.limit());
        }
        self.refusal = Some(refusal);
        false
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let outcome = self.grow_memory(more);
        self.granted = if outcome.is_ok() { more } else { 0 };
        Ok(self.allows(outcome))
    }

    /// The engine could not grow the memory, for example beyond the memory's own maximum. It may call this without a growth before.
    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        let granted = std::mem::take(&mut self.granted);
        self.charge.memory -= granted;
        self.charge.guest.tenant.release(granted);
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let outcome = self.grow_table(desired.saturating_sub(current));
        Ok(self.allows(outcome))
    }
}

impl MemoryCharge {
    fn take(&mut self) -> Self {
        Self {
            guest: self.guest.clone(),
            reservation: self.reservation.take(),
            memory: std::mem::take(&mut self.memory),
        }
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        if self.memory > 0 {
            self.guest.usage().gone(self.memory);
            self.guest.tenant.release(self.memory);
        }
    }
}

/// Bytes for people.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size(pub(crate) usize);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => {
                write!(f, "{} MiB", bytes >> 20)
            }
            bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => {
                write!(f, "{} KiB", bytes >> 10)
            }
            bytes if bytes >= 1 << 20 => write!(f, "{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
            bytes if bytes >= 1 << 10 => write!(f, "{:.1} KiB", bytes as f64 / f64::from(1 << 10)),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Limits, TenantLimits};
    use crate::tenant::Tenant;
    use crate::tenant::context::History;
    use windlass_fleet::{ControllerName, Grant, TenantName};

    fn tenant(memory: usize) -> Arc<Tenant> {
        let limits = TenantLimits {
            memory,
            ..TenantLimits::default()
        };
        Tenant::new(TenantName::default(), &limits)
    }

    fn meter(tenant: &Arc<Tenant>) -> Meter {
        let limits = Limits {
            memory: 100,
            table_elements: 10,
            ..Limits::default()
        };
        let guest = GuestContext::new(
            tenant.clone(),
            ControllerName::new("eater").unwrap(),
            Arc::new(Grant::none()),
            "{}".into(),
            limits,
            History::default(),
        );
        Meter::new(guest, tenant.try_reserve(0, false).unwrap())
    }

    #[test]
    fn an_instance_stops_at_its_own_limit() {
        let tenant = tenant(1000);
        let mut meter = meter(&tenant);
        assert!(meter.memory_growing(0, 60, None).unwrap());
        assert!(!meter.memory_growing(60, 101, None).unwrap());
        assert_eq!(
            (meter.memory(), meter.refusal()),
            (60, Some(Refusal::Instance(100)))
        );
        assert!(!meter.table_growing(0, 11, None).unwrap());
        assert_eq!(tenant.memory_used(), 60);
        assert_eq!(meter.charge.guest.usage().hits()["memory"], 1);
    }

    #[test]
    fn instances_of_a_tenant_share_its_memory_and_give_it_back() {
        let tenant = tenant(100);
        let (mut first, mut second) = (meter(&tenant), meter(&tenant));
        assert!(first.memory_growing(0, 80, None).unwrap());
        assert!(!second.memory_growing(0, 30, None).unwrap());
        assert_eq!(second.refusal(), Some(Refusal::Tenant));
        drop(first);
        assert!(second.memory_growing(0, 30, None).unwrap());
        drop(second);
        assert_eq!(tenant.memory_used(), 0);
    }

    #[test]
    fn the_next_instance_reserves_what_earlier_ones_had_lately() {
        let tenant = tenant(1000);
        let first = meter(&tenant);
        let usage = first.charge.guest.history.usage.clone();
        drop(first);
        assert_eq!(usage.memory_usual(), 0);
        let ended = |memory| usage.gone(memory);
        ended(90);
        assert_eq!(usage.memory_usual(), 90, "a larger one counts at once");
        (0..50).for_each(|_| ended(20));
        let usual = usage.memory_usual();
        assert!((20..40).contains(&usual), "{usual}");
        assert_eq!(usage.memory_peak(), 90);
        let mut second = meter(&tenant);
        assert!(second.memory_growing(0, 95, None).unwrap());
        assert!(tenant.try_reserve(906, false).is_none(), "95 are reserved");
        drop(second);
        assert!(tenant.try_reserve(1000, false).is_some());
    }

    #[test]
    fn growth_that_the_engine_cannot_allocate_is_not_charged() {
        let tenant = tenant(1000);
        let mut meter = meter(&tenant);
        assert!(meter.memory_growing(0, 60, Some(70)).unwrap());
        for _ in 0..3 {
            assert!(meter.memory_growing(60, 80, Some(70)).unwrap());
            meter
                .memory_grow_failed(wasmtime::Error::msg("beyond its maximum"))
                .unwrap();
            assert_eq!((meter.memory(), tenant.memory_used()), (60, 60));
        }
        meter
            .memory_grow_failed(wasmtime::Error::msg("without a question before"))
            .unwrap();
        assert_eq!(meter.memory(), 60);
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(Size(64 << 20).to_string(), "64 MiB");
        assert_eq!(Size(1536).to_string(), "1.5 KiB");
        assert_eq!(Size(7).to_string(), "7 bytes");
    }
}
