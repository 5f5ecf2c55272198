//! Which servers a kubeconfig may name. Entry points: [`AllowServers::check_host`] before a connection, [`AllowServers::filter`] for the
//! addresses that a name resolves to.
//!
//! A kubeconfig from an object would otherwise send this process to the services of its own machine or cloud, with its network position.
//!
//! Invariant: an address counts as the one that a connection to it reaches. `::ffff:127.0.0.1`, `64:ff9b::127.0.0.1` (NAT64) and `0.0.0.0`
//! are `127.0.0.1`.
//!
//! Not guaranteed: the addresses behind a proxy. The proxy resolves names, so only the name is checked there.

use super::server_addresses::ServerAddresses;
use crate::http::network::Network;
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// How many patterns or addresses an error lists.
const SHOWN: usize = 10;

/// The servers, and the proxies, that a kubeconfig may name. Cheap to clone.
///
/// A pattern is
/// * an address, or a network such as `10.0.0.0/8`;
/// * a host such as `api.example.com`, or `*.example.com` for all hosts below it;
/// * `*`: every server that the default allows.
///
/// Patterns for hosts allow no loopback and no link-local address: only a pattern that is an address or a network does.
///
/// Default: `*`, every server but those with a loopback, link-local or unspecified address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowServers {
    /// `None`: every server.
    patterns: Option<Arc<[Pattern]>>,
    /// Addresses that only a pattern that is an address or a network allows.
    apart: ServerAddresses,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// `*`
    Default,
    /// Every server with a public address.
    Public,
    /// In lower case.
    Host(String),
    /// With a dot at its beginning, in lower case.
    Below(String),
    Network(Network),
}

/// A list that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllowServersError {
    /// It would allow nothing.
    #[error(
        "allowServers is empty and would allow no server: name servers, or leave it out for its default"
    )]
    Empty,
    /// A pattern is neither a host nor an address nor a network.
    #[error(
        "{0:?} in allowServers is not a server: write a host (api.example.com, *.example.com), an address or a CIDR (10.0.0.0/8), without scheme and port"
    )]
    Pattern(String),
    /// A host that is this machine itself.
    #[error(
        "{0:?} in allowServers allows nothing, because a host never allows loopback addresses: write 127.0.0.0/8 and ::1"
    )]
    ThisMachine(String),
}

/// A server, or a proxy, that `allowServers` does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{subject} is not allowed by allowServers, which has {patterns}: add {missing} if kubeconfigs of this source may name it"
)]
pub struct ServerNotAllowed {
    subject: String,
    patterns: String,
    missing: &'static str,
}

impl ServerNotAllowed {
    /// The server, and the addresses that it has.
    pub(crate) fn subject(&self) -> &str {
        self.subject.trim_end_matches(',')
    }
}

impl Default for AllowServers {
    fn default() -> Self {
        Self::of(vec![Pattern::Default])
    }
}

impl AllowServers {
    /// Every server, loopback included: for a kubeconfig that the operator wrote.
    #[must_use]
    pub fn any() -> Self {
        Self {
            patterns: None,
            apart: ServerAddresses::default(),
        }
    }

    /// Servers with a public address that is none of `apart`, and those in these networks.
    pub(crate) fn public_and(networks: &[Network], apart: ServerAddresses) -> Self {
        let networks = networks.iter().map(|network| Pattern::Network(*network));
        Self {
            apart,
            ..Self::of(std::iter::once(Pattern::Public).chain(networks).collect())
        }
    }

    /// Reads a list, which replaces the default.
    ///
    /// # Errors
    /// [`AllowServersError`].
    pub fn parse<S: AsRef<str>>(list: &[S]) -> Result<Self, AllowServersError> {
        let patterns = list.iter().map(|pattern| Pattern::parse(pattern.as_ref()));
        let patterns: Vec<_> = patterns.collect::<Result<_, _>>()?;
        if patterns.is_empty() {
            Err(AllowServersError::Empty)
        } else {
            Ok(Self::of(patterns))
        }
    }

    fn of(patterns: Vec<Pattern>) -> Self {
        Self {
            patterns: Some(patterns.into()),
            apart: ServerAddresses::default(),
        }
    }

