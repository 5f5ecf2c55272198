//! HTTP in front of the clusters: [`handle`] finds the cluster, asks the hook and routes.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WARNING};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Either, Full, Limited, StreamBody};
use hyper::body::Incoming;
use serde_json::Value;

use crate::call::{Call, Verb};
use crate::cluster::Cluster;
use crate::clusters::Clusters;
use crate::hook::{AnswerVerdict, RequestVerdict};
use crate::kcp::Kcp;
use crate::kcp::window::Window;
use crate::registry::Registry;
use crate::resource::{CollectionId, Resource};
use crate::status::ApiError;

mod accept;
mod actions;
mod continuation;
mod discovery;
mod object_routes;
mod openapi;
mod query;
mod read;
mod reply;
mod scale;
mod table;
mod watch;

/// The largest body that is read, as on a real server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// The connection ends here, unanswered or in the middle of an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut on purpose")]
pub(crate) struct Cut;

pub(crate) type Body =
    Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Cut>>>>;
pub(crate) type Answer = Response<Body>;

/// A request inside its cluster.
pub(crate) struct Routed {
    pub(crate) cluster: Cluster,
    pub(crate) call: Arc<Call>,
    pub(crate) accept: String,
    pub(crate) media_type: String,
    pub(crate) body: Bytes,
    /// Reads see nothing newer than this version.
    pub(crate) as_of: u64,
    /// Whether lists leave out what is not there any more.
    pub(crate) only_living: bool,
    /// What it sees of the cluster, if it came through a virtual workspace of kcp; else everything.
    pub(crate) window: Option<Window>,
    pub(crate) kcp: Option<Arc<Kcp>>,
}

/// What a listener serves.
#[derive(Debug, Clone)]
pub(crate) enum Door {
    /// Every cluster, and the virtual workspaces of the first shard of kcp.
    Main,
    /// One cluster, without a path before it.
    Cluster(Arc<str>),
    /// Every cluster, and the virtual workspaces of one shard of kcp.
    Shard(usize),
}

/// The cluster that a path leads to, and the path inside it.
struct Located<'p> {
    cluster: Cluster,
    inner: &'p str,
    /// The virtual workspace that it goes through, if any.
    service: &'p str,
    window: Option<Window>,
}

/// Everything that can be asked about.
#[derive(Debug, Default)]
pub(crate) struct Served {
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) kcp: Option<Arc<Kcp>>,
}

impl Served {
    fn locate<'p>(&self, door: &Door, path: &'p str) -> Option<Located<'p>> {
        let plain = |cluster, inner| Located {
            cluster,
            inner,
            service: "",
            window: None,
        };
        let shard = match door {
            Door::Cluster(name) => return Some(plain(self.clusters.get(name)?, path)),
            Door::Main => 0,
            Door::Shard(index) => *index,
        };
        if let Some(kcp) = self.kcp.as_ref().filter(|_| path.starts_with("/services/")) {
            let entry = kcp.enter(shard, path)?;
            return Some(Located {
                cluster: entry.cluster,
                inner: entry.inner,
                service: entry.service,
                window: Some(entry.window),
            });
        }
        let (cluster, inner) = self.clusters.locate(path)?;
        Some(plain(cluster, inner))
    }
}

impl Routed {
    /// Asks about the kinds that are served.
    pub(crate) fn registry<R>(&self, look: impl FnOnce(&Registry) -> R) -> R {
        match self.window.as_ref().and_then(Window::registry) {
            Some(registry) => look(registry),
            None => self.cluster.with(|state| look(&state.registry)),
        }
    }

    /// Whether it is about workspaces of kcp.
    pub(crate) fn is_of_kcp(&self) -> bool {
        self.window.is_some() || self.cluster.with(|state| state.place.is_some())
    }

    /// Where keys of the objects begin that it is about.
    pub(crate) fn prefix(&self) -> String {
        if self.call.namespace.is_empty() {
            String::new()
        } else {
            format!("{}/", self.call.namespace)
        }
    }

    /// The label that objects of a kind must have to be seen.
    pub(crate) fn label(&self, resource: &Resource) -> Option<&(Box<str>, Box<str>)> {
        self.window.as_ref()?.label(resource)
    }

    /// The version that reads of a collection see at most: no older than its history reaches back.
    pub(crate) fn as_of(&self, id: &CollectionId) -> u64 {
        if self.as_of == u64::MAX {
            return u64::MAX;
        }
        self.as_of
            .max(self.cluster.with(|state| state.store.floor(id)))
    }
}

