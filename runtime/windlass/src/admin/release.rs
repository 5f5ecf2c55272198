//! Finalizers for callers of the API: who is held by those of a reconciler, and lets them go. Entry point: [`release`].

use super::{Refused, shards};
use crate::app::App;
use crate::app::release::{Cursor, Refusal, Search};
use crate::status::view::{ReleaseReply, ReleaseRequest};
use axum::http::StatusCode;
use std::time::Duration;
use windlass_fleet::ClusterName;

/// How long a call searches. A caller goes on with the next one: a connection is served for half a minute.
const BUDGET: Duration = Duration::from_secs(4);

/// Looks for the objects that finalizers hold, or lets them go, for as long as a call may take.
///
/// # Errors
/// Why nothing was looked at.
pub(super) async fn release(app: &App, asked: &ReleaseRequest) -> Result<ReleaseReply, Refused> {
    // A name that is none is refused by the search.
    if let Some(Ok(cluster)) = asked.cluster.as_ref().map(ClusterName::new) {
        shards::check(app, &cluster)?;
    }
    let Ok(_permit) = app.searches.try_acquire() else {
        let message = "other callers search the fleet: try again";
        return Err(Refused(StatusCode::SERVICE_UNAVAILABLE, message.to_owned()));
    };
    let from = asked.next.as_deref().map(Cursor::parse).transpose();
    let from = from.map_err(|message| Refused(StatusCode::BAD_REQUEST, message))?;
    let search = Search::asked(app, asked).await.map_err(refused)?;
    let run = search.run(app, from.unwrap_or_default(), BUDGET).await;
    let (found, next) = run.map_err(refused)?;
    Ok(ReleaseReply {
        manager: search.manager(),
        next: next.map(|cursor| cursor.to_text()),
        ..found.into_reply()
    })
}

fn refused(refusal: Refusal) -> Refused {
    match refusal {
        Refusal::Wrong(message) => Refused(StatusCode::BAD_REQUEST, message),
        Refusal::Impossible(message) => Refused(StatusCode::CONFLICT, message),
    }
}
