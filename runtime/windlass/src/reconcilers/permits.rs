//! Limits how many reconcilers of a tenant are read and loaded at once. Entry point: [`TenantPermits`].
//!
//! Each tenant has permits of its own, so a load that hangs delays no other tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Files of guests that are read at once for a tenant.
const READING: usize = 2;
/// Guests that are loaded at once for a tenant. A load that waits for memory or a compile permit counts.
const LOADING: usize = 4;

/// A tenant's permits.
struct Permits {
    reading: Arc<Semaphore>,
    loading: Arc<Semaphore>,
}

/// Permits by tenant.
#[derive(Default)]
pub(super) struct TenantPermits(BTreeMap<String, Permits>);

impl TenantPermits {
    /// Permits to read a file.
    pub(super) fn reading(&mut self, tenant: &str) -> Arc<Semaphore> {
        self.of(tenant).reading.clone()
    }

    /// Permits to load a guest.
    pub(super) fn loading(&mut self, tenant: &str) -> Arc<Semaphore> {
        self.of(tenant).loading.clone()
    }

    /// Drops tenants that are not listed.
    pub(super) fn keep(&mut self, tenants: &BTreeSet<&str>) {
        self.0.retain(|tenant, _| tenants.contains(tenant.as_str()));
    }

    fn of(&mut self, tenant: &str) -> &Permits {
        self.0.entry(tenant.to_owned()).or_insert_with(|| Permits {
            reading: Arc::new(Semaphore::new(READING)),
            loading: Arc::new(Semaphore::new(LOADING)),
        })
    }
}
