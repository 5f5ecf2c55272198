//! The proxies that the environment names. Entry point: [`ProxyFromEnvironment::read`].
//!
//! The rules are Go's (`golang.org/x/net/http/httpproxy`), which kubectl and client-go follow. Two differ. A variable that names no proxy is
//! an error here, and not ignored, because a direct connection in place of the proxy could break a rule of the network. And an IPv6 address
//! in brackets is an exception without a port too, as curl has it: it can mean nothing else.

use super::{Proxy, ProxyUrlError};
use crate::http::network::Network;
use http::Uri;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// The proxies of `HTTPS_PROXY` and `HTTP_PROXY`, and the servers that `NO_PROXY` excepts from them. Default: none. Cheap to clone.
///
/// The proxy that a kubeconfig names wins over these.
#[derive(Debug, Clone, Default)]
pub struct ProxyFromEnvironment {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    https: Option<Proxy>,
    http: Option<Proxy>,
    exceptions: Vec<Exception>,
}

/// A variable of the environment that names no proxy. Never quotes its value, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the variable {variable} of the environment names no proxy: {reason}; or unset it")]
pub struct ProxyVariableError {
    variable: &'static str,
    reason: ProxyUrlError,
}

impl ProxyFromEnvironment {
    /// Reads `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or the same in lower case where those are empty. `variable` returns the value of a
    /// variable: this crate reads no environment.
    ///
    /// # Errors
    /// [`ProxyVariableError`].
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ProxyVariableError> {
        let first = |names: [&'static str; 2]| {
            let mut given = names
                .into_iter()
                .filter_map(|name| Some((name, variable(name)?)));
            given.find(|(_, value)| !value.is_empty())
        };
        let proxy = |names| match first(names) {
            Some((variable, url)) => match parse(&url) {
                Ok(proxy) => Ok(Some(proxy)),
                Err(reason) => Err(ProxyVariableError { variable, reason }),
            },
            None => Ok(None),
        };
        let excepted = first(["NO_PROXY", "no_proxy"]).map(|(_, list)| list);
        Ok(Self {
            inner: Arc::new(Inner {
                https: proxy(["HTTPS_PROXY", "https_proxy"])?,
                http: proxy(["HTTP_PROXY", "http_proxy"])?,
                exceptions: exceptions(&excepted.unwrap_or_default()),
            }),
        })
    }

    /// The proxy for a server; `None`: it is reached directly, as `localhost` and loopback addresses always are.
    pub(crate) fn for_target(&self, target: &Uri) -> Option<Proxy> {
        let (proxy, default_port) = match target.scheme_str()? {
            "https" => (&self.inner.https, 443),
            "http" => (&self.inner.http, 80),
            _ => return None,
        };
        let proxy = proxy.as_ref()?;
        let host = target.host()?.trim_matches(['[', ']']).to_lowercase();
        let port = target.port_u16().unwrap_or(default_port);
        let address = host.parse::<IpAddr>().ok();
        let is_here = host == "localhost"
            || address.is_some_and(|address| address.to_canonical().is_loopback());
        let mut exceptions = self.inner.exceptions.iter();
        if is_here || exceptions.any(|exception| exception.matches(&host, address, port)) {
            return None;
        }
        Some(proxy.clone())
    }
}

/// A URL, or `HOST:PORT` of an HTTP proxy.
fn parse(text: &str) -> Result<Proxy, ProxyUrlError> {
    if text.contains("://") {
        Proxy::parse(text)
    } else {
        Proxy::parse(&format!("http://{}", text.trim()))
    }
}

/// An entry of `NO_PROXY`.
#[derive(Debug, PartialEq, Eq)]
enum Exception {
    /// `*`
    Everything,
    /// An address without a port, or a CIDR.
    Network(Network),
    /// `ADDRESS:PORT`
    Socket(IpAddr, u16),
    Domain {
        /// With a dot at its beginning.
        suffix: String,
        /// Whether the domain itself matches, beside those below it.
        itself: bool,
        /// `None`: any.
        port: Option<u16>,
    },
}

/// The entries of a list. One that is malformed matches nothing, as in Go.
fn exceptions(list: &str) -> Vec<Exception> {
    let entries = list.split(',').map(|entry| entry.trim().to_lowercase());
    let entries = entries.filter(|entry| !entry.is_empty());
    entries
        .filter_map(|entry| Exception::parse(&entry))
        .collect()
}

impl Exception {
    fn parse(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self::Everything);
        }
        if let Some(network) = Network::parse(entry) {
            return Some(Self::Network(network));
        }
        let (host, port) = split_port(entry);
        let port = match port {
            "" => None,
            port => Some(port.parse().ok()?),
        };
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(match port {
                Some(port) => Self::Socket(address.to_canonical(), port),
                None => Self::Network(Network::of(address)),
            });
        }
        let domain = host.strip_prefix('*').filter(|rest| rest.starts_with('.'));
        let domain = domain.unwrap_or(host);
        let itself = !domain.starts_with('.');
        let suffix = if itself {
            format!(".{domain}")
        } else {
            domain.to_owned()
        };
        (!domain.is_empty()).then_some(Self::Domain {
            suffix,
            itself,
            port,
        })
    }

    fn matches(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        match self {
            Self::Everything => true,
            Self::Network(network) => address.is_some_and(|address| network.contains(address)),
            Self::Socket(excepted, at) => {
                *at == port && address.is_some_and(|address| address.to_canonical() == *excepted)
            }
            Self::Domain {
                suffix,
                itself,
                port: at,
            } => {
                let is_named = host.ends_with(suffix) || (*itself && *host == suffix[1..]);
                address.is_none() && is_named && at.is_none_or(|at| at == port)
            }
        }
    }
}

