//! One rule of `spec.http`. Entry point: [`HttpRule::new`].

use super::target::Target;
use crate::http::config::{Host, certificates};
use crate::http::network::Network;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::fmt;

/// Headers that belong to the connection, to the transport, or to a proxy: neither rules nor callers set them.
const KEPT: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

/// The texts of a rule, as an operator writes them. Empty lists mean their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpRuleText {
    /// Names, `*.NAME` for all below one, and addresses. At least one.
    pub hosts: Vec<String>,
    /// Default: the port of the scheme.
    pub ports: Vec<u16>,
    /// Default: GET and HEAD.
    pub methods: Vec<String>,
    /// Paths with all below them. Default: every path.
    pub paths: Vec<String>,
    /// Whether `http` may be used too.
    pub plain: bool,
    /// Addresses and networks that are not public, and may be connected to.
    pub addresses: Vec<String>,
    /// How many redirects of a read are followed. Default: none.
    pub redirects: u32,
    /// Headers that are added: names and values.
    pub headers: Vec<(String, String)>,
    /// Certificates in PEM of the authorities to trust. Default: those of the system.
    pub authority: Option<String>,
}

/// A rule.
#[derive(Clone, PartialEq)]
pub struct HttpRule {
    text: HttpRuleText,
    hosts: Vec<HostPattern>,
    methods: Vec<Method>,
    addresses: Vec<Network>,
    /// Marked as sensitive.
    headers: HeaderMap,
    authorities: Option<Vec<Vec<u8>>>,
}

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct HttpRuleError {
    /// Where in the rule, for example `hosts[1]`.
    pub field: String,
    problem: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    Exactly(Host),
    /// With a dot at its beginning.
    Below(String),
}

impl HttpRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// [`HttpRuleError`]. It never has the value of a header.
    pub fn new(text: HttpRuleText) -> Result<Self, HttpRuleError> {
        if text.hosts.is_empty() {
            return Err(wrong(
                "hosts",
                "the list is empty and allows nothing: name a host",
            ));
        }
        let hosts = each("hosts", &text.hosts, |host| HostPattern::parse(host))?;
        let methods = each("methods", &text.methods, |method| {
            let known = Method::from_bytes(method.as_bytes()).ok();
            let upper = |method: &Method| {
                method
                    .as_str()
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase())
            };
            let usable = |method: &Method| *method != Method::CONNECT && *method != Method::TRACE;
            known
                .filter(upper)
                .filter(usable)
                .ok_or("is not a method: write GET, POST, PUT, PATCH or DELETE")
        })?;
        each("paths", &text.paths, |path| {
            let target = Target::parse(&format!("https://host{path}"));
            let is_one = path.starts_with('/') && !path.contains(['?', '#']);
            let is_plain =
                target.is_ok_and(|target| target.has_plain_path() && target.path() == path);
            (is_one && is_plain)
                .then_some(())
                .ok_or("is not a path: write /v1, without a query and without ..")
        })?;
        each("ports", &text.ports, |port| {
            (*port > 0).then_some(()).ok_or("is not a port")
        })?;
        let addresses = each("addresses", &text.addresses, |address| {
            let one = address.parse().ok().map(Network::of);
            one.or_else(|| Network::parse(address))
                .ok_or("is not an address and not a network: write 10.0.0.7 or 10.0.0.0/8")
        })?;
        let authorities = text.authority.as_ref().map(|pem| {
            let found = certificates(pem.as_bytes())
                .ok()
                .filter(|found| !found.is_empty());
            found.ok_or_else(|| wrong("authority", "it holds no certificate in PEM"))
        });
        let authorities = authorities.transpose()?;
        Ok(Self {
            headers: headers(&text.headers)?,
            hosts,
            methods: if methods.is_empty() {
                vec![Method::GET, Method::HEAD]
            } else {
                methods
            },
            addresses,
            authorities,
            text,
        })
    }

    /// Whether it is about a server.
    pub(super) fn is_about(&self, target: &Target) -> bool {
        let ports = &self.text.ports;
        let has_port = if ports.is_empty() {
            target.has_usual_port()
        } else {
            ports.contains(&target.port())
        };
        has_port
            && (target.is_tls() || self.text.plain)
            && self.hosts.iter().any(|host| host.matches(target.host()))
    }

    /// Whether it allows a call.
    pub(super) fn allows(&self, method: &Method, target: &Target) -> bool {
        self.is_about(target) && self.methods.contains(method) && self.allows_path(target)
    }

    fn allows_path(&self, target: &Target) -> bool {
        let below = |path: &String| {
            let rest = target.path().strip_prefix(path.as_str());
            rest.is_some_and(|rest| rest.is_empty() || path.ends_with('/') || rest.starts_with('/'))
        };
        let paths = &self.text.paths;
        paths.is_empty() || (target.has_plain_path() && paths.iter().any(below))
    }

    pub(super) fn addresses(&self) -> &[Network] {
        &self.addresses
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(super) fn authorities(&self) -> Option<&Vec<Vec<u8>>> {
        self.authorities.as_ref()
    }

    pub(super) fn redirects(&self) -> u32 {
        self.text.redirects
    }

    /// The values of its headers.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.text.headers.iter().map(|(_, value)| value.as_str())
    }
}

