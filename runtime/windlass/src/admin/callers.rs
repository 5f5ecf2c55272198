//! Rejects requests that a web page makes a browser send. Entry point: [`check`].
//!
//! Probes, and usually metrics, are for every caller, so each page in a browser that reaches the address could request them. A page
//! of another site can send a form or a script's request, which has its `Origin`. Or the page's own name resolves to our address (DNS
//! rebinding), and then `Host` is that name. Rebinding cannot set `Host` to an IP address or to `localhost`, so these are accepted,
//! and so are the names that the configuration lists. Programs that send neither header are not browsers. A request through the proxy of an
//! API server has the `Host` and the `Origin` by which its caller knows that server, and a token in a header of ours: a page of another site
//! knows none, and a browser sends no such header for it. The console holds nothing, so that it is for everybody.

use super::Refused;
use super::access::Access;
use super::console;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Passes a request on, or rejects it. A probe is answered for every caller, but a rejected caller gets only its status.
pub(super) async fn check(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let configuration = access.app.configuration.load_full();
    let manager = configuration.manager();
    let names = manager.map_or(&[][..], |(_, spec)| &spec.admin.allow_hosts);
    // Only where the token is checked: a page can send the header with any other text.
    let path = request.uri().path();
    let is_api = path.starts_with("/api/");
    let is_through = is_api && access.comes_through_an_api_server(request.headers());
    let hosts = if is_through || console::is_page(path) {
        Hosts::Any
    } else {
        Hosts::Known(names)
    };
    let refused = refusal(request.method(), request.uri(), request.headers(), hosts);
    let Some(refused) = refused else {
        return next.run(request).await;
    };
    if !super::is_probe(request.uri().path()) {
        return refused.into_response();
    }
    next.run(request).await.status().into_response()
}

/// The hosts that a request may name.
#[derive(Debug, Clone, Copy)]
enum Hosts<'a> {
    /// Any, and of any page: its token will be checked, or there is nothing to know.
    Any,
    /// IP addresses, this machine, and these names of the configuration.
    Known(&'a [String]),
}

impl Hosts<'_> {
    fn allow(self, host: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Known(names) => is_known(host, names),
        }
    }
}

/// The reason to reject a request.
fn refusal(method: &Method, uri: &Uri, headers: &HeaderMap, hosts: Hosts<'_>) -> Option<Refused> {
    let asked = headers.get_all(header::HOST).iter();
    let asked = asked.map(HeaderValue::as_bytes);
    let absolute = uri
        .authority()
        .map(|authority| authority.as_str().as_bytes());
    let asked: Vec<&[u8]> = asked.chain(absolute).collect();
    if let Some(host) = asked.iter().find(|host| !hosts.allow(host)) {
        let host = String::from_utf8_lossy(host);
        let message = format!(
            "{host:?} is not a known name of this process: use its IP address, or add the name to spec.admin.allowHosts of the Manager"
        );
        return Some(Refused(StatusCode::FORBIDDEN, message));
    }
    let own = |origin: &HeaderValue| {
        let site = origin.as_bytes();
        let site = site
            .strip_prefix(b"http://")
            .or(site.strip_prefix(b"https://"));
        site.is_some_and(|site| asked.iter().any(|host| host.eq_ignore_ascii_case(site)))
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let stranger = origins.find(|origin| matches!(hosts, Hosts::Known(_)) && !own(origin));
    if let Some(origin) = stranger {
        let message = format!(
            "the request comes from a page of {origin:?}: pages of other sites are rejected"
        );
        return Some(Refused(StatusCode::FORBIDDEN, message));
    }
    if !method.is_safe() && !is_json(headers) {
        let message = "a request that changes something needs Content-Type: application/json";
        return Some(Refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            message.to_owned(),
        ));
    }
    None
}

