//! Permits to compile components, shared among tenants. Entry point: [`Compilations`].
//!
//! There are two permits, and a tenant has one at a time. So a tenant with many slow components leaves the other permit to everybody
//! else. The next permit goes to the tenant that has waited longest since it last gave one back.

use std::collections::BTreeSet;
use windlass_fleet::TenantName;
use windlass_fleet::fair::{First, Permit, Resource};

/// Components that are compiled at once. Each may take all the memory that a compiler is allowed.
const PERMITS: usize = 2;

/// The right to compile one component.
pub(crate) type CompilePermit = Permit<Compilations>;

/// The components that an engine compiles now.
#[derive(Debug, Default)]
pub(crate) struct Compilations {
    /// Each compiles one.
    tenants: BTreeSet<TenantName>,
}

impl Resource for Compilations {
    type Tenant = TenantName;
    type Amount = ();
    type Rank = u64;

    fn fits(&self, tenant: &TenantName, _: bool, (): ()) -> bool {
        self.tenants.len() < PERMITS && !self.tenants.contains(tenant)
    }

    fn rank(&self, first: &First<'_, TenantName>) -> u64 {
        first.since
    }

    fn take(&mut self, tenant: &TenantName, (): ()) {
        self.tenants.insert(tenant.clone());
    }

    fn give_back(&mut self, tenant: &TenantName, (): ()) {
        self.tenants.remove(tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::fair::WaitList;

    fn tenant(name: &str) -> TenantName {
        TenantName::new(name).unwrap()
    }

    /// A list in which these wait, each with a number of its own.
    fn list(waiting: &[&str]) -> WaitList<Compilations, usize> {
        let mut list = WaitList::new(Compilations::default());
        for (at, name) in waiting.iter().enumerate() {
            list.wait(&tenant(name), false, (), at);
        }
        list
    }

    fn next(list: &mut WaitList<Compilations, usize>) -> Option<usize> {
        list.serve_next().map(|(.., waiter)| waiter)
    }

    #[test]
    fn a_tenant_has_one_permit_however_much_it_has_to_compile() {
        let mut list = list(&["a", "a", "a"]);
        assert_eq!(next(&mut list), Some(0));
        assert_eq!(next(&mut list), None);
        list.wait(&tenant("b"), false, (), 3);
        assert_eq!(next(&mut list), Some(3), "the other permit is for others");
        list.give_back(&tenant("a"), ());
        assert_eq!((next(&mut list), next(&mut list)), (Some(1), None));
    }

    #[test]
    fn nobody_waits_for_more_than_one_component_of_another_tenant() {
        let mut list = list(&["a", "b", "a", "a", "b", "c", "d"]);
        let mut order = vec![next(&mut list), next(&mut list)];
        for done in ["a", "b", "c", "a", "d", "b"] {
            list.give_back(&tenant(done), ());
            order.push(next(&mut list));
        }
        let order: Vec<usize> = order.into_iter().flatten().collect();
        assert_eq!(order, [0, 1, 5, 6, 2, 4, 3]);
        assert!(list.is_empty());
    }
}