/// Without the values of its headers.
impl fmt::Debug for HttpRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        f.debug_struct("HttpRule")
            .field("hosts", &text.hosts)
            .field("methods", &text.methods)
            .field("paths", &text.paths)
            .finish_non_exhaustive()
    }
}

/// Whether a caller may set a header.
pub(super) fn may_be_set(name: &HeaderName) -> bool {
    !is_of_connection(name.as_str())
}

/// Whether a header belongs to the connection, the transport or a proxy, so that callers do not set it. Its name is in lower case.
#[must_use]
pub fn is_of_connection(name: &str) -> bool {
    KEPT.contains(&name)
}

fn headers(texts: &[(String, String)]) -> Result<HeaderMap, HttpRuleError> {
    let mut headers = HeaderMap::new();
    for (index, (name, value)) in texts.iter().enumerate() {
        let field = format!("headers[{index}]");
        let known = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .filter(may_be_set);
        let Some(name) = known else {
            let problem = format!("{name:?} is not a header that can be set");
            return Err(wrong(&format!("{field}.name"), &problem));
        };
        let Ok(mut value) = HeaderValue::from_str(value) else {
            return Err(wrong(
                &field,
                "the value has characters that no header can have, such as the end of a line",
            ));
        };
        value.set_sensitive(true);
        if headers.insert(name, value).is_some() {
            return Err(wrong(
                &format!("{field}.name"),
                "the rule has this header twice",
            ));
        }
    }
    Ok(headers)
}

fn wrong(field: &str, problem: &str) -> HttpRuleError {
    HttpRuleError {
        field: field.to_owned(),
        problem: problem.to_owned(),
    }
}

/// Reads each text of a list.
fn each<T: fmt::Debug, U>(
    field: &str,
    texts: &[T],
    read: impl Fn(&T) -> Result<U, &'static str>,
) -> Result<Vec<U>, HttpRuleError> {
    let texts = texts.iter().enumerate();
    let read = texts.map(|(index, text)| {
        read(text)
            .map_err(|problem| wrong(&format!("{field}[{index}]"), &format!("{text:?} {problem}")))
    });
    read.collect()
}

