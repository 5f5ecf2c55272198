//! How much is done at once for the reconcilers of a tenant. Entry point: [`Lanes`].
//!
//! What one tenant has going, and what of it does not come to an end, takes nothing of others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Files of guests that are read at once for a tenant.
const LOOKING: usize = 2;
/// Guests that are prepared at once for a tenant. One that waits for the tenant's memory, or to be compiled, counts.
const PREPARING: usize = 4;

/// A tenant's lanes.
struct Lane {
    looking: Arc<Semaphore>,
    preparing: Arc<Semaphore>,
}

/// Lanes by tenant.
#[derive(Default)]
pub(super) struct Lanes(BTreeMap<String, Lane>);

impl Lanes {
    /// Where the tenant's files wait to be read.
    pub(super) fn looking(&mut self, tenant: &str) -> Arc<Semaphore> {
        self.of(tenant).looking.clone()
    }

    /// Where the tenant's guests wait to be prepared.
    pub(super) fn preparing(&mut self, tenant: &str) -> Arc<Semaphore> {
        self.of(tenant).preparing.clone()
    }

    /// Forgets tenants that are none of these.
    pub(super) fn keep(&mut self, tenants: &BTreeSet<&str>) {
        self.0.retain(|tenant, _| tenants.contains(tenant.as_str()));
    }

    fn of(&mut self, tenant: &str) -> &Lane {
        self.0.entry(tenant.to_owned()).or_insert_with(|| Lane {
            looking: Arc::new(Semaphore::new(LOOKING)),
            preparing: Arc::new(Semaphore::new(PREPARING)),
        })
    }
}
