//! The addresses of the API servers that this process is connected to. Entry point: [`ServerAddresses::note`].

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Addresses that connections to API servers have now. Cheap to clone; clones are the same addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerAddresses(Arc<RwLock<BTreeMap<IpAddr, usize>>>);

impl ServerAddresses {
    /// Adds the address of a connection until the answer is dropped.
    pub(crate) fn note(&self, address: IpAddr) -> NotedAddress {
        let address = address.to_canonical();
        *self.0.write().entry(address).or_default() += 1;
        NotedAddress(self.clone(), address)
    }

    /// Whether an API server has an address.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.0.read().contains_key(&address.to_canonical())
    }
}

/// Which servers are connected is no part of a configuration.
impl PartialEq for ServerAddresses {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ServerAddresses {}

/// The address of one connection.
pub(crate) struct NotedAddress(ServerAddresses, IpAddr);

impl Drop for NotedAddress {
    fn drop(&mut self) {
        let mut addresses = self.0.0.write();
        if let Some(connections) = addresses.get_mut(&self.1) {
            *connections -= 1;
            if *connections == 0 {
                addresses.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_there_while_a_connection_has_it() {
        let addresses = ServerAddresses::default();
        let (v4, mapped) = (
            "192.0.2.1".parse().unwrap(),
            "::ffff:192.0.2.1".parse().unwrap(),
        );
        let one = addresses.note(v4);
        let other = addresses.note(mapped);
        drop(one);
        assert!(addresses.has(v4) && addresses.has(mapped));
        drop(other);
        assert!(!addresses.has(v4));
    }
}
