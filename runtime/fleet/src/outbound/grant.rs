//! What a reconciler may call, and what bounds that. Entry point: [`HttpGrant::check`].

use super::rule::HttpRule;
use super::target::Target;
use crate::grant::flow;
use crate::http::config::{AllowServers, ClusterConfig, ConfigError};
use crate::http::network::Network;
use crate::http::transport::{OutsideServer, Transports};
use http::Method;
use parking_lot::Mutex;
use serde_json::json;
use std::fmt;
use std::sync::Arc;

/// Servers whose connections a grant keeps, the last used ones.
const SERVERS: usize = 8;

/// Rules of a reconciler, within bounds. Without rules it allows nothing.
#[derive(Default)]
pub struct HttpGrant {
    rules: Arc<[HttpRule]>,
    /// Each must allow a call as well.
    bounds: Vec<Arc<[HttpRule]>>,
    /// The last used at the end.
    servers: Mutex<Vec<Kept>>,
}

/// A server, and what its connections were allowed for.
struct Kept {
    origin: String,
    authorities: Option<Vec<Vec<u8>>>,
    networks: Vec<Network>,
    server: OutsideServer,
}

/// A call that no rule allows. It tells the rule that would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpDenied {
    call: String,
    rule: String,
    by_bound: bool,
    /// Whether a rule would allow the path, if it could be read in one way only.
    odd_path: bool,
}

/// The rule of a call, and the networks without public addresses that it may connect to.
pub(super) struct Allowed<'a> {
    pub(super) rule: &'a HttpRule,
    pub(super) networks: Vec<Network>,
}

impl HttpGrant {
    /// A grant of these rules. `bound`: `None` bounds nothing; an empty list bounds it to nothing.
    #[must_use]
    pub fn new(rules: Vec<HttpRule>, bound: Option<Vec<HttpRule>>) -> Self {
        Self {
            rules: rules.into(),
            bounds: bound.into_iter().map(Arc::from).collect(),
            servers: Mutex::default(),
        }
    }

    /// What both allow. Headers, authorities and redirects are those of this one.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut bounds = self.bounds.clone();
        for bound in [&other.rules].into_iter().chain(&other.bounds) {
            let is_known = bounds.contains(bound) || self.rules == *bound;
            if !is_known {
                bounds.push(bound.clone());
            }
        }
        Self {
            rules: self.rules.clone(),
            bounds,
            servers: Mutex::default(),
        }
    }

    /// Whether it has no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The values of the headers that its rules add.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().flat_map(HttpRule::secrets)
    }

    /// Whether a rule, and each bound, allows a call. Nothing is resolved.
    ///
    /// # Errors
    /// [`HttpDenied`].
    pub fn check(&self, method: &Method, target: &Target) -> Result<(), HttpDenied> {
        self.allowed(method, target).map(drop)
    }

    pub(super) fn allowed(
        &self,
        method: &Method,
        target: &Target,
    ) -> Result<Allowed<'_>, HttpDenied> {
        let allows = |rule: &&HttpRule| rule.allows(method, target);
        let rule = self.rules.iter().find(allows);
        let rule = rule.ok_or_else(|| HttpDenied::new(method, target, false))?;
        let mut networks = rule.addresses().to_vec();
        for bound in &self.bounds {
            let bounding = bound.iter().find(allows);
            let bounding = bounding.ok_or_else(|| HttpDenied::new(method, target, true))?;
            networks = Network::common(&networks, bounding.addresses());
        }
        Ok(Allowed { rule, networks })
    }

    /// The server of a call, with the connections that it has from earlier calls.
    pub(super) fn server(
        &self,
        transports: &Transports,
        target: &Target,
        allowed: &Allowed<'_>,
    ) -> Result<OutsideServer, ConfigError> {
        let origin = target.origin();
        let authorities = allowed.rule.authorities();
        let mut servers = self.servers.lock();
        let found = servers.iter().position(|kept| {
            kept.origin == origin
                && kept.authorities.as_ref() == authorities
                && kept.networks == allowed.networks
        });
        let kept = match found {
            Some(at) => servers.remove(at),
            None => {
                let apart = transports.server_addresses().clone();
                let servers = AllowServers::public_and(&allowed.networks, apart);
                let url = origin
                    .parse()
                    .map_err(|_| ConfigError::Url(origin.clone()))?;
                let config = ClusterConfig::of_outside(url, authorities.cloned(), servers)?;
                Kept {
                    server: transports.outside(&config),
                    origin,
                    authorities: authorities.cloned(),
                    networks: allowed.networks.clone(),
                }
            }
        };
        let server = kept.server.clone();
        if servers.len() >= SERVERS {
            servers.remove(0);
        }
        servers.push(kept);
        Ok(server)
    }
}

