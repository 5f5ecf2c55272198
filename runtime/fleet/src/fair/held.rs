//! How much each tenant holds of a resource. Entry point: [`Held`].

use std::collections::BTreeMap;

/// How much each tenant holds. It has no entry for a tenant that holds nothing.
#[derive(Debug, Clone)]
pub struct Held<T>(BTreeMap<T, usize>);

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + Clone> Held<T> {
    /// How much a tenant holds.
    #[must_use]
    pub fn by(&self, tenant: &T) -> usize {
        self.0.get(tenant).copied().unwrap_or_default()
    }

    /// Whether nobody holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A tenant has taken more.
    pub fn add(&mut self, tenant: &T, amount: usize) {
        *self.0.entry(tenant.clone()).or_default() += amount;
    }

    /// A tenant has given back some of what it holds.
    pub fn subtract(&mut self, tenant: &T, amount: usize) {
        let Some(held) = self.0.get_mut(tenant) else {
            return;
        };
        *held -= amount;
        if *held == 0 {
            self.0.remove(tenant);
        }
    }
}
