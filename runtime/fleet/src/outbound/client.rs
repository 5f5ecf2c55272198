//! Sends the calls of one run. Entry point: [`HttpClient::send`].

use super::grant::{HttpDenied, HttpGrant};
use super::rule::may_be_set;
use super::target::Target;
use crate::api::{ApiCode, ApiError};
use crate::cluster::call_scope::{CallScope, cancelled};
use crate::cluster::{AnswerAccount, CallPolicy, Permit, WRITE_DEADLINE};
use crate::http::fence::Pass;
use crate::http::transport::{
    ADVANCE, Charge, OutsideAnswer, OutsideRequest, OutsideServer, Payer, TransportError,
    Transports,
};
use crate::trace;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, COOKIE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// Longest call that changes nothing, redirects included, unless its caller wants it shorter.
const LONGEST: Duration = Duration::from_secs(30);
/// Most headers that a caller gives, and most bytes of them.
const MOST_HEADERS: usize = 64;
const MOST_HEADER_BYTES: usize = 32 << 10;
const OWN_AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));

/// A request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// Absolute.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Empty: none.
    pub body: Bytes,
    /// Default: 30 s for reads, and 10 s, which is the most, for others.
    pub timeout: Option<Duration>,
}

/// What a server answered, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// For example 200.
    pub status: u16,
    /// Names in lower case, and values, in the order of the server. Bytes that are no text are replaced.
    pub headers: Vec<(String, String)>,
    /// Charged to the caller for as long as it is held.
    pub body: Bytes,
}

/// Calls servers for one run. Cheap to clone.
///
/// # Cancellation
/// Dropping the future of a GET or HEAD cancels it. Another call goes on until its own deadline (10 s), and the controller waits for it before
/// it runs the same key again.
#[derive(Clone)]
pub struct HttpClient {
    grant: Arc<HttpGrant>,
    transports: Option<Arc<Transports>>,
    scope: Arc<CallScope>,
    policy: Option<Arc<dyn CallPolicy>>,
    account: Option<Arc<dyn AnswerAccount>>,
}

/// A request that a rule may allow.
struct Checked {
    method: Method,
    target: Target,
    headers: HeaderMap,
    body: Bytes,
    until: Instant,
}

impl HttpClient {
    pub(crate) fn new(
        grant: Arc<HttpGrant>,
        transports: Option<Arc<Transports>>,
        scope: Arc<CallScope>,
    ) -> Self {
        Self {
            grant,
            transports,
            scope,
            policy: None,
            account: None,
        }
    }

    /// The same client, whose calls a policy limits.
    #[must_use]
    pub fn with_policy(self, policy: Arc<dyn CallPolicy>) -> Self {
        Self {
            policy: Some(policy),
            ..self
        }
    }

    /// The same client, whose answers are charged to an account for as long as they are held.
    #[must_use]
    pub fn charged_to(self, account: Arc<dyn AnswerAccount>) -> Self {
        Self {
            account: Some(account),
            ..self
        }
    }

    /// Sends a request. An answer of any status is an answer.
    ///
    /// # Errors
    /// `invalid` for a request that cannot be sent; `denied` when no rule allows it, or a redirect of it, or the address of its server;
    /// `limit-exceeded` when the caller may not call more often, or the answer is larger than it may be; `timeout`, `unavailable`, and
    /// `cancelled` once the run should end.
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, ApiError> {
        self.scope.check()?;
        let mut checked = self.checked(request)?;
        let mut followed = 0;
        loop {
            let (answer, most) = self.call(&checked).await?;
            let is_read = is_read(&checked.method);
            match redirection(&answer).filter(|_| is_read && most > 0) {
                Some(_) if followed >= most => {
                    let message = format!(
                        "{} redirects more than {most} times: raise redirects of the rule, or ask for the last URL itself",
                        checked.target
                    );
                    return Err(ApiError::host(ApiCode::Unavailable, message));
                }
                Some(location) => {
                    checked = checked.redirected(&location)?;
                    followed += 1;
                }
                None => return Ok(response(answer)),
            }
        }
    }

    /// Whether a rule allows a request. Nothing is resolved and nothing is sent.
    ///
    /// # Errors
    /// `invalid` and `denied`, as [`Self::send`].
    pub fn check(&self, request: &HttpRequest) -> Result<(), ApiError> {
        let Checked { method, target, .. } = self.checked(request.clone())?;
        self.grant.check(&method, &target).map_err(denied)
    }

    fn checked(&self, request: HttpRequest) -> Result<Checked, ApiError> {
        let invalid = |message: String| ApiError::host(ApiCode::Invalid, message);
        let method = Method::from_bytes(request.method.as_bytes());
        let method =
            method.map_err(|_| invalid(format!("{:?} is not a method", request.method)))?;
        let target = Target::parse(&request.url).map_err(|error| invalid(error.to_string()))?;
        let longest = if is_read(&method) {
            LONGEST
        } else {
            WRITE_DEADLINE
        };
        let limit = request.timeout.unwrap_or(longest).min(longest);
        Ok(Checked {
            headers: headers(&request.headers).map_err(invalid)?,
            method,
            target,
            body: request.body,
            until: Instant::now() + self.scope.time_left(limit),
        })
    }