    /// Checks the host of a URL, before anything is resolved. A name passes if any address of it could pass [`Self::filter`].
    ///
    /// # Errors
    /// [`ServerNotAllowed`].
    pub(crate) fn check_host(&self, host: &str) -> Result<(), ServerNotAllowed> {
        let is_network = |pattern: &Pattern| matches!(pattern, Pattern::Network(_));
        let has_networks = || {
            self.patterns
                .iter()
                .flat_map(|all| all.iter())
                .any(is_network)
        };
        match Host::parse(host) {
            Host::Name(_) if has_networks() => Ok(()),
            _ => self.check_behind_proxy(host),
        }
    }

    /// Checks the host of a URL that a proxy resolves: its name or address itself must match.
    ///
    /// # Errors
    /// [`ServerNotAllowed`].
    pub(crate) fn check_behind_proxy(&self, host: &str) -> Result<(), ServerNotAllowed> {
        let Some(patterns) = &self.patterns else {
            return Ok(());
        };
        let host = Host::parse(host);
        let allowed = match &host {
            Host::Address(address) => self.allows(patterns, None, *address),
            Host::Name(name) => {
                !is_this_machine(name) && patterns.iter().any(|pattern| pattern.names(name))
            }
            Host::Neither(_) => false,
        };
        if allowed {
            Ok(())
        } else {
            Err(self.refusal(host.to_string(), host.kind()))
        }
    }

    /// Those of a host's addresses that a connection may be opened to.
    ///
    /// # Errors
    /// [`ServerNotAllowed`] if there are addresses, and none is allowed.
    pub(crate) fn filter(
        &self,
        host: &str,
        addresses: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, ServerNotAllowed> {
        let Some(patterns) = &self.patterns else {
            return Ok(addresses);
        };
        let Host::Name(name) = Host::parse(host) else {
            return self.check_host(host).map(|()| addresses);
        };
        let allowed = |address: &&SocketAddr| self.allows(patterns, Some(&name), address.ip());
        let kept: Vec<_> = addresses.iter().filter(allowed).copied().collect();
        if !kept.is_empty() || addresses.is_empty() {
            return Ok(kept);
        }
        let found = addresses.iter().map(|address| address.ip().to_string());
        let found = shown(found);
        Err(self.refusal(format!("{name}, which resolves to {found},"), "the address"))
    }

    /// Adds the patterns to a digest.
    pub(crate) fn hash(&self, hash: &mut Sha256) {
        match &self.patterns {
            None => hash.update([0]),
            Some(patterns) => {
                for pattern in patterns.iter() {
                    hash.update([1]);
                    hash.update(pattern.to_string());
                }
            }
        }
    }

    /// Whether a connection to an address may be opened. `name`: the name that resolves to it, if there is one.
    fn allows(&self, patterns: &[Pattern], name: Option<&str>, address: IpAddr) -> bool {
        let address = reached(address);
        let is_internal = is_internal(address) || self.apart.has(address);
        patterns.iter().any(|pattern| match pattern {
            Pattern::Network(network) => network.contains(address),
            Pattern::Default => !is_internal,
            Pattern::Public => !is_internal && is_public(address),
            Pattern::Host(_) | Pattern::Below(_) => {
                !is_internal && name.is_some_and(|name| pattern.names(name))
            }
        })
    }

    fn refusal(&self, subject: String, missing: &'static str) -> ServerNotAllowed {
        let patterns = self.patterns.iter().flat_map(|patterns| patterns.iter());
        let is_default = |pattern: &Pattern| *pattern == Pattern::Default;
        let texts = patterns.map(|pattern| {
            if is_default(pattern) {
                "every server but loopback and link-local addresses".to_owned()
            } else {
                pattern.to_string()
            }
        });
        ServerNotAllowed {
            subject,
            patterns: shown(texts),
            missing,
        }
    }
}

/// The first texts of a list, for an error.
fn shown(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<_> = texts.take(SHOWN).collect();
    texts.join(", ")
}

/// The address that a connection to an address reaches.
fn reached(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(v6) => match v6.segments() {
            // A NAT64 gateway connects to the IPv4 address in the last 32 bits (RFC 6052).
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                reached(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into())
            }
            _ => v6.into(),
        },
        v4 => v4,
    }
}

/// Whether an address is of this machine or of its link, where clouds serve the credentials of machines.
fn is_internal(address: IpAddr) -> bool {
    match address {
        // 0.0.0.0/8 is "this network".
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local(),
    }
}

