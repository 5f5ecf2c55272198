//! The admin endpoints: probes, metrics and state. Entry points: [`bind`] and [`serve`].
//!
//! | path | answer |
//! |---|---|
//! | `/livez`, `/healthz` | 200 while the host's and the guests' threads make progress |
//! | `/readyz`, `/readyz/NAME` | named conditions, 200 if all hold, else 503; `?verbose` lists them, `?exclude=NAME` leaves one out |
//! | `/metrics` | OpenMetrics if the `Accept` header names it, else Prometheus text |
//! | `/api/v1/explain?key=KEY` | why a key is not reconciled |
//! | `/api/v1/configuration` | the documents that are not in effect |
//! | `/api/v1/clusters`, `…/providers`, `…/reconcilers`, `…/tenants`, `…/keys` | lists of views |
//! | `/api/v1/history` | what each reconciler did in the last hour, a minute an entry |
//! | `/api/v1/election` | the leader |
//! | `/api/v1/shards` | which process works on which clusters; `?cluster=NAME` names the owner of one |
//! | `/api/v1/recordings` | the recordings of runs that are kept |
//! | `/api/contents/v1/recordings/ID` | the file of a recording |
//! | `POST /api/v1/requeue` | reconciles a key now |
//! | `POST /api/v1/record` | reconciles a key now, and records the run |
//! | `POST /api/v1/pause`, `…/resume` | pauses an object, a reconciler, a tenant or a cluster; ends its pause |
//! | `POST /api/v1/release` | the objects that finalizers of a reconciler hold; lets them go |
//! | `POST /api/v1/drain` | gives the shards of this process to the others |
//! | `POST /api/v1/rollback` | makes a reconciler serve a kept revision |
//! | `/console/` | a page for people, which asks all of that |
//!
//! If the Manager names further addresses, the probes and the metrics are served there too, each at its own. `access` says who may call
//! the API; `callers` keeps web pages away from everything; `audit` reports what callers change.

mod access;
mod addresses;
mod audit;
mod callers;
mod conditions;
mod console;
mod election;
mod exposition;
mod listener;
mod pauses;
mod recordings;
mod release;
mod shards;
pub(crate) mod state;

pub(crate) use access::{TOKEN_HEADER, token_file};
pub(crate) use addresses::{Addresses, Sockets, bind};

use crate::app::App;
use crate::app::rollback::Refusal;
use crate::status::view::{
    DrainReply, Items, PauseReply, PauseRequest, ReleaseReply, RequeueRequest, ShardsView,
};
use access::{Access, Caller};
use addresses::{AGAIN, Begins, Routers, Served};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router, middleware};
use conditions::{Asked, answer, conditions};
use shards::ShardQuery;
use state::{ExplainQuery, KeyQuery, RequeueError};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass_fleet::Request;

/// Serves the endpoints at the wanted addresses until `stop`. If an address is taken, the app's problems name it, and it is retried.
pub(crate) async fn serve(
    sockets: Sockets,
    app: Arc<App>,
    mut wanted: watch::Receiver<Addresses>,
    stop: CancellationToken,
) {
    let access = Access::new(app.clone(), wanted.borrow().authentication);
    let routers = Routers {
        all: all(&access),
        probes: only(probes(), "/livez and /readyz are", &access),
        metrics: only(metrics_of(&access), "/metrics is", &access),
    };
    let opening = access.clone();
    let begins: Begins = Arc::new(move |address| opening.serve_at(address));
    let [mut admin, mut probes, mut metrics] = Served::each(sockets, routers, &begins);
    let mut failed = match access.follow(wanted.borrow().authentication) {
        Ok(()) => false,
        Err(problem) => {
            app.report_admin_problems(vec![problem]);
            true
        }
    };
    loop {
        tokio::select! {
            () = admin.take() => {}
            () = probes.take() => {}
            () = metrics.take() => {}
            Ok(()) = wanted.changed() => {}
            () = sleep(AGAIN), if failed => {}
            () = stop.cancelled() => break,
        }
        let addresses = *wanted.borrow_and_update();
        let outcomes = [
            admin.follow(&addresses),
            access.follow(addresses.authentication),
            probes.follow(&addresses),
            metrics.follow(&addresses),
        ];
        let problems: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
        failed = !problems.is_empty();
        app.report_admin_problems(problems);
    }
    access.close();
    tokio::join!(admin.close(), probes.close(), metrics.close());
}

/// Whether a path is a probe.
fn is_probe(path: &str) -> bool {
    matches!(path, "/livez" | "/healthz" | "/readyz") || path.starts_with("/readyz/")
}

fn probes() -> Router<Arc<App>> {
    Router::new()
        .route("/livez", get(live))
        .route("/healthz", get(live))
        .route("/readyz", get(ready))
        .route("/readyz/{name}", get(ready_by))
}

fn metrics_of(access: &Arc<Access>) -> Router<Arc<App>> {
    let checked = middleware::from_fn_with_state(access.clone(), access::check_metrics);
    Router::new()
        .route("/metrics", get(metrics))
        .route_layer(checked)
}

