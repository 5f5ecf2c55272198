//! The guests that serve, and their tenants. Entry point: [`GuestRegistry`].

use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_sandbox::{Guest, Tenant};

/// Guests by reconciler, and tenants by name. Shared by `guests`, which changes them, and the admin endpoints, which show them.
#[derive(Default)]
pub(crate) struct GuestRegistry {
    guests: RwLock<BTreeMap<String, Arc<Guest>>>,
    tenants: RwLock<BTreeMap<String, Arc<Tenant>>>,
}

impl GuestRegistry {
    /// The guest of a reconciler.
    pub(crate) fn guest(&self, reconciler: &str) -> Option<Arc<Guest>> {
        self.guests.read().get(reconciler).cloned()
    }

    /// All guests.
    pub(crate) fn guests(&self) -> Vec<Arc<Guest>> {
        self.guests.read().values().cloned().collect()
    }

    /// Adds a guest, or replaces the one of its reconciler.
    pub(crate) fn put(&self, reconciler: &str, guest: Arc<Guest>) {
        self.guests.write().insert(reconciler.to_owned(), guest);
    }

    /// Removes a guest, and with it its counts.
    pub(crate) fn remove(&self, reconciler: &str) {
        self.guests.write().remove(reconciler);
    }

    /// The tenant of this name.
    pub(crate) fn tenant(&self, name: &str) -> Option<Arc<Tenant>> {
        self.tenants.read().get(name).cloned()
    }

    /// All tenants.
    pub(crate) fn tenants(&self) -> Vec<Arc<Tenant>> {
        self.tenants.read().values().cloned().collect()
    }

    /// Adds a tenant.
    pub(crate) fn put_tenant(&self, tenant: Arc<Tenant>) {
        let name = tenant.name().to_string();
        self.tenants.write().insert(name, tenant);
    }

    /// Removes tenants that are not listed.
    pub(crate) fn keep_tenants(&self, names: &BTreeSet<&str>) {
        let mut tenants = self.tenants.write();
        tenants.retain(|name, _| names.contains(name.as_str()));
    }
}
