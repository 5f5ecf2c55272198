//! Calls of guests to servers that are no API servers, in a plan. Entry point: [`PlanDoor`].

use windlass_fleet::api::{ApiCode, ApiError};
use windlass_fleet::outbound::{HttpRequest, Target};
use windlass_sandbox::{Door, Fate, HostCall, HttpFate};

/// Lets every call of copies pass, and of the others only reads of hosts that somebody has named.
pub(super) struct PlanDoor {
    hosts: Vec<String>,
}

impl PlanDoor {
    /// `hosts`: their names.
    pub(super) fn new(hosts: &[String]) -> Self {
        let hosts = hosts.iter().map(|host| host.to_lowercase());
        Self {
            hosts: hosts.collect(),
        }
    }
}

impl Door for PlanDoor {
    fn decide(&self, _: &HostCall<'_>) -> Fate {
        Fate::Pass
    }

    fn outside(&self, request: &HttpRequest) -> HttpFate {
        let reads = matches!(request.method.as_str(), "GET" | "HEAD");
        let host = Target::parse(&request.url).map(|target| target.host_name());
        let host = host.unwrap_or_default();
        if reads && self.hosts.contains(&host) {
            return HttpFate::Sent;
        }
        let remedy = if reads {
            format!("--allow-http {host} lets reads of it through")
        } else {
            "only a GET or HEAD can be let through, by --allow-http".to_owned()
        };
        let message = format!(
            "a plan calls no server, so {} {host} is not sent: {remedy}",
            request.method
        );
        HttpFate::Ended(Err(ApiError::host(ApiCode::Unavailable, message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reads_of_hosts_that_are_named_are_sent() {
        let door = PlanDoor::new(&["API.example.com".to_owned()]);
        let fate = |method: &str, url: &str| {
            door.outside(&HttpRequest {
                method: method.to_owned(),
                url: url.to_owned(),
                ..HttpRequest::default()
            })
        };
        assert!(matches!(
            fate("GET", "https://api.example.com/a"),
            HttpFate::Sent
        ));
        for (method, url) in [
            ("POST", "https://api.example.com/a"),
            ("GET", "https://b.example.com/a"),
            ("GET", "nonsense"),
        ] {
            assert!(
                matches!(fate(method, url), HttpFate::Ended(Err(_))),
                "{method} {url}"
            );
        }
    }
}
