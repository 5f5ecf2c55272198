//! The admin endpoints of a Manager. Entry point: [`AdminSpec`].

use crate::config::kinds::{Items, ManagerSpec, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Where state, probes and metrics are served, and to whom.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct AdminSpec {
    /// Address and port of all endpoints. Default: 127.0.0.1:8080.
    pub(crate) address: Option<String>,
    /// Another address and port, for the probes alone. Default: none.
    pub(crate) probe_address: Option<String>,
    /// Another address and port, for the metrics alone. Default: none.
    pub(crate) metrics_address: Option<String>,
    /// Tokens that callers of the API need: the cluster's (`TokenReview`) or a file's (`TokenFile`). Default: the cluster's in a pod.
    pub(crate) authentication: Option<Authentication>,
    /// What callers of the metrics need: nothing (`None`), or the same as callers of the API (`Token`). Default: None.
    pub(crate) metrics_authentication: MetricsAuthentication,
    /// Audiences of which a token has one at least, for `TokenReview`. Default: windlass.dev.
    pub(crate) audiences: Items<String, 0, 10>,
    /// Names, without a port, that `Host` of a request may have besides IP addresses and `localhost`. Default: none.
    pub(crate) allow_hosts: Items<String, 0, 100>,
}

/// How callers of the API prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum Authentication {
    /// By a token of the local cluster, which also says what its user may do.
    TokenReview,
    /// By the token in a file that only the process's user can read.
    TokenFile,
}

/// What callers of the metrics need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum MetricsAuthentication {
    /// Nothing.
    #[default]
    None,
    /// The same as callers of the API.
    Token,
}

impl AdminSpec {
    /// The audience of tokens if the document names none.
    pub(crate) const AUDIENCE: &'static str = "windlass.dev";

    /// Where all endpoints are served, the default filled in.
    pub(crate) fn address(&self) -> SocketAddr {
        parsed(self.address.as_deref()).unwrap_or(ManagerSpec::DEFAULT_ADMIN)
    }

    /// Where the probes alone are served.
    pub(crate) fn probe_address(&self) -> Option<SocketAddr> {
        parsed(self.probe_address.as_deref())
    }

    /// Where the metrics alone are served.
    pub(crate) fn metrics_address(&self) -> Option<SocketAddr> {
        parsed(self.metrics_address.as_deref())
    }

    /// The audiences of tokens, the default filled in.
    pub(crate) fn audiences(&self) -> Vec<String> {
        if self.audiences.is_empty() {
            vec![Self::AUDIENCE.to_owned()]
        } else {
            self.audiences.to_vec()
        }
    }

    /// Refuses what cannot be honoured.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        for (path, address) in [
            ("spec.admin.address", &self.address),
            ("spec.admin.probeAddress", &self.probe_address),
            ("spec.admin.metricsAddress", &self.metrics_address),
        ] {
            if let Some(address) = address
                && address.parse::<SocketAddr>().is_err()
            {
                let message = format!(
                    "{address:?} is not an address: write an IP and a port, for example 127.0.0.1:8080"
                );
                return Err(Refusal::new(path, message));
            }
        }
        let path = "spec.admin.audiences";
        if self.audiences.iter().any(String::is_empty) {
            return Err(Refusal::new(
                path,
                "an audience is empty: name it, or leave it out",
            ));
        }
        let path = "spec.admin.allowHosts";
        let is_name = |name: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            (1..=253).contains(&name.len()) && name.bytes().all(plain)
        };
        match self.allow_hosts.iter().find(|name| !is_name(name)) {
            None => Ok(()),
            Some(name) => {
                let message = format!(
                    "{name:?} is not a name of a host: write it without scheme, port and wildcards, for example windlass.example.com"
                );
                Err(Refusal::new(path, message))
            }
        }
    }
}

/// An address that has been checked.
fn parsed(address: Option<&str>) -> Option<SocketAddr> {
    address?.parse().ok()
}
