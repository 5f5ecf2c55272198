//! Addresses, networks and URLs.

use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;

use super::Failure;
use super::value::Val;

pub(crate) type Address = IpAddr;

/// A network: an address and how many of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = strict(address)?;
        let plain = bits == "0" || !bits.starts_with(['0', '+']);
        let bits: u8 = bits.parse().ok().filter(|_| plain)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(Self { address, bits })
    }

    fn masked(self) -> Self {
        let keep = |width: u32| {
            u128::MAX
                .checked_shl(width - u32::from(self.bits))
                .unwrap_or_default()
        };
        let address = match self.address {
            IpAddr::V4(address) => {
                #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
                let mask = keep(32) as u32;
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & keep(128)).into()),
        };
        Self { address, ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        let other = Self { address, ..self };
        address.is_ipv4() == self.address.is_ipv4() && other.masked() == self.masked()
    }
}

/// What rules ask of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    host: String,
    hostname: String,
    port: String,
    path: String,
    query: Vec<(String, Vec<String>)>,
}

impl Url {
    /// An absolute URL, or a path from the root.
    fn parse(text: &str) -> Option<Self> {
        let uri: http::Uri = text.parse().ok()?;
        if !text.starts_with('/') && (uri.scheme().is_none() || uri.authority().is_none()) {
            return None;
        }
        let host = uri.authority().map_or("", |authority| {
            let whole = authority.as_str();
            whole.rsplit('@').next().unwrap_or(whole)
        });
        let hostname = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let mut query: Vec<(String, Vec<String>)> = Vec::new();
        for pair in uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let decoded = |text: &str| {
                let text = text.replace('+', " ");
                percent_encoding::percent_decode_str(&text)
                    .decode_utf8_lossy()
                    .into_owned()
            };
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name), decoded(value));
            match query.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => query.push((name, vec![value])),
            }
        }
        let path = uri.path();
        // The crate reads an absent path as `/`.
        let bare = !text.starts_with('/') && path == "/" && !text.contains(&format!("{host}/"));
        Some(Self {
            scheme: uri.scheme_str().unwrap_or_default().to_owned(),
            port: uri.port().map(|port| port.to_string()).unwrap_or_default(),
            path: if bare { "" } else { path }.to_owned(),
            hostname: hostname.to_owned(),
            host: host.to_owned(),
            query,
        })
    }
}

/// An address without a zone, and not IPv4 written as IPv6.
fn strict(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let mapped = matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
    (!mapped).then_some(address)
}

/// `None` where the function is none of these.
pub(super) fn call<'a>(name: &str, all: &[Val<'a>]) -> Option<Result<Val<'a>, Failure>> {
    let none = |what: &str| Some(Err(Failure::new(format!("{what} is expected"))));
    let text = |text: &String| Val::text(text.clone());
    Some(Ok(match (name, all) {
        ("isIP", [Val::Text(text)]) => Val::Bool(strict(text).is_some()),
        ("isCIDR", [Val::Text(text)]) => Val::Bool(Cidr::parse(text).is_some()),
        ("isURL", [Val::Text(text)]) => Val::Bool(Url::parse(text).is_some()),
        ("ip.isCanonical", [Val::Text(text)]) => match strict(text) {
            Some(address) => Val::Bool(address.to_string() == **text),
            None => return none("an IP address"),
        },
        ("ip", [Val::Text(text)]) => match strict(text) {
            Some(address) => Val::Address(address),
            None => return none("an IP address"),
        },
        ("ip", [Val::Cidr(cidr)]) => Val::Address(cidr.address),
        ("cidr", [Val::Text(text)]) => match Cidr::parse(text) {
            Some(cidr) => Val::Cidr(cidr),
            None => return none("a CIDR"),
        },
        ("url", [Val::Text(text)]) => match Url::parse(text) {
            Some(url) => Val::Url(Rc::new(url)),
            None => return none("a URL"),
        },
        ("family", [Val::Address(address)]) => Val::Int(if address.is_ipv4() { 4 } else { 6 }),
        (_, [Val::Address(address)]) => Val::Bool(address_is(name, *address)?),
        ("masked", [Val::Cidr(cidr)]) => Val::Cidr(cidr.masked()),
        ("prefixLength", [Val::Cidr(cidr)]) => Val::Int(cidr.bits.into()),
        ("containsIP", [Val::Cidr(cidr), Val::Address(address)]) => {
            Val::Bool(cidr.contains(*address))
        }
        ("containsIP", [Val::Cidr(cidr), Val::Text(text)]) => match strict(text) {
            Some(address) => Val::Bool(cidr.contains(address)),
            None => return none("an IP address"),
        },
        ("containsCIDR", [Val::Cidr(cidr), other]) => {
            let other = match other {
                Val::Cidr(other) => Some(*other),
                Val::Text(text) => Cidr::parse(text),
                _ => None,
            };
            let Some(other) = other else {
                return none("a CIDR");
            };
            Val::Bool(cidr.bits <= other.bits && cidr.contains(other.address))
        }
        ("getScheme", [Val::Url(url)]) => text(&url.scheme),
        ("getHost", [Val::Url(url)]) => text(&url.host),
        ("getHostname", [Val::Url(url)]) => text(&url.hostname),
        ("getPort", [Val::Url(url)]) => text(&url.port),
        ("getEscapedPath", [Val::Url(url)]) => text(&url.path),
        ("getQuery", [Val::Url(url)]) => {
            let entries = url.query.iter().map(|(name, values)| {
                let values = values.iter().map(text).collect();
                (text(name), Val::list(values))
            });
            Val::Map(entries.collect())
        }
        _ => return None,
    }))
}

fn address_is(name: &str, address: IpAddr) -> Option<bool> {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let local_multicast = match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    Some(match name {
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalUnicast" => link_local,
        "isLinkLocalMulticast" => local_multicast,
        "isGlobalUnicast" => {
            let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
            !(address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || link_local
                || broadcast)
        }
        _ => return None,
    })
}