impl HostPattern {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let problem = "is not a host: write api.example.com, *.example.com or an address, without scheme and port";
        let below = text.strip_prefix("*.");
        let is_whole =
            |name: &str| !name.is_empty() && name.split('.').all(|label| !label.is_empty());
        match (Host::parse(below.unwrap_or(text)), below) {
            (Host::Name(name), Some(_)) if is_whole(&name) => Ok(Self::Below(format!(".{name}"))),
            (Host::Name(name), None) if is_whole(&name) => Ok(Self::Exactly(Host::Name(name))),
            (Host::Address(address), None) => {
                Ok(Self::Exactly(Host::Address(address.to_canonical())))
            }
            _ => Err(problem),
        }
    }

    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Below(suffix), Host::Name(name)) => name.ends_with(suffix.as_str()),
            (Self::Exactly(Host::Address(one)), Host::Address(other)) => {
                *one == other.to_canonical()
            }
            (Self::Exactly(one), other) => one == other,
            (Self::Below(_), _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    fn rule(hosts: &[&str], methods: &[&str], paths: &[&str]) -> HttpRule {
        HttpRule::new(HttpRuleText {
            hosts: texts(hosts),
            methods: texts(methods),
            paths: texts(paths),
            ..HttpRuleText::default()
        })
        .unwrap()
    }

    fn allows(rule: &HttpRule, method: &str, url: &str) -> bool {
        rule.allows(&method.parse().unwrap(), &Target::parse(url).unwrap())
    }

    #[test]
    fn a_rule_allows_its_hosts_ports_methods_and_paths() {
        let rule = rule(
            &["api.example.com", "*.dns.example.com", "192.0.2.1"],
            &["GET", "POST"],
            &["/v1", "/files/"],
        );
        for (method, url, allowed) in [
            ("GET", "https://api.example.com/v1", true),
            ("POST", "https://API.example.com./v1/zones?x=/../y", true),
            ("GET", "https://a.b.dns.example.com/files/x", true),
            ("GET", "https://[::ffff:192.0.2.1]/v1", true),
            ("DELETE", "https://api.example.com/v1", false),
            ("GET", "http://api.example.com/v1", false),
            ("GET", "https://api.example.com:8443/v1", false),
            ("GET", "https://dns.example.com/v1", false),
            ("GET", "https://evildns.example.com/v1", false),
            ("GET", "https://api.example.com.evil.example/v1", false),
            ("GET", "https://api.example.com/v10", false),
            ("GET", "https://api.example.com/files", false),
            ("GET", "https://api.example.com/v1/../admin", false),
            ("GET", "https://api.example.com/v1/%2e%2e/admin", false),
            ("GET", "https://api.example.com/", false),
        ] {
            assert_eq!(allows(&rule, method, url), allowed, "{method} {url}");
        }
    }

    #[test]
    fn a_rule_without_paths_methods_and_ports_allows_reads_of_every_path_over_https() {
        let rule = rule(&["api.example.com"], &[], &[]);
        assert!(allows(&rule, "GET", "https://api.example.com/a%2Fb"));
        assert!(allows(&rule, "HEAD", "https://api.example.com/"));
        assert!(!allows(&rule, "POST", "https://api.example.com/"));
        let plain = HttpRule::new(HttpRuleText {
            hosts: texts(&["api.example.com"]),
            ports: vec![8080],
            plain: true,
            ..HttpRuleText::default()
        });
        let plain = plain.unwrap();
        assert!(allows(&plain, "GET", "http://api.example.com:8080/"));
        assert!(!allows(&plain, "GET", "http://api.example.com/"));
    }

    #[test]
    fn what_is_no_rule_is_refused_by_its_field() {
        let of = |change: &dyn Fn(&mut HttpRuleText)| {
            let mut text = HttpRuleText {
                hosts: texts(&["api.example.com"]),
                ..HttpRuleText::default()
            };
            change(&mut text);
            HttpRule::new(text).map(|_| ()).map_err(|error| error.field)
        };
        assert_eq!(of(&|_| {}), Ok(()));
        type Change = dyn Fn(&mut HttpRuleText);
        let refused: [(&str, &Change); 15] = [
            ("hosts", &|text| text.hosts.clear()),
            ("hosts[1]", &|text| text.hosts.push("*".into())),
            ("hosts[1]", &|text| text.hosts.push("https://a".into())),
            ("hosts[1]", &|text| text.hosts.push("a:443".into())),
            ("hosts[1]", &|text| text.hosts.push("*.1.2.3.4".into())),
            ("hosts[1]", &|text| text.hosts.push("a.*.com".into())),
            ("methods[0]", &|text| text.methods.push("get".into())),
            ("methods[0]", &|text| text.methods.push("CONNECT".into())),
            ("paths[0]", &|text| text.paths.push("v1".into())),
            ("paths[0]", &|text| text.paths.push("/v1/..".into())),
            ("paths[0]", &|text| text.paths.push("/v1?x".into())),
            ("ports[0]", &|text| text.ports.push(0)),
            ("addresses[0]", &|text| text.addresses.push("10.0.0".into())),
            ("headers[0].name", &|text| {
                text.headers.push(("Host".into(), "x".into()))
            }),
            ("headers[0]", &|text| {
                text.headers.push(("X-Key".into(), "a\r\nb".into()))
            }),
        ];
        for (field, change) in refused {
            assert_eq!(of(change), Err(field.to_owned()));
        }
        assert_eq!(
            of(&|text| text.authority = Some("x".into())),
            Err("authority".to_owned())
        );
    }

    #[test]
    fn the_values_of_headers_are_never_printed() {
        let rule = HttpRule::new(HttpRuleText {
            hosts: texts(&["api.example.com"]),
            headers: vec![("Authorization".into(), "Bearer s3cret".into())],
            ..HttpRuleText::default()
        });
        let rule = rule.unwrap();
        assert!(!format!("{rule:?} {:?}", rule.headers()).contains("s3cret"));
    }
}