/// Whether a host, with a port or without, is an IP address, this machine, or one of the names.
fn is_known(host: &[u8], names: &[String]) -> bool {
    let Ok(authority) = Authority::try_from(host) else {
        return false;
    };
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    if let Some(address) = host.strip_prefix('[') {
        return address.trim_end_matches(']').parse::<Ipv6Addr>().is_ok();
    }
    let host = host.trim_end_matches('.');
    let named = |name: &str| name.trim_end_matches('.').eq_ignore_ascii_case(host);
    host.parse::<IpAddr>().is_ok() || named("localhost") || names.iter().any(|name| named(name))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status with which a request to the API is rejected.
    fn refused(method: Method, uri: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let names = ["windlass.example".to_owned()];
        refused_by(method, uri, headers, Hosts::Known(&names))
    }

    fn refused_by(
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
        hosts: Hosts<'_>,
    ) -> Option<u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = header::HeaderName::try_from(*name).unwrap();
            map.append(name, value.parse().unwrap());
        }
        refusal(&method, &uri.parse().unwrap(), &map, hosts).map(|refused| refused.0.as_u16())
    }

    #[test]
    fn a_host_is_an_ip_address_this_machine_or_a_name_that_is_allowed() {
        for (host, known) in [
            ("127.0.0.1:8080", true),
            ("10.1.2.3", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("localhost:8080", true),
            ("LOCALHOST", true),
            ("Windlass.Example.:8080", true),
            ("evil.example:8080", false),
            ("windlass.example.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("evil.example@127.0.0.1", false),
            ("[evil.example]", false),
            ("", false),
            ("127.0.0.1:8080 evil", false),
        ] {
            assert_eq!(
                is_known(host.as_bytes(), &["windlass.example".to_owned()]),
                known,
                "{host}"
            );
        }
    }

    #[test]
    fn every_host_that_a_request_names_must_be_known() {
        let own = ("host", "127.0.0.1:8080");
        assert_eq!(refused(Method::GET, "/api/v1/keys", &[own]), None);
        assert_eq!(
            refused(Method::GET, "/api/v1/keys", &[]),
            None,
            "no browser"
        );
        let two = [own, ("host", "evil.example")];
        assert_eq!(refused(Method::GET, "/api/v1/keys", &two), Some(403));
        let absolute = "http://evil.example/api/v1/keys";
        assert_eq!(refused(Method::GET, absolute, &[own]), Some(403));
    }

    /// A request that changes something, and one that reads.
    const CHANGE: (Method, &str) = (Method::POST, "/api/v1/requeue");
    const READ: (Method, &str) = (Method::GET, "/api/v1/keys");

    #[test]
    fn pages_of_other_sites_are_refused() {
        let json = ("content-type", "application/json");
        let own = ("host", "127.0.0.1:8080");
        for (origin, status) in [
            ("http://127.0.0.1:8080", None),
            ("https://127.0.0.1:8080", None),
            ("http://127.0.0.1:3000", Some(403)),
            ("http://evil.example", Some(403)),
            ("null", Some(403)),
        ] {
            let headers = [own, json, ("origin", origin)];
            for (method, path) in [CHANGE, READ] {
                assert_eq!(refused(method, path, &headers), status, "{origin}");
            }
        }
    }

    #[test]
    fn through_an_api_server_any_host_is_known_and_so_is_the_page_that_was_loaded_through_it() {
        let json = ("content-type", "application/json");
        let host = ("host", "api.example.com:6443");
        let (method, path) = CHANGE;
        let refused = |more: &[(&str, &str)]| {
            let all: Vec<_> = [host].into_iter().chain(more.iter().copied()).collect();
            refused_by(method.clone(), path, &all, Hosts::Any)
        };
        assert_eq!(refused(&[json]), None);
        let origin = ("origin", "http://127.0.0.1:8001");
        assert_eq!(refused(&[json, origin]), None);
        assert_eq!(refused(&[]), Some(415));
    }

    #[test]
    fn what_a_browser_asks_before_a_page_of_another_site_may_send_our_header_is_refused() {
        let asks = [
            ("host", "127.0.0.1:8080"),
            ("origin", "http://evil.example"),
            ("access-control-request-headers", crate::admin::TOKEN_HEADER),
        ];
        assert_eq!(refused(Method::OPTIONS, CHANGE.1, &asks), Some(403));
    }

    #[test]
    fn what_changes_something_is_asked_for_in_json() {
        let own = ("host", "localhost:8080");
        for (kind, status) in [
            ("application/json", None),
            ("application/json; charset=utf-8", None),
            ("text/plain", Some(415)),
            ("application/x-www-form-urlencoded", Some(415)),
            ("text/plain; application/json", Some(415)),
        ] {
            let headers = [own, ("content-type", kind)];
            assert_eq!(refused(CHANGE.0, CHANGE.1, &headers), status, "{kind}");
            assert_eq!(refused(READ.0, READ.1, &headers), None, "{kind}");
        }
        assert_eq!(refused(CHANGE.0, CHANGE.1, &[own]), Some(415));
    }
}