/// Answers one request that came to a listener.
///
/// # Errors
/// [`Cut`] breaks the connection.
pub(crate) async fn handle(
    served: &Served,
    door: &Door,
    request: Request<Incoming>,
) -> Result<Answer, Cut> {
    let path = request.uri().path().to_owned();
    let Some(located) = served.locate(door, &path) else {
        let text = format!("no cluster at {path}: the path of a cluster is /clusters/<name>");
        return Ok(failure(&ApiError::new(404, "NotFound", text)));
    };
    let Located {
        cluster, window, ..
    } = located;
    if cluster.is_down() || window.as_ref().is_some_and(|window| window.down) {
        return Err(Cut);
    }
    let header = |name| {
        request
            .headers()
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let mut call = Call::parse(
        request.method().as_str(),
        located.inner,
        request.uri().query().unwrap_or_default(),
    );
    let media_type = header(CONTENT_TYPE)
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned();
    call.content_type.clone_from(&media_type);
    call.service = located.service.to_owned();
    call.user_agent = header(USER_AGENT);
    call.impersonate_user = header(HeaderName::from_static("impersonate-user"));
    let groups = request.headers().get_all("impersonate-group").iter();
    call.impersonate_groups = groups
        .filter_map(|group| group.to_str().ok())
        .map(str::to_owned)
        .collect();
    let call = Arc::new(call);
    cluster.record(&call);
    let (mut as_of, mut only_living) = (u64::MAX, false);
    match cluster
        .inner
        .hook
        .as_ref()
        .map(|hook| hook.request(cluster.name(), &call))
        .unwrap_or_default()
    {
        RequestVerdict::Proceed => {}
        RequestVerdict::Delay(time) => tokio::time::sleep(time).await,
        RequestVerdict::Answer {
            code,
            retry_after,
            body,
        } => return Ok(scripted(code, retry_after, body)),
        RequestVerdict::Reply(reply) => return Ok(reply::reply(reply)),
        RequestVerdict::Behind(changes) => as_of = cluster.version().saturating_sub(changes),
        RequestVerdict::BehindLiving(changes) => {
            as_of = cluster.version().saturating_sub(changes);
            only_living = true;
        }
        RequestVerdict::Cut => return Err(Cut),
        RequestVerdict::Silence => {
            cluster.inner.closed.cancelled().await;
            return Err(Cut);
        }
    }
    let accept = header(ACCEPT);
    let body = match Limited::new(request.into_body(), BODY_LIMIT)
        .collect()
        .await
    {
        Ok(collected) => collected.to_bytes(),
        Err(_) => {
            return Ok(failure(&ApiError::new(
                413,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {BODY_LIMIT}"),
            )));
        }
    };
    if let Some(hook) = &cluster.inner.hook {
        hook.received(cluster.name(), &call, &body);
    }
    let routed = Routed {
        cluster,
        call,
        accept,
        media_type,
        body,
        as_of,
        only_living,
        window,
        kcp: served.kcp.clone(),
    };
    let read = routed.cluster.read_through(&routed.call, &routed.body);
    let answer = match read.await {
        Ok(()) => route(&routed),
        Err(error) => Err(error),
    };
    let answer = answer.unwrap_or_else(|error| failure(&error));
    judged(&routed, answer).await
}

/// What the hook makes of an answer. Watches are its matter frame by frame.
async fn judged(request: &Routed, answer: Answer) -> Result<Answer, Cut> {
    let Some(hook) = &request.cluster.inner.hook else {
        return Ok(answer);
    };
    let (head, body) = answer.into_parts();
    let body = match body {
        Either::Left(whole) => match whole.collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(never) => match never {},
        },
        watch => return Ok(Response::from_parts(head, watch)),
    };
    match hook.answer(request.cluster.name(), &request.call, &body) {
        AnswerVerdict::Send => Ok(Response::from_parts(head, Either::Left(body.into()))),
        AnswerVerdict::Lose => Err(Cut),
        AnswerVerdict::Reply(reply) => Ok(reply::reply(reply)),
    }
}

fn route(request: &Routed) -> Result<Answer, ApiError> {
    if let Some(window) = &request.window {
        window.check(&request.call)?;
    }
    if request.call.resource.is_empty() {
        return discovery::serve(request);
    }
    if request.call.verb == Verb::Other {
        return Err(ApiError::method_not_allowed());
    }
    object_routes::serve(request)
}

fn scripted(code: u16, retry_after: Option<u32>, body: Bytes) -> Answer {
    let mut answer = raw(code, "application/json", body);
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

pub(crate) fn raw(code: u16, media_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(body.into())));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// What is answered to a path that nothing serves.
pub(crate) fn page_not_found() -> Answer {
    let text = Bytes::from_static(b"404 page not found\n");
    raw(404, "text/plain; charset=utf-8", text)
}

pub(crate) fn json(code: u16, value: &Value) -> Answer {
    raw(
        code,
        "application/json",
        crate::store::object::serialise(value).0,
    )
}

pub(crate) fn failure(error: &ApiError) -> Answer {
    scripted(
        error.code,
        error.retry_after,
        Bytes::from(error.to_status().to_string()),
    )
}

/// Adds warnings in the header that clients print.
pub(crate) fn warn(answer: &mut Answer, warnings: &[String]) {
    for warning in warnings.iter().take(20) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            answer.headers_mut().append(WARNING, value);
        }
    }
}