/// Whether everybody on the internet reaches the same by an address: it is of no private, shared, documented or reserved network (RFC 6890),
/// and of none that leads on to an IPv4 address.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, third, _] = v4.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            let is_of_protocols = (first, second, third) == (192, 0, 0);
            let is_of_benchmarks = first == 198 && second & 0xfe == 18;
            // Multicast, reserved and broadcast.
            let is_high = first >= 224;
            let is_special = is_shared || is_of_protocols || is_of_benchmarks || is_high;
            !(is_special || v4.is_private() || v4.is_documentation())
        }
        IpAddr::V6(v6) => {
            let [first, second, ..] = v6.segments();
            let is_global = first & 0xe000 == 0x2000;
            let is_teredo_or_special = first == 0x2001 && second < 0x200;
            let is_documentation = (first, second) == (0x2001, 0xdb8) || first == 0x3fff;
            let is_6to4 = first == 0x2002;
            is_global && !(is_teredo_or_special || is_documentation || is_6to4)
        }
    }
}

/// Names that are always loopback (RFC 6761).
fn is_this_machine(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// The host of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Address(IpAddr),
    /// In lower case, without a dot at its end.
    Name(String),
    /// A short or hexadecimal form of an address, such as `127.1`, which some resolvers take for that address.
    Neither(String),
}

impl Host {
    pub(crate) fn parse(text: &str) -> Self {
        let plain = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = plain.unwrap_or(text).parse() {
            return Self::Address(address);
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_lowercase();
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit());
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if !is_number && name.bytes().all(of_name) {
            Self::Name(name)
        } else {
            Self::Neither(name)
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Address(_) => "the address",
            Self::Name(_) => "the host",
            Self::Neither(_) => "the address in its usual form",
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) | Self::Neither(name) => name.fmt(f),
        }
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, AllowServersError> {
        let bad = || AllowServersError::Pattern(text.to_owned());
        if text == "*" {
            return Ok(Self::Default);
        }
        if let Some(network) = Network::parse(text) {
            return Ok(Self::Network(network));
        }
        let below = text.strip_prefix("*.");
        match (Host::parse(below.unwrap_or(text)), below) {
            (Host::Address(address), None) => Ok(Self::Network(Network::of(address))),
            (Host::Name(name), _) if is_this_machine(&name) => {
                Err(AllowServersError::ThisMachine(text.to_owned()))
            }
            (Host::Name(name), _) if name.starts_with('.') => Err(bad()),
            (Host::Name(name), Some(_)) => Ok(Self::Below(format!(".{name}"))),
            (Host::Name(name), None) => Ok(Self::Host(name)),
            _ => Err(bad()),
        }
    }