/// Host and port of `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`. Without a port, everything is the host.
fn split_port(entry: &str) -> (&str, &str) {
    if let Some((address, rest)) = entry
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        && address.parse::<Ipv6Addr>().is_ok()
        && (rest.is_empty() || rest.starts_with(':'))
    {
        return (address, rest.trim_start_matches(':'));
    }
    match entry.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, port),
        _ => (entry, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<ProxyFromEnvironment, ProxyVariableError> {
        ProxyFromEnvironment::read(|name| {
            let given = variables.iter().find(|(given, _)| *given == name);
            given.map(|(_, value)| (*value).to_owned())
        })
    }

    fn proxy(variables: &[(&str, &str)], target: &str) -> Option<String> {
        let proxies = read(variables).unwrap();
        let proxy = proxies.for_target(&target.parse().unwrap());
        proxy.map(|proxy| proxy.to_string())
    }

    #[test]
    fn each_scheme_has_its_variable_and_upper_case_wins() {
        let both = [
            ("HTTPS_PROXY", "secure:1"),
            ("https_proxy", "never:1"),
            ("HTTP_PROXY", ""),
            ("http_proxy", "socks5://plain:2"),
        ];
        for (target, expected) in [
            ("https://example.com", Some("http://secure:1")),
            ("http://example.com", Some("socks5://plain:2")),
            ("https://localhost:6443", None),
            ("https://127.0.0.1:6443", None),
            ("https://127.1.2.3", None),
            ("https://[::1]:6443", None),
            ("https://[::ffff:127.0.0.1]", None),
        ] {
            assert_eq!(proxy(&both, target).as_deref(), expected, "{target}");
        }
        assert_eq!(proxy(&[], "https://example.com"), None);
        assert_eq!(
            proxy(&[("HTTP_PROXY", "plain")], "https://example.com"),
            None
        );
    }

    /// The cases that Go documents and tests.
    #[test]
    fn exceptions_follow_the_rules_of_go() {
        let list = "foobar.com, .barbaz.net,*.wild.org,192.168.1.1,192.168.1.2:81,192.168.1.3:80,10.0.0.0/30,2001:db8::52:0:1,\
            [2001:db8::52:0:2]:443,[2001:db8::52:0:3]:80,2002:db8:a::45/64,ports.example.com:6443,[fd00::9]";
        for (host, proxied) in [
            ("192.168.1.1", false),
            ("192.168.1.1:8080", false),
            ("192.168.1.2", true),
            ("192.168.1.2:81", false),
            ("192.168.1.3", true),
            ("192.168.1.3:80", false),
            ("192.168.1.4", true),
            ("10.0.0.2", false),
            ("10.0.0.4", true),
            ("[::ffff:10.0.0.2]", false),
            ("[2001:db8::52:0:1]", false),
            ("[2001:db8::52:0:2]", false),
            ("[2001:db8::52:0:2]:6443", true),
            ("[2001:db8::52:0:3]", true),
            ("[2002:db8:a::123]", false),
            ("[fe80::424b:c8be:1643:a1b6]", true),
            ("[fd00::9]", false),
            ("[fd00::9]:6443", false),
            ("foobar.com", false),
            ("FOOBAR.com", false),
            ("www.foobar.com", false),
            ("foofoobar.com", true),
            ("baz.com", true),
            ("barbaz.net", true),
            ("www.barbaz.net", false),
            ("barbaz.net.example", true),
            ("wild.org", true),
            ("a.b.wild.org", false),
            ("ports.example.com", true),
            ("ports.example.com:6443", false),
            ("below.ports.example.com:6443", false),
        ] {
            let variables = [("HTTPS_PROXY", "p"), ("NO_PROXY", list)];
            let found = proxy(&variables, &format!("https://{host}"));
            assert_eq!(found.is_some(), proxied, "{host}");
        }
    }

    #[test]
    fn a_star_excepts_everything_and_malformed_entries_nothing() {
        for (list, proxied) in [
            ("*", false),
            ("a, *", false),
            (" , ,,", true),
            (":1", true),
            ("[]", true),
            ("one.example:port", true),
            ("one.example:", false),
            ("*.", true),
        ] {
            let variables = [("HTTPS_PROXY", "p"), ("no_proxy", list)];
            let found = proxy(&variables, "https://one.example");
            assert_eq!(found.is_some(), proxied, "{list:?}");
        }
    }

    #[test]
    fn a_variable_that_names_no_proxy_is_an_error_without_its_value() {
        for value in [
            "socks4://me:hush@proxy",
            "http://me:hush@",
            "me:hush@proxy:port",
        ] {
            let error = read(&[("https_proxy", value)]).unwrap_err().to_string();
            assert!(
                error.contains("https_proxy") && !error.contains("hush"),
                "{error}"
            );
        }
        let held = read(&[("HTTPS_PROXY", "http://me:hush@proxy")]).unwrap();
        assert!(!format!("{held:?}").contains("hush"));
    }
}
