//! Addresses and networks of IP. Entry point: [`Network::parse`].

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network(IpNet);

impl Network {
    /// Reads CIDR notation, such as `10.0.0.0/8`. Bits behind the prefix are ignored.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (base, prefix) = text.split_once('/')?;
        let (base, prefix) = (base.parse::<IpAddr>().ok()?, prefix.parse::<u8>().ok()?);
        let network = match base.to_canonical() {
            // `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
            mapped if mapped.is_ipv4() && base.is_ipv6() && prefix >= 96 => {
                IpNet::new(mapped, prefix - 96)
            }
            _ => IpNet::new(base, prefix),
        };
        network.ok().map(Self)
    }

    /// The network of one address.
    pub(super) fn of(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }

    /// Whether an address is in the network. An IPv4-mapped IPv6 address counts as the IPv4 address.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            return self.0.addr().fmt(f);
        }
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_that_begin_with_its_bits() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3/8", "10.255.0.1", "11.0.0.1"),
            ("192.168.1.4/30", "192.168.1.7", "192.168.1.8"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::ffff:10.0.0.0/104", "10.2.3.4", "11.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.2.3.4", "::10.2.3.4"),
        ] {
            let parsed = Network::parse(network).unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{network}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{network}");
        }
        let one = Network::of("::1".parse().unwrap());
        assert!(one.contains("::1".parse().unwrap()) && !one.contains("::2".parse().unwrap()));
        let all = Network::parse("0.0.0.0/0").unwrap();
        assert!(all.contains("255.0.0.1".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()));
    }

    #[test]
    fn other_text_is_no_network() {
        for text in [
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "a/8",
            "10.0.0.0/",
            "/8",
        ] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