    /// Sends a request to one server. Returns how many redirects the rule has followed too.
    async fn call(&self, checked: &Checked) -> Result<(OutsideAnswer, u32), ApiError> {
        let Checked { method, target, .. } = checked;
        let allowed = self.grant.allowed(method, target).map_err(denied)?;
        let Some(transports) = &self.transports else {
            let message = "there is no network here";
            return Err(ApiError::host(ApiCode::Unavailable, message));
        };
        let server = self.grant.server(transports, target, &allowed);
        let server = server.map_err(|error| ApiError::host(ApiCode::Invalid, error.to_string()))?;
        let mut headers = checked.headers.clone();
        for (name, value) in allowed.rule.headers() {
            headers.insert(name, value.clone());
        }
        let request = OutsideRequest {
            method: method.clone(),
            path: target.path_and_query(),
            headers,
            body: checked.body.clone(),
        };
        let span = trace::outside(method.as_str(), &target.origin(), target.path());
        let charge = self.reserve(transports, checked.until).await?;
        let permit = self.permit(checked.until).await?;
        let answer = self.exchange(server, request, charge, permit, checked.until);
        let answer = answer.instrument(span.clone()).await;
        let answer = answer.map_err(|error| outside_error(error, target));
        match &answer {
            Ok(answer) => drop(span.record("http.response.status_code", answer.status)),
            Err(error) => trace::failed(&span, error.code.as_str()),
        }
        Ok((answer?, allowed.rule.redirects()))
    }

    /// Sends on the host's runtime, so that a busy guest delays no socket.
    async fn exchange(
        &self,
        server: OutsideServer,
        request: OutsideRequest,
        charge: Charge,
        permit: Option<Permit>,
        until: Instant,
    ) -> Result<OutsideAnswer, Failed> {
        let reads = is_read(&request.method);
        let host = server.host().clone();
        let send = move |until: Instant, pass: Option<Pass>| async move {
            let _permit = permit;
            let answer = tokio::time::timeout_at(until, server.send(request, charge, pass)).await;
            answer.map_or(Err(Failed::Late), |answer| {
                answer.map_err(Failed::Transport)
            })
        };
        if reads {
            let sent = AbortOnDropHandle::new(host.spawn(send(until, None)));
            return self.until_cancelled(sent).await;
        }
        // Taken before the check, as for a write to an API server.
        let _under_way = self.scope.writes.token();
        self.scope.check().map_err(Failed::Api)?;
        let pass = self.scope.enter().map_err(Failed::Api)?;
        let until = pass
            .as_ref()
            .map_or(until, |pass| until.min(Instant::now() + pass.time_left()));
        let sent = self.scope.writes.spawn_on(send(until, pass), &host);
        self.until_cancelled(sent).await
    }

    async fn until_cancelled(
        &self,
        task: impl Future<Output = Result<Result<OutsideAnswer, Failed>, tokio::task::JoinError>>,
    ) -> Result<OutsideAnswer, Failed> {
        tokio::select! {
            biased;
            outcome = task => outcome.unwrap_or_else(|error| {
                Err(Failed::Api(ApiError::host(ApiCode::Unavailable, error.to_string())))
            }),
            () = self.scope.token.cancelled() => Err(Failed::Api(cancelled())),
        }
    }

    /// Room for an answer. A larger one takes more as it arrives.
    async fn reserve(&self, transports: &Transports, until: Instant) -> Result<Charge, ApiError> {
        let payer = Payer {
            tenant: self.scope.caller.tenant.clone(),
            account: self.account.clone(),
        };
        let reserved = transports.answer_memory().reserve(&payer, ADVANCE, until);
        tokio::select! {
            reserved = reserved => Ok(reserved?),
            () = self.scope.token.cancelled() => Err(cancelled()),
        }
    }

    async fn permit(&self, until: Instant) -> Result<Option<Permit>, ApiError> {
        let Some(policy) = &self.policy else {
            return Ok(None);
        };
        let patience = until.saturating_duration_since(Instant::now()) * 8 / 10;
        tokio::select! {
            permit = policy.acquire(patience) => permit.map(Some),
            () = self.scope.token.cancelled() => Err(cancelled()),
        }
    }
}

impl Checked {
    /// The request that an answer of this one redirects to. What was meant for one server is not told to another.
    fn redirected(self, location: &str) -> Result<Self, ApiError> {
        let target = self.target.redirected(location).map_err(|error| {
            let message = format!("{} redirects to another place: {error}", self.target);
            ApiError::host(ApiCode::Unavailable, message)
        })?;
        let mut headers = self.headers;
        if target.origin() != self.target.origin() {
            headers.remove(AUTHORIZATION);
            headers.remove(COOKIE);
        }
        Ok(Self {
            target,
            headers,
            ..self
        })
    }
}