    /// Whether the pattern is for a name.
    fn names(&self, name: &str) -> bool {
        match self {
            Self::Default | Self::Public => true,
            Self::Host(host) => host == name,
            Self::Below(suffix) => name.ends_with(suffix),
            Self::Network(_) => false,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("*"),
            Self::Public => f.write_str("public addresses"),
            Self::Host(host) => f.write_str(host),
            Self::Below(suffix) => write!(f, "*{suffix}"),
            Self::Network(network) => network.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(servers: &AllowServers, host: &str, addresses: &[&str]) -> Option<usize> {
        let addresses = addresses.iter();
        let addresses = addresses.map(|text| SocketAddr::new(text.parse().unwrap(), 0));
        let kept = servers.filter(host, addresses.collect());
        kept.ok().map(|kept| kept.len())
    }

    #[test]
    fn the_default_allows_all_but_addresses_of_this_machine_and_its_link() {
        let servers = AllowServers::default();
        for (host, allowed) in [
            ("10.0.0.1", true),
            ("192.0.2.7", true),
            ("[2001:db8::1]", true),
            ("[::ffff:10.0.0.1]", true),
            ("api.example.com", true),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("169.254.169.254", false),
            ("[::1]", false),
            ("[::]", false),
            ("[fe80::1]", false),
            ("[::ffff:127.0.0.1]", false),
            ("[::ffff:0.0.0.0]", false),
            ("[::ffff:a9fe:a9fe]", false),
            ("[64:ff9b::169.254.169.254]", false),
            ("[64:ff9b::0.0.0.0]", false),
            ("localhost", false),
            ("LOCALHOST.", false),
            ("any.localhost", false),
            // Short, decimal and hexadecimal forms of 127.0.0.1.
            ("127.1", false),
            ("2130706433", false),
            ("0x7f000001", false),
            ("127.0.0.0x1", false),
        ] {
            assert_eq!(servers.check_host(host).is_ok(), allowed, "{host}");
            let behind_proxy = servers.check_behind_proxy(host);
            assert_eq!(behind_proxy.is_ok(), allowed, "{host}");
            assert!(AllowServers::any().check_host(host).is_ok(), "{host}");
        }
    }

    #[test]
    fn public_addresses_are_those_that_everybody_reaches() {
        let networks = [Network::parse("10.1.0.0/16").unwrap()];
        let apart = ServerAddresses::default();
        let _server = apart.note("8.8.4.4".parse().unwrap());
        let servers = AllowServers::public_and(&networks, apart);
        for (host, allowed) in [
            ("api.example.com", true),
            ("8.8.8.8", true),
            ("[2606:4700::1111]", true),
            ("[::ffff:8.8.8.8]", true),
            ("10.1.2.3", true),
            ("10.2.2.3", false),
            ("[::ffff:10.2.2.3]", false),
            ("8.8.4.4", false),
            ("[64:ff9b::8.8.4.4]", false),
            ("172.16.0.1", false),
            ("192.168.1.1", false),
            ("100.64.0.1", false),
            ("100.127.255.255", false),
            ("100.128.0.1", true),
            ("198.18.0.1", false),
            ("192.0.0.192", false),
            ("192.0.2.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("240.0.0.1", false),
            ("0.0.0.0", false),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("[fd00:ec2::254]", false),
            ("[fe80::1]", false),
            ("[fec0::1]", false),
            ("[ff02::1]", false),
            ("[::127.0.0.1]", false),
            ("[2002:7f00:1::]", false),
            ("[2001:0:4136:e378:8000:63bf:3fff:fdd2]", false),
            ("[2001:db8::1]", false),
            ("[64:ff9b::10.0.0.1]", false),
            ("[64:ff9b:1::1]", false),
            ("2130706433", false),
            ("0x7f000001", false),
            ("0177.0.0.1", false),
            ("127.1", false),
        ] {
            assert_eq!(servers.check_host(host).is_ok(), allowed, "{host}");
        }
        let rebound = ["10.2.0.1", "8.8.8.8", "10.1.0.9", "8.8.4.4"];
        assert_eq!(resolved(&servers, "api.example.com", &rebound), Some(2));
        assert_eq!(resolved(&servers, "api.example.com", &["::1"]), None);
    }

    #[test]
    fn addresses_that_a_name_resolves_to_are_checked_one_by_one() {
        let servers = AllowServers::default();
        let name = "rebound.example.com";
        for (addresses, kept) in [
            (&["10.0.0.1"][..], Some(1)),
            (&["127.0.0.1", "10.0.0.1", "::1"], Some(1)),
            (&["127.0.0.1"], None),
            (&["::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254"], None),
            (&[], Some(0)),
        ] {
            assert_eq!(resolved(&servers, name, addresses), kept, "{addresses:?}");
        }
        assert_eq!(
            resolved(&AllowServers::any(), name, &["127.0.0.1"]),
            Some(1)
        );
    }

    #[test]
    fn a_list_replaces_the_default() {
        let servers =
            AllowServers::parse(&["api.example.com", "*.Prod.example.com", "10.0.0.0/8", "::1"])
                .unwrap();
        for (host, direct, behind_proxy) in [
            ("api.example.com", true, true),
            ("API.example.com.", true, true),
            ("eu.prod.example.com", true, true),
            ("a.eu.prod.example.com", true, true),
            // Its addresses are checked at connect: some could be in 10.0.0.0/8.
            ("prod.example.com", true, false),
            ("localhost", true, false),
            ("10.1.2.3", true, true),
            ("[::ffff:10.1.2.3]", true, true),
            ("[::1]", true, true),
            ("[::]", true, true),
            ("192.0.2.7", false, false),
            ("127.0.0.1", false, false),
        ] {
            assert_eq!(servers.check_host(host).is_ok(), direct, "{host}");
            let checked = servers.check_behind_proxy(host);
            assert_eq!(checked.is_ok(), behind_proxy, "{host}");
        }
        for (host, address, allowed) in [
            ("api.example.com", "192.0.2.7", true),
            ("api.example.com", "127.0.0.1", false),
            ("eu.prod.example.com", "169.254.169.254", false),
            ("other.example.com", "10.9.9.9", true),
            ("other.example.com", "192.0.2.7", false),
            ("localhost", "::1", true),
            ("localhost", "127.0.0.1", false),
        ] {
            let kept = resolved(&servers, host, &[address]);
            assert_eq!(kept.is_some(), allowed, "{host} {address}");
        }
    }

    #[test]
    fn without_networks_a_host_that_matches_nothing_is_refused_before_it_is_resolved() {
        let servers = AllowServers::parse(&["*.example.com"]).unwrap();
        assert!(servers.check_host("api.example.com").is_ok());
        for host in [
            "example.com",
            "api.example.org",
            "10.0.0.1",
            "badexample.com",
        ] {
            assert!(servers.check_host(host).is_err(), "{host}");
        }
    }

    #[test]
    fn a_star_adds_the_default_to_a_list_and_two_networks_allow_everything() {
        let more = AllowServers::parse(&["*", "127.0.0.0/8"]).unwrap();
        for host in ["127.0.0.1", "0.0.0.0", "10.0.0.1", "api.example.com"] {
            assert!(more.check_host(host).is_ok(), "{host}");
        }
        assert!(more.check_host("169.254.169.254").is_err());
        let all = AllowServers::parse(&["0.0.0.0/0", "::/0"]).unwrap();
        for host in ["127.0.0.1", "[fe80::1]", "api.example.com"] {
            assert!(all.check_host(host).is_ok(), "{host}");
        }
    }

    #[test]
    fn a_list_that_allows_nothing_or_is_no_list_of_servers_is_refused() {
        let none: [&str; 0] = [];
        assert_eq!(AllowServers::parse(&none), Err(AllowServersError::Empty));
        for pattern in [
            "",
            "https://api.example.com",
            "api.example.com:6443",
            "api-*.example.com",
            "*.10.0.0.1",
            "*..example.com",
            ".example.com",
            "10.0.0.0/33",
            "10.0.0",
            "[::1]:443",
        ] {
            let refused = AllowServers::parse(&[pattern]);
            let expected = Err(AllowServersError::Pattern(pattern.to_owned()));
            assert_eq!(refused, expected, "{pattern}");
        }
        let refused = AllowServers::parse(&["localhost"]);
        assert!(matches!(refused, Err(AllowServersError::ThisMachine(_))));
    }

    #[test]
    fn a_refusal_names_the_server_and_the_remedy() {
        let refused = |servers: &AllowServers, host| servers.check_host(host).unwrap_err();
        assert_eq!(
            refused(&AllowServers::default(), "127.0.0.1").to_string(),
            "127.0.0.1 is not allowed by allowServers, which has every server but loopback and link-local addresses: \
             add the address if kubeconfigs of this source may name it"
        );
        let listed = AllowServers::parse(&["*.example.com", "10.0.0.0/8"]).unwrap();
        let found = listed.filter("a.b", vec!["127.0.0.1:1".parse().unwrap()]);
        assert_eq!(
            found.unwrap_err().to_string(),
            "a.b, which resolves to 127.0.0.1, is not allowed by allowServers, which has *.example.com, 10.0.0.0/8: \
             add the address if kubeconfigs of this source may name it"
        );
    }

    #[test]
    fn another_list_has_another_digest() {
        let digest = |servers: &AllowServers| {
            let mut hash = Sha256::new();
            servers.hash(&mut hash);
            <[u8; 32]>::from(hash.finalize())
        };
        let listed = |list: &[&str]| digest(&AllowServers::parse(list).unwrap());
        let default = digest(&AllowServers::default());
        assert_eq!(default, listed(&["*"]));
        assert_ne!(default, digest(&AllowServers::any()));
        assert_ne!(listed(&["10.0.0.0/8"]), listed(&["10.0.0.0/9"]));
        assert_ne!(listed(&["a.b", "c"]), listed(&["a.bc"]));
    }
}
