//! Rules for servers that are no API servers. Entry point: [`HttpRuleSpec`].

use crate::config::kinds::{Items, Origin, Refusal, Within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::outbound::{HttpRule, HttpRuleError, HttpRuleText};

/// Allows calls of servers that are no API servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct HttpRuleSpec {
    /// Names of hosts, `*.example.com` for all below one, and addresses.
    pub(crate) hosts: Items<String, 1, 64>,
    /// Their ports. Default: that of the scheme.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) ports: Items<u16, 0, 64>,
    /// GET, HEAD, POST, PUT, PATCH, DELETE, …. Default: GET and HEAD.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) methods: Items<String, 0, 16>,
    /// Paths, each with all below it. Default: every path.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) paths: Items<String, 0, 64>,
    /// Whether `http` may be used too, which everybody on the way can read. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) plain: bool,
    /// Addresses and networks that are not public, such as 10.0.0.0/8, and may be connected to. Default: none.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) addresses: Items<String, 0, 64>,
    /// How many redirects of a GET or HEAD are followed, each of which a rule must allow. Only for a Reconciler. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) redirects: Option<Within<u32, 0, 10>>,
    /// Headers that are added to each call, and that the guest never sees. Only for a Reconciler. Default: none.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) headers: Items<HttpHeaderSpec, 0, 16>,
    /// Certificates in PEM of the authorities to trust. Only for a Reconciler. Default: those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub(crate) authority: Option<String>,
}

/// A header with exactly one of `value` and `secret`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct HttpHeaderSpec {
    /// Its name, such as Authorization.
    pub(crate) name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
    /// The name of a Secret of the Reconciler's namespace. Only in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    /// The key of the Secret's data. The end of a line after the value is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// What stands before the Secret's value, such as `Bearer ` with its space. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<String>,
}

/// Without its value, which may be a secret.
impl std::fmt::Debug for HttpHeaderSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpHeaderSpec")
            .field("name", &self.name)
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}

/// Rules in the engine's words.
///
/// # Errors
/// When one cannot be used, which a checked document excludes, but for a Secret with a value that no header can have.
pub(crate) fn http_rules(rules: &[HttpRuleSpec]) -> Result<Vec<HttpRule>, HttpRuleError> {
    rules.iter().map(HttpRuleSpec::to_rule).collect()
}

/// Refuses rules that cannot be used. `bounds`: they are a Tenant's.
pub(super) fn check(rules: &[HttpRuleSpec], origin: Origin, bounds: bool) -> Result<(), Refusal> {
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("spec.http[{index}]");
        if bounds
            && (!rule.headers.is_empty() || rule.redirects.is_some() || rule.authority.is_some())
        {
            let message = "headers, redirects and authority are a Reconciler's: leave them out, a Tenant says only what may be called";
            return Err(Refusal::new(path, message));
        }
        for (index, header) in rule.headers.iter().enumerate() {
            header.check(&format!("{path}.headers[{index}]"), origin)?;
        }
        let checked = rule.to_rule();
        checked
            .map_err(|error| Refusal::new(format!("{path}.{}", error.field), error.to_string()))?;
    }
    Ok(())
}

impl HttpRuleSpec {
    /// A header without a value, which is a Secret's and is not read yet, has an empty one.
    fn to_rule(&self) -> Result<HttpRule, HttpRuleError> {
        let value = |header: &HttpHeaderSpec| header.value.clone().unwrap_or_default();
        let headers = self.headers.iter();
        HttpRule::new(HttpRuleText {
            hosts: self.hosts.to_vec(),
            ports: self.ports.to_vec(),
            methods: self.methods.to_vec(),
            paths: self.paths.to_vec(),
            plain: self.plain,
            addresses: self.addresses.to_vec(),
            redirects: self.redirects.map_or(0, Within::get),
            headers: headers
                .map(|header| (header.name.clone(), value(header)))
                .collect(),
            authority: self.authority.clone(),
        })
    }
}

impl HttpHeaderSpec {
    fn check(&self, path: &str, origin: Origin) -> Result<(), Refusal> {
        let problem = match (&self.value, &self.secret, &self.key) {
            (Some(_), None, None) if self.prefix.is_none() => return Ok(()),
            (Some(_), None, None) => "prefix is for the value of a Secret: write it into value",
            (None, Some(_), Some(_)) if origin == Origin::File => {
                "a Secret is for Reconcilers in a cluster: write the value"
            }
            (None, Some(secret), Some(key)) if [secret, key].iter().all(|name| is_name(name)) => {
                return Ok(());
            }
            (None, Some(_), Some(_)) => {
                "secret and key are names: they are not empty, and have no /"
            }
            _ => "give exactly one of value, and secret with key",
        };
        Err(Refusal::new(path, problem))
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}