/// Why there is no answer.
enum Failed {
    Api(ApiError),
    Transport(TransportError),
    Late,
}

fn denied(missing: HttpDenied) -> ApiError {
    ApiError::host(ApiCode::Denied, missing.to_string())
}

/// Whether a call changes nothing (RFC 9110 §9.2.1).
fn is_read(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

fn headers(texts: &[(String, String)]) -> Result<HeaderMap, String> {
    let bytes: usize = texts
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if texts.len() > MOST_HEADERS || bytes > MOST_HEADER_BYTES {
        return Err(format!(
            "the request has more than {MOST_HEADERS} headers, or more than {MOST_HEADER_BYTES} bytes of them"
        ));
    }
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(OWN_AGENT));
    // A caller that reads compressed answers says so.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let mut given = HeaderMap::new();
    for (name, value) in texts {
        let known = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .filter(may_be_set);
        let name = known.ok_or_else(|| format!("{name:?} is not a header that can be set"))?;
        let value = HeaderValue::from_str(value).map_err(|_| {
            format!("the value of the header {name} has characters that no header can have, such as the end of a line")
        })?;
        given.append(name, value);
    }
    for name in given.keys() {
        headers.remove(name);
    }
    headers.extend(given);
    Ok(headers)
}

/// Where an answer redirects to.
fn redirection(answer: &OutsideAnswer) -> Option<String> {
    let follows = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    let location = answer.headers.get(LOCATION)?.to_str().ok()?;
    follows
        .iter()
        .any(|status| status.as_u16() == answer.status)
        .then(|| location.to_owned())
}

fn response(answer: OutsideAnswer) -> HttpResponse {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = answer.headers.iter();
    HttpResponse {
        status: answer.status,
        headers: headers
            .map(|(name, value)| (name.as_str().to_owned(), text(value)))
            .collect(),
        body: answer.charge.of(answer.body),
    }
}

fn outside_error(failed: Failed, target: &Target) -> ApiError {
    let error = match failed {
        Failed::Api(error) => return error,
        Failed::Late => {
            let message = format!("no whole answer from {} in time", target.origin());
            return ApiError::host(ApiCode::Timeout, message);
        }
        Failed::Transport(error) => error,
    };
    match error {
        TransportError::NotAllowed { refusal, .. } => {
            let message = format!(
                "{} is no public address, or that of an API server: add its network to addresses of the rule in spec.http if it may be called",
                refusal.subject()
            );
            ApiError::host(ApiCode::Denied, message)
        }
        error @ (TransportError::NoRoom { .. } | TransportError::TooLarge { .. }) => {
            ApiError::host(ApiCode::LimitExceeded, error.to_string())
        }
        error => ApiError::from(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[(&str, &str)]) -> Result<HeaderMap, String> {
        let texts = texts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        headers(&texts.collect::<Vec<_>>())
    }

    #[test]
    fn a_caller_sets_headers_but_those_of_the_connection() {
        let headers = of(&[("X-A", "1"), ("x-a", "2"), ("User-Agent", "own")]).unwrap();
        assert_eq!(headers.get_all("x-a").iter().count(), 2);
        assert_eq!(headers[USER_AGENT], "own");
        assert_eq!(of(&[]).unwrap()[USER_AGENT], OWN_AGENT);
        for (name, value) in [
            ("Host", "evil.example"),
            ("Content-Length", "0"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "close"),
            ("Proxy-Authorization", "Basic x"),
            ("X A", "1"),
            ("X-A\r\nHost", "evil.example"),
            ("X-A", "1\r\nHost: evil.example"),
            ("X-A", "1\nX-B: 2"),
            ("X-A", "\0"),
        ] {
            assert!(of(&[(name, value)]).is_err(), "{name:?}: {value:?}");
        }
        assert!(of(&[("x-a", "1"); MOST_HEADERS + 1]).is_err());
        assert!(of(&[("x-a", &"1".repeat(MOST_HEADER_BYTES))]).is_err());
    }

    #[test]
    fn a_redirect_to_another_server_takes_no_credentials_along() {
        let checked = || Checked {
            method: Method::GET,
            target: Target::parse("https://a.example.com/x").unwrap(),
            headers: of(&[
                ("Authorization", "Bearer x"),
                ("Cookie", "a=b"),
                ("X-A", "1"),
            ])
            .unwrap(),
            body: Bytes::new(),
            until: Instant::now(),
        };
        let same = checked().redirected("/y").unwrap();
        assert!(same.headers.contains_key(AUTHORIZATION));
        let other = checked().redirected("https://b.example.com/y").unwrap();
        assert!(!other.headers.contains_key(AUTHORIZATION) && !other.headers.contains_key(COOKIE));
        assert!(other.headers.contains_key("x-a"));
        assert!(checked().redirected("https://user@b.example.com/").is_err());
    }
}