impl PartialEq for HttpGrant {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules && self.bounds == other.bounds
    }
}

impl fmt::Debug for HttpGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpGrant")
            .field("rules", &self.rules)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

impl HttpDenied {
    fn new(method: &Method, target: &Target, by_bound: bool) -> Self {
        let mut rule = json!({"hosts": [target.host_name()], "methods": [method.as_str()]});
        if !target.has_usual_port() {
            rule["ports"] = json!([target.port()]);
        }
        if !target.is_tls() {
            rule["plain"] = json!(true);
        }
        if target.has_plain_path() && target.path() != "/" {
            rule["paths"] = json!([target.path()]);
        }
        Self {
            call: format!("{method} {target}"),
            rule: flow(&rule),
            by_bound,
            odd_path: !target.has_plain_path(),
        }
    }

    /// The rule that would allow it, as YAML on one line.
    #[must_use]
    pub fn missing_rule(&self) -> &str {
        &self.rule
    }

    /// Whether the bound does not allow it, though a rule does.
    #[must_use]
    pub fn is_by_bound(&self) -> bool {
        self.by_bound
    }
}

impl fmt::Display for HttpDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, rule) = (&self.call, &self.rule);
        if self.by_bound {
            write!(
                f,
                "the Tenant's spec.http does not allow {call}: its operator may add {rule}"
            )?;
        } else {
            write!(f, "no rule of spec.http allows {call}: add {rule}")?;
        }
        if self.odd_path {
            f.write_str(
                "; a rule with paths never matches a path with .. or an encoded separator",
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for HttpDenied {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::HttpRuleText;

    fn rule(host: &str, methods: &[&str], addresses: &[&str]) -> HttpRule {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        HttpRule::new(HttpRuleText {
            hosts: vec![host.to_owned()],
            methods: texts(methods),
            addresses: texts(addresses),
            ..HttpRuleText::default()
        })
        .unwrap()
    }

    fn check(grant: &HttpGrant, method: Method, url: &str) -> Result<(), String> {
        let target = Target::parse(url).unwrap();
        let checked = grant.check(&method, &target);
        checked.map_err(|denied| denied.to_string())
    }

    const URL: &str = "https://api.example.com/v1/a";

    #[test]
    fn a_denial_names_the_rule_that_would_allow_the_call() {
        let denied = check(
            &HttpGrant::default(),
            Method::POST,
            "http://api.example.com:8080/v1/a",
        );
        assert_eq!(
            denied.unwrap_err(),
            "no rule of spec.http allows POST http://api.example.com:8080/v1/a: \
             add {hosts: [api.example.com], methods: [POST], paths: [\"/v1/a\"], plain: true, ports: [8080]}"
        );
        let denied = check(
            &HttpGrant::default(),
            Method::GET,
            "https://api.example.com/a/../b?key=s3cret",
        );
        let denied = denied.unwrap_err();
        assert!(denied.contains("never matches a path with .."), "{denied}");
        assert!(!denied.contains("s3cret"), "{denied}");
    }

    #[test]
    fn a_tenant_bounds_its_reconcilers() {
        let own = || {
            vec![rule(
                "*.example.com",
                &["GET", "POST"],
                &["10.0.0.0/8", "192.168.0.0/16"],
            )]
        };
        let free = HttpGrant::new(own(), None);
        assert_eq!(check(&free, Method::POST, URL), Ok(()));
        let nothing = HttpGrant::new(own(), Some(Vec::new()));
        assert!(
            check(&nothing, Method::POST, URL)
                .unwrap_err()
                .contains("the Tenant's spec.http")
        );
        let bound = HttpGrant::new(
            own(),
            Some(vec![rule("api.example.com", &["GET"], &["10.1.0.0/16"])]),
        );
        assert_eq!(check(&bound, Method::GET, URL), Ok(()));
        assert!(check(&bound, Method::POST, URL).is_err());
        assert!(check(&bound, Method::GET, "https://other.example.com/").is_err());
        let target = Target::parse(URL).unwrap();
        let allowed = bound.allowed(&Method::GET, &target).unwrap();
        assert_eq!(allowed.networks, [Network::parse("10.1.0.0/16").unwrap()]);
    }

    #[test]
    fn both_of_two_grants_allow_what_each_of_them_does() {
        let one = HttpGrant::new(vec![rule("*.example.com", &["GET"], &[])], None);
        let other = HttpGrant::new(vec![rule("api.example.com", &[], &[])], None);
        let both = one.and(&other);
        assert_eq!(check(&both, Method::GET, URL), Ok(()));
        assert!(check(&both, Method::GET, "https://other.example.com/").is_err());
        assert_eq!(both.and(&other), both);
        assert_eq!(one.and(&one), one);
    }
}
