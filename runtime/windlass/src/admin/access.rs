//! Who may call the API. Entry point: [`check`].
//!
//! A caller proves who it is by a token: in `Authorization: Bearer`, or in the header [`TOKEN_HEADER`] if it calls through the proxy of an
//! API server, which removes `Authorization`. The Manager says which tokens count:
//!
//! * `token_file`: the one in a file that only the process's user can read. Its holder may do everything.
//! * `reviews`: those that the local cluster knows; it also says what their users may do. `cache` keeps its answers for seconds.

mod cache;
mod reviews;
pub(crate) mod token_file;

use super::Refused;
use crate::app::App;
use crate::config::kinds::{AdminSpec, Authentication, MetricsAuthentication};
use crate::config::rbac::nonresource_url;
use arc_swap::ArcSwap;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use reviews::{Question, Reviews};
use std::net::SocketAddr;
use std::sync::Arc;
use token_file::TokenFile;

/// The header of a token beside `Authorization`.
pub(crate) const TOKEN_HEADER: &str = "x-windlass-token";

/// A caller that may make its request.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// The name that the local cluster gives it, or `local` for the holder of the token file.
    pub(super) name: Arc<str>,
}

/// Who may call the API now.
pub(super) struct Access {
    pub(super) app: Arc<App>,
    wanted: Mutex<Wanted>,
    way: ArcSwap<Way>,
    reviews: Reviews,
}

struct Wanted {
    authentication: Authentication,
    /// Where the API is served; `None`: nowhere yet.
    address: Option<SocketAddr>,
}

/// How tokens are checked.
enum Way {
    File(TokenFile),
    Review,
    /// Not at all, for this reason: every call is refused.
    Closed(String),
}

impl Access {
    /// Refuses everything until [`Access::serve_at`].
    pub(super) fn new(app: Arc<App>, authentication: Authentication) -> Arc<Self> {
        let closed = Way::Closed("it does not serve yet".to_owned());
        Arc::new(Self {
            app,
            wanted: Mutex::new(Wanted {
                authentication,
                address: None,
            }),
            way: ArcSwap::from_pointee(closed),
            reviews: Reviews::default(),
        })
    }

    /// Serves the API at an address. A token file for that address is written at once.
    pub(super) fn serve_at(&self, address: SocketAddr) {
        let mut wanted = self.wanted.lock();
        let moved = wanted.address != Some(address);
        wanted.address = Some(address);
        self.apply(&wanted, moved);
    }

    /// Sets how callers prove who they are. A file that could not be written is tried again.
    ///
    /// # Errors
    /// Why every call is refused.
    pub(super) fn follow(&self, authentication: Authentication) -> Result<(), String> {
        let mut wanted = self.wanted.lock();
        let changed = wanted.authentication != authentication;
        wanted.authentication = authentication;
        self.apply(&wanted, changed);
        match &**self.way.load() {
            Way::Closed(reason) => Err(format!("the admin API refuses every call: {reason}")),
            Way::File(_) | Way::Review => Ok(()),
        }
    }

    fn apply(&self, wanted: &Wanted, changed: bool) {
        let Some(address) = wanted.address else {
            return;
        };
        if !changed && !matches!(&**self.way.load(), Way::Closed(_)) {
            return;
        }
        let way = match wanted.authentication {
            Authentication::TokenReview => Way::Review,
            Authentication::TokenFile if !address.ip().is_loopback() => {
                Way::Closed(format!("{address} is open to other machines"))
            }
            Authentication::TokenFile => match TokenFile::write(address) {
                Ok(file) => {
                    tracing::info!(path = %file.path().display(), "callers of the API need the token in this file");
                    Way::File(file)
                }
                Err(error) => Way::Closed(error.to_string()),
            },
        };
        if let Way::Closed(reason) = &way {
            tracing::debug!(reason, "the admin API refuses every call");
        }
        self.way.store(Arc::new(way));
    }

    /// Refuses everything from now on, and removes the token file.
    pub(super) fn close(&self) {
        let closed = Way::Closed("the process ends".to_owned());
        self.way.store(Arc::new(closed));
    }

    /// Whether a request says that it comes through an API server, and will be believed only if it has a token. Such a request has the
    /// `Host` by which its caller knows that server.
    pub(super) fn comes_through_an_api_server(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(TOKEN_HEADER) && matches!(&**self.way.load(), Way::Review)
    }

    async fn caller(&self, request: Asked<'_>) -> Result<Caller, Refused> {
        let way = self.way.load_full();
        match &*way {
            Way::Closed(reason) => {
                let message = format!("the admin API refuses every call: {reason}");
                Err(Refused(StatusCode::SERVICE_UNAVAILABLE, message))
            }
            Way::File(file) => match request.token {
                Some(token) if file.is(token) => Ok(Caller {
                    name: "local".into(),
                }),
                _ => {
                    let path = file.path().display();
                    let message = format!(
                        "a token is needed: the one in {path}, which only the user of the process can read. Call as that user, or give --token FILE"
                    );
                    Err(Refused(StatusCode::UNAUTHORIZED, message))
                }
            },
            Way::Review => {
                let spec = self.spec();
                let question = Question {
                    verb: request.verb,
                    path: nonresource_url(request.path),
                };
                let (app, audiences) = (&self.app, spec.audiences());
                self.reviews
                    .caller(app, request.token, &audiences, question)
                    .await
            }
        }
    }

    fn spec(&self) -> AdminSpec {
        let configuration = self.app.configuration.load();
        let manager = configuration.manager();
        manager.map_or_else(AdminSpec::default, |(_, spec)| spec.admin.clone())
    }
}

/// What matters of a request here.
struct Asked<'a> {
    token: Option<&'a str>,
    verb: &'static str,
    path: &'a str,
}

/// Passes a request on with its [`Caller`], or rejects it.
pub(super) async fn check(
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Response {
    let asked = Asked {
        token: token(request.headers()),
        verb: verb(request.method()),
        path: request.uri().path(),
    };
    match access.caller(asked).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}

/// As [`check`], for the metrics: they are open unless the Manager says otherwise.
pub(super) async fn check_metrics(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    match access.spec().metrics_authentication {
        MetricsAuthentication::None => next.run(request).await,
        MetricsAuthentication::Token => check(State(access), request, next).await,
    }
}

/// The token of a request.
fn token(headers: &HeaderMap) -> Option<&str> {
    if let Some(own) = headers.get(TOKEN_HEADER) {
        return own.to_str().ok().filter(|token| !token.is_empty());
    }
    let bearer = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = bearer.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The verb by which Kubernetes knows a method.
fn verb(method: &Method) -> &'static str {
    if method.is_safe() { "get" } else { "post" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = all.iter().map(|(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn a_token_is_in_its_own_header_or_else_a_bearer_token() {
        for (all, expected) in [
            (&[("authorization", "Bearer abc")][..], Some("abc")),
            (&[("authorization", "bearer abc")], Some("abc")),
            (&[("authorization", "Basic abc")], None),
            (&[("authorization", "Bearer ")], None),
            (&[("authorization", "abc")], None),
            (&[(TOKEN_HEADER, "own")], Some("own")),
            (
                &[(TOKEN_HEADER, "own"), ("authorization", "Bearer abc")],
                Some("own"),
            ),
            (&[(TOKEN_HEADER, ""), ("authorization", "Bearer abc")], None),
            (&[], None),
        ] {
            assert_eq!(token(&headers(all)), expected, "{all:?}");
        }
    }
}
