//! The admin endpoints: probes, metrics and state. Entry points: [`bind`] and [`serve`].
//!
//! | path | answers |
//! |---|---|
//! | `/livez` | 200 while the process turns its wheels |
//! | `/readyz` | named conditions, 200 when all hold, else 503 |
//! | `/metrics` | OpenMetrics text |
//! | `/api/v1/clusters`, `…/reconcilers`, `…/tenants`, `…/keys` | lists of views |
//! | `/api/v1/election` | who leads |
//! | `POST /api/v1/requeue` | reconciles a key now |

mod election;
pub(crate) mod state;

use crate::host::Host;
use anyhow::{Context, Result};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use state::KeyQuery;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Largest body of a request, in bytes.
const MAX_BODY: usize = 64 << 10;

/// Takes the address.
///
/// # Errors
/// When it is taken or not of this machine, with what to change.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot serve the admin endpoints at {address}: choose another address with --admin or the Manager's spec.admin.address")
    })
}

/// Answers until `stop`.
pub(crate) async fn serve(listener: TcpListener, host: Arc<Host>, stop: CancellationToken) {
    let router = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route(
            "/api/v1/clusters",
            get(|State(host): State<Arc<Host>>| async move { Json(state::clusters(&host)) }),
        )
        .route(
            "/api/v1/reconcilers",
            get(|State(host): State<Arc<Host>>| async move { Json(state::reconcilers(&host)) }),
        )
        .route(
            "/api/v1/tenants",
            get(|State(host): State<Arc<Host>>| async move { Json(state::tenants(&host)) }),
        )
        .route(
            "/api/v1/election",
            get(|State(host): State<Arc<Host>>| async move { Json(election::view(&host)) }),
        )
        .route("/api/v1/keys", get(keys))
        .route("/api/v1/requeue", post(requeue))
        .fallback(|| async {
            Refused(
                StatusCode::NOT_FOUND,
                "no such path: see /api/v1/clusters, reconcilers, tenants, keys".to_owned(),
            )
        })
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY))
        .with_state(host);
    let served = axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "the admin endpoints ended");
    }
}

/// An answer that is an error, as JSON.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(serde_json::json!({ "error": self.1 }))).into_response()
    }
}

async fn ready(State(host): State<Arc<Host>>) -> (StatusCode, String) {
    let conditions = state::conditions(&host);
    let holds = conditions.iter().all(|condition| condition.holds);
    let lines = conditions.iter().map(|condition| {
        format!(
            "[{}] {}: {}\n",
            if condition.holds { '+' } else { '-' },
            condition.name,
            condition.detail
        )
    });
    (
        if holds {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        },
        lines.collect(),
    )
}

async fn metrics(State(host): State<Arc<Host>>) -> Response {
    match host.metrics() {
        Ok(text) => (
            [(
                header::CONTENT_TYPE,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            )],
            text,
        )
            .into_response(),
        Err(error) => Refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn keys(State(host): State<Arc<Host>>, Query(query): Query<KeyQuery>) -> Response {
    match state::keys(&host, &query) {
        Ok(items) => Json(items).into_response(),
        Err(message) => Refused(StatusCode::BAD_REQUEST, message).into_response(),
    }
}

async fn requeue(State(host): State<Arc<Host>>, body: axum::body::Bytes) -> Response {
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
    match state::requeue(&host, &request) {
        Ok(reply) => Json(reply).into_response(),
        Err(state::RequeueError::Wrong(message)) => {
            Refused(StatusCode::BAD_REQUEST, message).into_response()
        }
        Err(state::RequeueError::Unknown(message)) => {
            Refused(StatusCode::NOT_FOUND, message).into_response()
        }
    }
}
