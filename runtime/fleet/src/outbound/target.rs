//! The server and the path of a URL. Entry point: [`Target::parse`].

use crate::http::config::Host;
use http::Uri;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::fmt;

/// Longest URL, in bytes.
const LONGEST: usize = 8 << 10;

/// How often a path may be encoded. Beyond it nobody knows what it means.
const ENCODINGS: usize = 3;

/// What a URL names. It prints as a URL without its query, which may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Whether it is `https`.
    tls: bool,
    host: Host,
    port: u16,
    path: String,
    /// With the question mark; empty if there is none.
    query: String,
}

/// A URL that cannot be used. Its text is not quoted: it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is too long.
    #[error("the URL is longer than {LONGEST} bytes: shorten it, or send a body")]
    TooLong,
    /// It is no URL.
    #[error(
        "the URL cannot be read: write https://HOST/PATH, with other characters percent-encoded"
    )]
    Url,
    /// Another scheme.
    #[error("the URL has neither the scheme https nor http: write https://HOST/PATH")]
    Scheme,
    /// It has a user or a password.
    #[error(
        "the URL has a user before its host: send the header Authorization, or have the operator add it to the rule"
    )]
    User,
    /// Its host is no name and no address in the usual form.
    #[error(
        "the host of the URL is neither a name nor an address: write an IPv4 address as 192.0.2.1, an IPv6 address in brackets"
    )]
    Host,
    /// It has no port that is a number.
    #[error("the port of the URL is not a number between 1 and 65535")]
    Port,
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        if url.len() > LONGEST {
            return Err(TargetError::TooLong);
        }
        let uri: Uri = url.parse().map_err(|_| TargetError::Url)?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(TargetError::Scheme),
        };
        let authority = uri.authority().ok_or(TargetError::Url)?.as_str();
        if authority.contains('@') {
            return Err(TargetError::User);
        }
        let name = uri.host().ok_or(TargetError::Host)?;
        let port = match authority.strip_prefix(name) {
            Some("") => default_port(tls),
            Some(rest) => {
                let digits = rest.strip_prefix(':').ok_or(TargetError::Port)?;
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                let port = digits.parse().ok().filter(|port| *port > 0);
                port.filter(|_| is_number).ok_or(TargetError::Port)?
            }
            None => return Err(TargetError::Host),
        };
        let host = match Host::parse(name) {
            Host::Neither(_) => return Err(TargetError::Host),
            Host::Name(name) if name.is_empty() || name.split('.').any(str::is_empty) => {
                return Err(TargetError::Host);
            }
            host => host,
        };
        let path = match uri.path() {
            "" => "/",
            path => path,
        };
        Ok(Self {
            tls,
            host,
            port,
            path: path.to_owned(),
            query: uri
                .query()
                .map_or_else(String::new, |query| format!("?{query}")),
        })
    }

    /// The target that an answer of this one redirects to: absolute, or a path at the same server.
    ///
    /// # Errors
    /// [`TargetError`].
    pub(super) fn redirected(&self, location: &str) -> Result<Self, TargetError> {
        if location.starts_with('/') && !location.starts_with("//") {
            return Self::parse(&format!("{}{location}", self.origin()));
        }
        Self::parse(location)
    }

    /// Scheme, host and port: `https://api.example.com`.
    #[must_use]
    pub fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let host = self.host_text();
        if self.port == default_port(self.tls) {
            format!("{scheme}://{host}")
        } else {
            format!("{scheme}://{host}:{}", self.port)
        }
    }

    /// Path and query, as they are sent.
    pub(super) fn path_and_query(&self) -> String {
        format!("{}{}", self.path, self.query)
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// The host as rules have it.
    #[must_use]
    pub fn host_name(&self) -> String {
        self.host.to_string()
    }

    /// The host as URLs have it.
    fn host_text(&self) -> String {
        match &self.host {
            Host::Address(address) if address.is_ipv6() => format!("[{address}]"),
            host => host.to_string(),
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Whether it has the port of its scheme.
    pub(super) fn has_usual_port(&self) -> bool {
        self.port == default_port(self.tls)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether every server reads the path as it stands here: it has no `.` and `..`, no separator that is encoded, and no backslash.
    pub(super) fn has_plain_path(&self) -> bool {
        let mut path = Cow::Borrowed(self.path.as_str());
        for _ in 0..ENCODINGS {
            if !is_plain(&path) {
                return false;
            }
            let separators = path.matches('/').count();
            let Ok(decoded) = percent_decode_str(&path).decode_utf8() else {
                return false;
            };
            if decoded == path {
                return true;
            }
            if decoded.matches('/').count() != separators {
                return false;
            }
            path = Cow::Owned(decoded.into_owned());
        }
        false
    }
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// Whether a path has no segment that leads upwards. Some servers cut parameters, as in `..;a=b`, off a segment first.
fn is_plain(path: &str) -> bool {
    let name = |segment: &str| segment.split(';').next().unwrap_or_default().to_owned();
    let mut segments = path.split('/').map(name);
    let leads_upwards = segments.any(|segment| segment == "." || segment == "..");
    !leads_upwards
        && !path.contains(['\\', '\0'])
        && !path.bytes().any(|byte| byte.is_ascii_control())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_one_reading() {
        for (url, read) in [
            ("https://api.example.com", "https://api.example.com/"),
            (
                "https://API.Example.com.:443/v1?key=secret",
                "https://api.example.com/v1",
            ),
            (
                "http://api.example.com:8080/a%20b",
                "http://api.example.com:8080/a%20b",
            ),
            ("https://[::1]:444/", "https://[::1]:444/"),
            ("https://192.0.2.1/x#part", "https://192.0.2.1/x"),
        ] {
            assert_eq!(
                Target::parse(url).map(|target| target.to_string()),
                Ok(read.to_owned())
            );
        }
        for (url, error) in [
            ("ftp://example.com/", TargetError::Scheme),
            ("/v1", TargetError::Scheme),
            ("example.com", TargetError::Scheme),
            ("https://user@example.com/", TargetError::User),
            ("https://example.com@169.254.169.254/", TargetError::User),
            ("https://example.com%40evil.example/", TargetError::Url),
            ("https://127.1/", TargetError::Host),
            ("https://2130706433/", TargetError::Host),
            ("https://0x7f.1/", TargetError::Host),
            ("https://a..b/", TargetError::Host),
            ("https://example.com:/", TargetError::Port),
            ("https://example.com:0/", TargetError::Port),
            ("https://example.com:+443/", TargetError::Port),
            ("https://example.com:65536/", TargetError::Port),
            ("https:// example.com/", TargetError::Url),
            ("https://example.com/a b", TargetError::Url),
            ("https://example.com/\r\nHost: evil", TargetError::Url),
            ("https://ex\u{430}mple.com/", TargetError::Url),
            ("", TargetError::Url),
        ] {
            let refused = Target::parse(url).unwrap_err();
            // The parser of URIs refuses some ports itself.
            let is_expected =
                refused == error || (error == TargetError::Port && refused == TargetError::Url);
            assert!(is_expected, "{url:?}: {refused:?}");
        }
        let long = format!("https://example.com/{}", "a".repeat(LONGEST));
        assert_eq!(Target::parse(&long), Err(TargetError::TooLong));
    }

    #[test]
    fn a_redirect_names_another_url_or_a_path_at_the_same_server() {
        let from = Target::parse("https://a.example.com:8443/v1/x").unwrap();
        for (location, to) in [
            ("/v2?a=b", "https://a.example.com:8443/v2"),
            ("http://b.example.com/", "http://b.example.com/"),
        ] {
            assert_eq!(from.redirected(location).unwrap().to_string(), to);
        }
        for location in ["//evil.example/x", "v2", "", "javascript:alert(1)"] {
            assert!(from.redirected(location).is_err(), "{location}");
        }
    }

    #[test]
    fn a_path_is_plain_if_no_server_reads_another_one() {
        for (path, plain) in [
            ("/v1/zones/a%20b", true),
            ("/v1/%C3%A4", true),
            ("/v1/..", false),
            ("/v1/../admin", false),
            ("/v1/./x", false),
            ("/v1/..;x=y/admin", false),
            ("/v1/%2e%2e/admin", false),
            ("/v1/%252e%252e/admin", false),
            ("/v1/a%2Fb", false),
            ("/v1/a%5cb", false),
            ("/v1/a%00b", false),
            ("/v1/%25252525", false),
            ("/v1/...", true),
        ] {
            let target = Target::parse(&format!("https://example.com{path}")).unwrap();
            assert_eq!(target.has_plain_path(), plain, "{path}");
        }
    }
}
