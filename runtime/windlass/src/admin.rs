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
//! | `/api/v1/election` | the leader |
//! | `POST /api/v1/requeue` | reconciles a key now |
//! | `POST /api/v1/rollback` | makes a reconciler serve a kept revision |
//!
//! If the Manager names a second address, the probes are served there too.

mod addresses;
mod callers;
mod conditions;
mod election;
mod exposition;
mod listener;
pub(crate) mod state;

pub(crate) use addresses::{Addresses, Sockets, bind};

use crate::app::App;
use crate::app::rollback::Refusal;
use addresses::{AGAIN, Served};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use conditions::{Asked, answer, conditions};
use state::{ExplainQuery, KeyQuery};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Serves the endpoints at the wanted addresses until `stop`. If an address is taken, the app's problems name it, and it is retried.
pub(crate) async fn serve(
    sockets: Sockets,
    app: Arc<App>,
    mut wanted: watch::Receiver<Addresses>,
    stop: CancellationToken,
) {
    let [mut admin, mut probes] = Served::both(sockets, all(app.clone()), only_probes(app.clone()));
    let mut failed = false;
    loop {
        tokio::select! {
            () = admin.take() => {}
            () = probes.take() => {}
            Ok(()) = wanted.changed() => {}
            () = sleep(AGAIN), if failed => {}
            () = stop.cancelled() => break,
        }
        let addresses = *wanted.borrow_and_update();
        let outcomes = [
            admin.follow(Some(addresses.admin)),
            probes.follow(addresses.probes),
        ];
        let problems: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
        failed = !problems.is_empty();
        app.report_admin_problems(problems);
    }
    tokio::join!(admin.close(), probes.close());
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

fn only_probes(app: Arc<App>) -> Router {
    let router = probes().fallback(|| async {
        Refused(
            StatusCode::NOT_FOUND,
            "no such path: only /livez and /readyz are here, all other paths are at spec.admin.address"
                .to_owned(),
        )
    });
    checked(router, app)
}

fn all(app: Arc<App>) -> Router {
    let router = probes()
        .route(
            "/api/v1/configuration",
            get(|State(app): State<Arc<App>>| async move { Json(state::configuration(&app)) }),
        )
        .route("/metrics", get(metrics))
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
            "/api/v1/election",
            get(|State(app): State<Arc<App>>| async move { Json(election::view(&app)) }),
        )
        .route("/api/v1/keys", get(keys))
        .route("/api/v1/explain", get(explain))
        .route("/api/v1/requeue", post(requeue))
        .route("/api/v1/rollback", post(rollback))
        .fallback(|| async {
            Refused(
                StatusCode::NOT_FOUND,
                "no such path: see /livez, /readyz?verbose, /metrics, and /api/v1/clusters, providers, reconcilers, tenants, keys, explain, configuration".to_owned(),
            )
        });
    checked(router, app)
}

/// Checks the caller before every handler.
fn checked(router: Router<Arc<App>>, app: Arc<App>) -> Router {
    router
        .layer(middleware::from_fn_with_state(app.clone(), callers::check))
        .with_state(app)
}

/// An error as a JSON answer.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(serde_json::json!({ "error": self.1 }))).into_response()
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
        Ok(Query(query)) => state::explain(&app, &query),
        Err(error) => Err(format!(
            "{}: give ?key=cluster://CLUSTER/NAMESPACE/NAME",
            error.body_text()
        )),
    };
    match answer {
        Ok(items) => Json(items).into_response(),
        Err(message) => Refused(StatusCode::BAD_REQUEST, message).into_response(),
    }
}

async fn requeue(State(app): State<Arc<App>>, body: axum::body::Bytes) -> Response {
    let request = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            return Refused(
                StatusCode::BAD_REQUEST,
                format!("not a requeue request: {error}"),
            )
            .into_response();
        }
    };
    match state::requeue(&app, &request) {
        Ok(reply) => Json(reply).into_response(),
        Err(state::RequeueError::Wrong(message)) => {
            Refused(StatusCode::BAD_REQUEST, message).into_response()
        }
        Err(state::RequeueError::Unknown(message)) => {
            Refused(StatusCode::NOT_FOUND, message).into_response()
        }
    }
}

async fn rollback(State(app): State<Arc<App>>, body: axum::body::Bytes) -> Response {
    let request = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("not a rollback request: {error}");
            return Refused(StatusCode::BAD_REQUEST, message).into_response();
        }
    };
    let (status, message) = match app.rollbacks.ask(request).await {
        Ok(reply) => return Json(reply).into_response(),
        Err(Refusal::Unknown(message)) => (StatusCode::NOT_FOUND, message),
        Err(Refusal::Impossible(message)) => (StatusCode::CONFLICT, message),
        Err(Refusal::Busy(message)) => (StatusCode::SERVICE_UNAVAILABLE, message),
    };
    Refused(status, message).into_response()
}
