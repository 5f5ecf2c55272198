//! The proxies that servers are reached through. Entry points: [`Proxy::parse`] for a kubeconfig's, [`ProxyFromEnvironment`] for others.
//!
//! Invariant: neither `Debug` nor `Display` nor an error prints a proxy's user or password.

mod environment;

pub use environment::{ProxyFromEnvironment, ProxyVariableError};

use http::Uri;
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::Ipv6Addr;

/// Longest user and password of a SOCKS5 proxy, in bytes (RFC 1929).
const MAX_SOCKS_LOGIN: usize = 255;

/// What a proxy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyProtocol {
    Http,
    /// HTTP over TLS.
    Https,
    /// The proxy resolves names, as for `socks5h`, and as in kubectl.
    Socks5,
}

/// A proxy: its protocol, address and credentials. Prints no credentials.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    protocol: ProxyProtocol,
    /// A name in lower case, or an address; IPv6 without brackets.
    host: String,
    port: u16,
    login: Option<Login>,
}

/// A proxy's user and password, decoded. Has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// Why a URL names no proxy. Never quotes the URL, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyUrlError {
    /// It is not a URL with a host.
    #[error(
        "it is no URL of a proxy: write http://, https:// or socks5://, then HOST:PORT, and escape a user and a password with %"
    )]
    Url,
    /// The scheme is not one that proxies have.
    #[error("its scheme is not supported: write http://, https:// or socks5://")]
    Scheme,
    /// User or password cannot be sent to such a proxy.
    #[error(
        "its user or password cannot be used: it must be UTF-8, and of 1 to 255 bytes each for socks5"
    )]
    Login,
}

impl Proxy {
    /// Reads a URL. Its path is ignored. Default ports: 80, 443 and 1080.
    ///
    /// # Errors
    /// [`ProxyUrlError`].
    pub(crate) fn parse(url: &str) -> Result<Self, ProxyUrlError> {
        let uri: Uri = url.trim().parse().map_err(|_| ProxyUrlError::Url)?;
        let protocol = match uri.scheme_str().ok_or(ProxyUrlError::Url)? {
            "http" => ProxyProtocol::Http,
            "https" => ProxyProtocol::Https,
            "socks5" | "socks5h" => ProxyProtocol::Socks5,
            _ => return Err(ProxyUrlError::Scheme),
        };
        let authority = uri.authority().ok_or(ProxyUrlError::Url)?;
        let host = authority.host().trim_matches(['[', ']']).to_lowercase();
        if host.is_empty() {
            return Err(ProxyUrlError::Url);
        }
        let login = match authority.as_str().rsplit_once('@') {
            Some((login, _)) => Some(Login::parse(login, protocol)?),
            None => None,
        };
        Ok(Self {
            protocol,
            host,
            port: port(authority.as_str(), protocol)?,
            login,
        })
    }

    pub(crate) fn protocol(&self) -> ProxyProtocol {
        self.protocol
    }

    /// A name in lower case, or an address; IPv6 without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// Adds everything to a digest, credentials included: only the digest is kept.
    pub(crate) fn hash(&self, hash: &mut Sha256) {
        hash.update(self.to_string());
        if let Some(Login { user, password }) = &self.login {
            for text in [user, password] {
                hash.update([0]);
                hash.update(text);
            }
        }
    }
}

/// The port of an authority. `Uri` ignores one that is no number.
fn port(authority: &str, protocol: ProxyProtocol) -> Result<u16, ProxyUrlError> {
    let host_and_port = authority.rsplit('@').next().unwrap_or_default();
    let behind_host = match host_and_port.rsplit_once(']') {
        Some((_, rest)) => rest,
        None => host_and_port,
    };
    match behind_host.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() => port.parse().map_err(|_| ProxyUrlError::Url),
        _ => Ok(match protocol {
            ProxyProtocol::Http => 80,
            ProxyProtocol::Https => 443,
            ProxyProtocol::Socks5 => 1080,
        }),
    }
}

