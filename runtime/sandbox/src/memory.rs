//! What guests may allocate: each instance by itself, and all instances of a tenant from one account. Entry points:
//! [`Tenant`] and [`Meter`].

use crate::options::TenantLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasmtime::ResourceLimiter;
use windlass_fleet::TenantName;

/// A tenant, as far as guests know it: a name and an account that all of its instances draw from.
#[derive(Debug)]
pub struct Tenant {
    name: TenantName,
    /// In bytes.
    limit: AtomicUsize,
    /// Sum of what the meters of live instances have charged, in bytes.
    used: AtomicUsize,
}

impl Tenant {
    /// A tenant without instances.
    #[must_use]
    pub fn new(name: TenantName, limits: &TenantLimits) -> Arc<Self> {
        Arc::new(Self {
            name,
            limit: AtomicUsize::new(limits.memory),
            used: AtomicUsize::new(0),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &TenantName {
        &self.name
    }

    /// Memory of its live instances, in bytes.
    #[must_use]
    pub fn memory_used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Changes its limits. Instances that live above a smaller one keep what they have and get no more.
    pub fn set_limits(&self, limits: &TenantLimits) {
        self.limit.store(limits.memory, Ordering::Relaxed);
    }

    fn charge(&self, bytes: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Which limit refused an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The instance's own memory limit, in bytes.
    Instance(usize),
    /// The tenant's account.
    Tenant,
    /// The instance's table elements.
    Table(usize),
}

impl Refusal {
    /// For a failure's message.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Instance(limit) => format!("its memory limit of {}: raise limits.memory, or hold less", Size(limit)),
            Self::Tenant => "the memory that its tenant's guests share: raise the tenant's limits.memory, or run fewer at once".to_owned(),
            Self::Table(limit) => format!("its limit of {limit} table elements"),
        }
    }
}

/// Counts what one instance allocates, and gives it back to the tenant when dropped.
#[derive(Debug)]
pub(crate) struct Meter {
    tenant: Arc<Tenant>,
    memory_limit: usize,
    table_limit: usize,
    /// Bytes of all memories; charged to `tenant`.
    memory: usize,
    /// Elements of all tables.
    elements: usize,
    /// The last allocation that was refused. The guest may live on; if it traps, this is why.
    refusal: Option<Refusal>,
}

impl Meter {
    pub(crate) fn new(tenant: Arc<Tenant>, memory_limit: usize, table_limit: usize) -> Self {
        Self {
            tenant,
            memory_limit,
            table_limit,
            memory: 0,
            elements: 0,
            refusal: None,
        }
    }

    /// Bytes held now. Memories never shrink, so it is the peak as well.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    fn grow_memory(&mut self, more: usize) -> Result<(), Refusal> {
        if self.memory.saturating_add(more) > self.memory_limit {
            return Err(Refusal::Instance(self.memory_limit));
        }
        if !self.tenant.charge(more) {
            return Err(Refusal::Tenant);
        }
        self.memory += more;
        Ok(())
    }

    fn grow_table(&mut self, more: usize) -> Result<(), Refusal> {
        if self.elements.saturating_add(more) > self.table_limit {
            return Err(Refusal::Table(self.table_limit));
        }
        self.elements += more;
        Ok(())
    }

    fn answer(&mut self, outcome: Result<(), Refusal>) -> bool {
        self.refusal = outcome.err().or(self.refusal);
        outcome.is_ok()
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let outcome = self.grow_memory(desired.saturating_sub(current));
        Ok(self.answer(outcome))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let outcome = self.grow_table(desired.saturating_sub(current));
        Ok(self.answer(outcome))
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.tenant.release(self.memory);
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

    fn tenant(memory: usize) -> Arc<Tenant> {
        Tenant::new(TenantName::default(), &TenantLimits { memory })
    }

    #[test]
    fn an_instance_stops_at_its_own_limit() {
        let tenant = tenant(1000);
        let mut meter = Meter::new(tenant.clone(), 100, 10);
        assert!(meter.memory_growing(0, 60, None).unwrap());
        assert!(!meter.memory_growing(60, 101, None).unwrap());
        assert_eq!(
            (meter.memory(), meter.refusal()),
            (60, Some(Refusal::Instance(100)))
        );
        assert!(!meter.table_growing(0, 11, None).unwrap());
        assert_eq!(tenant.memory_used(), 60);
    }

    #[test]
    fn instances_of_a_tenant_share_an_account_and_give_back() {
        let tenant = tenant(100);
        let mut first = Meter::new(tenant.clone(), 100, 10);
        let mut second = Meter::new(tenant.clone(), 100, 10);
        assert!(first.memory_growing(0, 80, None).unwrap());
        assert!(!second.memory_growing(0, 30, None).unwrap());
        assert_eq!(second.refusal(), Some(Refusal::Tenant));
        drop(first);
        assert!(second.memory_growing(0, 30, None).unwrap());
        drop(second);
        assert_eq!(tenant.memory_used(), 0);
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(Size(64 << 20).to_string(), "64 MiB");
        assert_eq!(Size(1536).to_string(), "1.5 KiB");
        assert_eq!(Size(7).to_string(), "7 bytes");
    }
}