/// The endpoints of an address that has no others.
fn only(router: Router<Arc<App>>, these: &str, access: &Arc<Access>) -> Router {
    let message =
        format!("no such path: only {these} here, all other paths are at spec.admin.address");
    let router = router.fallback(|| async { Refused(StatusCode::NOT_FOUND, message) });
    without_pages(router, access)
}

fn all(access: &Arc<Access>) -> Router {
    let router = probes().merge(metrics_of(access)).merge(api(access)).merge(console::pages()).fallback(|| async {
        Refused(
            StatusCode::NOT_FOUND,
            "no such path: see /console/, /livez, /readyz?verbose, /metrics, and /api/v1/clusters, providers, reconcilers, tenants, keys, shards, recordings, explain, configuration".to_owned(),
        )
    });
    without_pages(router, access)
}

fn api(access: &Arc<Access>) -> Router<Arc<App>> {
    let checked = middleware::from_fn_with_state(access.clone(), access::check);
    Router::new()
        .route(
            "/api/v1/configuration",
            get(|State(app): State<Arc<App>>| async move { Json(state::configuration(&app)) }),
        )
        .route(
            "/api/v1/clusters",
            get(|State(app): State<Arc<App>>| async move { Json(state::clusters(&app)) }),
        )
        .route(
            "/api/v1/providers",
            get(|State(app): State<Arc<App>>| async move { Json(state::providers(&app)) }),
        )
        .route(
            "/api/v1/reconcilers",
            get(|State(app): State<Arc<App>>| async move { Json(state::reconcilers(&app)) }),
        )
        .route(
            "/api/v1/tenants",
            get(|State(app): State<Arc<App>>| async move { Json(state::tenants(&app)) }),
        )
        .route(
            "/api/v1/history",
            get(|State(app): State<Arc<App>>| async move {
                Json(Items::all(app.history.view(app.manager.controllers())))
            }),
        )
        .route(
            "/api/v1/election",
            get(|State(app): State<Arc<App>>| async move { Json(election::view(&app)) }),
        )
        .route("/api/v1/shards", get(shards))
        .route("/api/v1/keys", get(keys))
        .route("/api/v1/explain", get(explain))
        .route(
            "/api/v1/recordings",
            get(|State(app): State<Arc<App>>| async move { Json(recordings::list(&app)) }),
        )
        .route(recordings::FILES, get(recording))
        .route("/api/v1/record", post(record))
        .route("/api/v1/requeue", post(requeue))
        .route("/api/v1/pause", post(pause))
        .route("/api/v1/resume", post(resume))
        .route("/api/v1/release", post(release))
        .route("/api/v1/drain", post(drain))
        .route("/api/v1/rollback", post(rollback))
        .route_layer(checked)
}

/// Rejects requests of web pages before every handler, and before tokens are checked.
fn without_pages(router: Router<Arc<App>>, access: &Arc<Access>) -> Router {
    router
        .layer(middleware::from_fn_with_state(
            access.clone(),
            callers::check,
        ))
        .with_state(access.app.clone())
}

/// An error as a JSON answer.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = Json(serde_json::json!({ "error": self.1 }));
        if self.0 == StatusCode::UNAUTHORIZED {
            return (self.0, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response();
        }
        (self.0, body).into_response()
    }
}