impl Login {
    fn parse(text: &str, protocol: ProxyProtocol) -> Result<Self, ProxyUrlError> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        let decode = |text: &str| {
            let decoded = percent_decode_str(text).decode_utf8();
            decoded.map(String::from).map_err(|_| ProxyUrlError::Login)
        };
        let login = Self {
            user: decode(user)?,
            password: decode(password)?,
        };
        let lengths = [login.user.len(), login.password.len()];
        let fits = |length: &usize| (1..=MAX_SOCKS_LOGIN).contains(length);
        match protocol {
            ProxyProtocol::Socks5 if !lengths.iter().all(fits) => Err(ProxyUrlError::Login),
            _ => Ok(login),
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            ProxyProtocol::Http => "http",
            ProxyProtocol::Https => "https",
            ProxyProtocol::Socks5 => "socks5",
        };
        match self.host.parse::<Ipv6Addr>() {
            Ok(address) => write!(f, "{scheme}://[{address}]:{}", self.port),
            Err(_) => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_with_its_port_and_its_decoded_login() {
        for (url, shown, login) in [
            ("http://proxy:3128", "http://proxy:3128", None),
            (
                "http://Proxy.Example.com",
                "http://proxy.example.com:80",
                None,
            ),
            ("https://proxy/", "https://proxy:443", None),
            ("socks5://10.0.0.1", "socks5://10.0.0.1:1080", None),
            ("socks5h://[fd00::1]:99", "socks5://[fd00::1]:99", None),
            ("http://[fd00::1]", "http://[fd00::1]:80", None),
            (
                "http://me:p%40ss%3A%2F@proxy:3128/path",
                "http://proxy:3128",
                Some(("me", "p@ss:/")),
            ),
            ("https://me@proxy", "https://proxy:443", Some(("me", ""))),
            ("http://a:b:c@proxy", "http://proxy:80", Some(("a", "b:c"))),
        ] {
            let proxy = Proxy::parse(url).unwrap();
            assert_eq!(proxy.to_string(), shown);
            let read = proxy.login.as_ref();
            let read = read.map(|login| (login.user.as_str(), login.password.as_str()));
            assert_eq!(read, login, "{url}");
        }
    }

    #[test]
    fn what_is_no_proxy_is_refused() {
        for (url, why) in [
            ("proxy:3128", ProxyUrlError::Url),
            ("", ProxyUrlError::Url),
            ("http://", ProxyUrlError::Url),
            ("http://proxy:port", ProxyUrlError::Url),
            ("http://proxy:99999", ProxyUrlError::Url),
            ("ftp://proxy", ProxyUrlError::Scheme),
            ("socks4://proxy", ProxyUrlError::Scheme),
            ("socks5://me@proxy", ProxyUrlError::Login),
            ("http://%ff@proxy", ProxyUrlError::Login),
        ] {
            assert_eq!(Proxy::parse(url), Err(why), "{url}");
        }
        let long = format!("socks5://me:{}@proxy", "x".repeat(256));
        assert_eq!(Proxy::parse(&long), Err(ProxyUrlError::Login));
    }

    #[test]
    fn credentials_are_in_the_digest_and_in_no_text() {
        let digest = |url: &str| {
            let mut hash = Sha256::new();
            Proxy::parse(url).unwrap().hash(&mut hash);
            <[u8; 32]>::from(hash.finalize())
        };
        assert_ne!(digest("http://me:one@proxy"), digest("http://me:two@proxy"));
        assert_ne!(digest("http://me@proxy"), digest("http://proxy"));
        let proxy = Proxy::parse("http://myself:hush@proxy").unwrap();
        let texts = format!("{proxy} {proxy:?}");
        assert!(
            !texts.contains("hush") && !texts.contains("myself"),
            "{texts}"
        );
    }
}
