//! Pauses and resumes for callers of the API. Entry points: [`pause`] and [`resume`].

use super::Refused;
use crate::app::App;
use crate::status::view::{PauseReply, PauseRequest};
use axum::http::StatusCode;
use std::error::Error as _;
use std::time::{Duration, SystemTime};
use windlass_fleet::manager::PauseError;
use windlass_fleet::paused::{End, Pause};
use windlass_fleet::{ControllerName, Request};

/// Pauses what a caller names.
///
/// # Errors
/// Why it is not paused.
pub(super) async fn pause(app: &App, asked: &PauseRequest) -> Result<PauseReply, Refused> {
    put(app, asked, Some(&wanted(asked))).await
}

/// Ends a pause.
///
/// # Errors
/// Why it goes on.
pub(super) async fn resume(app: &App, asked: &PauseRequest) -> Result<PauseReply, Refused> {
    put(app, asked, None).await
}

/// The pause that a caller asks for, from now on.
fn wanted(asked: &PauseRequest) -> Pause {
    let end = asked.seconds.and_then(|seconds| {
        let end = SystemTime::now().checked_add(Duration::from_secs(seconds))?;
        Some(End::at(end))
    });
    Pause {
        end: end.unwrap_or(End::Resumed),
        reason: asked.reason.as_deref().map(Into::into),
        deletions: asked.deletions,
    }
}

async fn put(
    app: &App,
    asked: &PauseRequest,
    pause: Option<&Pause>,
) -> Result<PauseReply, Refused> {
    let Some(key) = &asked.key else {
        return Err(wrong("the body names no key"));
    };
    let request: Request = key.parse().map_err(wrong)?;
    let reconciler = asked.reconciler.as_ref().map(ControllerName::new);
    let reconciler = reconciler.transpose().map_err(wrong)?;
    let put = app.manager.pause(&request, reconciler.as_ref(), pause);
    let kind = put.await.map_err(refused)?;
    Ok(reply(format!("{kind} {request}"), pause))
}

fn reply(subject: String, pause: Option<&Pause>) -> PauseReply {
    PauseReply {
        subject,
        state: pause.map_or_else(|| "is resumed".to_owned(), |pause| format!("is {pause}")),
        until: pause.map_or_else(String::new, |pause| pause.end.to_string()),
    }
}

fn wrong(error: impl std::fmt::Display) -> Refused {
    Refused(StatusCode::BAD_REQUEST, error.to_string())
}

fn refused(error: PauseError) -> Refused {
    let status = match error {
        PauseError::NoReconciler(_) | PauseError::NoObject(_) => StatusCode::NOT_FOUND,
        PauseError::SeveralKinds(_) => StatusCode::BAD_REQUEST,
        PauseError::NotLeading(_) | PauseError::Refused { .. } => StatusCode::CONFLICT,
    };
    let source = error.source();
    let source = source.map_or_else(String::new, |source| format!(": {source}"));
    Refused(status, format!("{error}{source}"))
}