/// Whether the runtimes make progress.
async fn live(State(app): State<Arc<App>>) -> (StatusCode, String) {
    let mut text = String::new();
    for heart in &app.heartbeats {
        if let Err(silence) = heart.check().await {
            let seconds = silence.as_secs();
            text.push_str(&format!(
                "[-] {}: its threads have done nothing for {seconds} s\n",
                heart.name
            ));
        }
    }
    if text.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

async fn ready(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let asked = Asked::read(query.as_deref().unwrap_or_default());
    let (ready, text) = answer(&conditions(&app), &asked);
    (status(ready), text)
}

async fn ready_by(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let conditions = conditions(&app);
    let Some(condition) = conditions.iter().find(|condition| condition.name == name) else {
        let names: Vec<&str> = conditions.iter().map(|condition| condition.name).collect();
        let message = format!("no condition {name:?}: it is one of {}", names.join(", "));
        return Refused(StatusCode::NOT_FOUND, message).into_response();
    };
    let text = format!("{}\n", condition.detail);
    (status(condition.holds), text).into_response()
}

fn status(ready: bool) -> StatusCode {
    if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match app.metrics() {
        Ok(text) => {
            let (kind, text) = exposition::answer(&headers, text);
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => Refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn shards(
    State(app): State<Arc<App>>,
    query: Result<Query<ShardQuery>, QueryRejection>,
) -> Result<Json<ShardsView>, Refused> {
    let view = match query {
        Ok(Query(query)) => shards::view(&app, &query),
        Err(error) => Err(error.body_text()),
    };
    view.map(Json)
        .map_err(|message| Refused(StatusCode::BAD_REQUEST, message))
}

async fn drain(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<DrainReply>, Refused> {
    let reply = shards::drain(&app)?;
    audit::drained(&app, &caller, &reply);
    Ok(Json(reply))
}

async fn keys(
    State(app): State<Arc<App>>,
    query: Result<Query<KeyQuery>, QueryRejection>,
) -> Response {
    let answer = match query {
        Ok(Query(query)) => state::keys(&app, &query),
        Err(error) => Err(error.body_text()),
    };
    match answer {
        Ok(items) => Json(items).into_response(),
        Err(message) => Refused(StatusCode::BAD_REQUEST, message).into_response(),
    }
}

async fn explain(
    State(app): State<Arc<App>>,
    query: Result<Query<ExplainQuery>, QueryRejection>,
) -> Response {
    let answer = match query {
        Ok(Query(query)) => owned(&app, query.key()).and_then(|()| {
            let items = state::explain(&app, &query);
            items.map_err(|message| Refused(StatusCode::BAD_REQUEST, message))
        }),
        Err(error) => {
            let text = error.body_text();
            let message = format!("{text}: give ?key=cluster://CLUSTER/NAMESPACE/NAME");
            Err(Refused(StatusCode::BAD_REQUEST, message))
        }
    };
    answer.map(Json).into_response()
}

async fn recording(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Response {
    match recordings::file(&app, &id) {
        Ok(file) => {
            audit::read_recording(&caller, &id);
            ([(header::CONTENT_TYPE, "application/json")], file).into_response()
        }
        Err(message) => Refused(StatusCode::NOT_FOUND, message).into_response(),
    }
}

async fn record(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Bytes,
) -> Response {
    let answer = key_of(&body).and_then(|request| {
        owned(&app, &request.key)?;
        let reply = recordings::record(&app, &request)?;
        audit::recorded(&app, &caller, &request);
        Ok(Json(reply))
    });
    answer.into_response()
}

async fn requeue(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Bytes,
) -> Response {
    let answer = key_of(&body).and_then(|request| {
        owned(&app, &request.key)?;
        let reply = state::requeue(&app, &request)?;
        audit::requeued(&app, &caller, &request);
        Ok(Json(reply))
    });
    answer.into_response()
}

/// Checks that no other process works on a key. A text that is no key is refused later.
fn owned(app: &App, key: &str) -> Result<(), Refused> {
    let request = key.parse::<Request>();
    request.map_or(Ok(()), |request| shards::check(app, &request.cluster))
}

/// What a caller asks of a key.
fn key_of(body: &[u8]) -> Result<RequeueRequest, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("the body names no key: {error}");
        Refused(StatusCode::BAD_REQUEST, message)
    })
}

impl From<RequeueError> for Refused {
    fn from(error: RequeueError) -> Self {
        match error {
            RequeueError::Wrong(message) => Self(StatusCode::BAD_REQUEST, message),
            RequeueError::Unknown(message) => Self(StatusCode::NOT_FOUND, message),
            RequeueError::Busy(message) => Self(StatusCode::SERVICE_UNAVAILABLE, message),
        }
    }
}

async fn pause(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Bytes,
) -> Result<Json<PauseReply>, Refused> {
    let request = pause_of(&body)?;
    let reply = pauses::pause(&app, &request).await?;
    audit::paused(&app, &caller, &request, &reply);
    Ok(Json(reply))
}

async fn resume(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Bytes,
) -> Result<Json<PauseReply>, Refused> {
    let request = pause_of(&body)?;
    let reply = pauses::resume(&app, &request).await?;
    audit::paused(&app, &caller, &request, &reply);
    Ok(Json(reply))
}

/// What a caller asks to pause or to resume.
fn pause_of(body: &[u8]) -> Result<PauseRequest, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("not a pause request: {error}");
        Refused(StatusCode::BAD_REQUEST, message)
    })
}

async fn release(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Bytes,
) -> Result<Json<ReleaseReply>, Refused> {
    let request = serde_json::from_slice(&body).map_err(|error| {
        let message = format!("not a release request: {error}");
        Refused(StatusCode::BAD_REQUEST, message)
    })?;
    // Boxed: it holds the work on many clusters.
    let reply = Box::pin(release::release(&app, &request)).await?;
    audit::released(&app, &caller, &request, &reply);
    Ok(Json(reply))
}

async fn rollback(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Bytes,
) -> Response {
    let request = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("not a rollback request: {error}");
            return Refused(StatusCode::BAD_REQUEST, message).into_response();
        }
    };
    let (status, message) = match app.rollbacks.ask(request).await {
        Ok(reply) => {
            audit::rolled_back(&app, &caller, &reply);
            return Json(reply).into_response();
        }
        Err(Refusal::Unknown(message)) => (StatusCode::NOT_FOUND, message),
        Err(Refusal::Impossible(message)) => (StatusCode::CONFLICT, message),
        Err(Refusal::Busy(message)) => (StatusCode::SERVICE_UNAVAILABLE, message),
    };
    Refused(status, message).into_response()
}
