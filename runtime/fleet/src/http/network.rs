//! Addresses and networks of IP. Entry point: [`Network::parse`].

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network(IpNet);

impl Network {
    /// Reads CIDR notation, such as `10.0.0.0/8`. Bits behind the prefix are ignored.
    pub(crate) fn parse(text: &str) -> Option<Self> {
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
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }

    /// Whether an address is in the network. An IPv4-mapped IPv6 address counts as the IPv4 address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// The networks of addresses that are both in one of these and in one of those.
    pub(crate) fn common(these: &[Self], those: &[Self]) -> Vec<Self> {
        // Of two networks that have an address in common, one contains the other.
        let smaller = |(one, other): (&Self, &Self)| {
            if one.0.contains(&other.0) {
                Some(*other)
            } else {
                other.0.contains(&one.0).then_some(*one)
            }
        };
        let pairs = these
            .iter()
            .flat_map(|one| those.iter().map(move |other| (one, other)));
        let mut common: Vec<Self> = pairs.filter_map(smaller).collect();
        common.dedup();
        common
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
    fn networks_have_in_common_what_both_contain() {
        let of = |texts: &[&str]| -> Vec<Network> {
            texts
                .iter()
                .map(|text| Network::parse(text).unwrap())
                .collect()
        };
        let common = Network::common(
            &of(&["10.0.0.0/8", "fd00::/8"]),
            &of(&["10.1.0.0/16", "::/0", "192.168.0.0/16"]),
        );
        assert_eq!(common, of(&["10.1.0.0/16", "fd00::/8"]));
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
