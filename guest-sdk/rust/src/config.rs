//! The reconciler's configuration, and the time. Entry points: [`config`] and [`now`].

use crate::error::{Context, Result};
use crate::json;
use crate::raw;
use serde::de::DeserializeOwned;

/// The reconciler's `config`.
///
/// # Errors
/// If it does not fit `T`. Read it in [`crate::Reconciler::describe`] too, so that a wrong configuration fails the load.
#[track_caller]
pub fn config<T: DeserializeOwned>() -> Result<T> {
    json::from_str(&raw::config()).context("config")
}

/// Wall time, RFC 3339, UTC, milliseconds: `2026-01-31T09:30:00.000Z`.
#[must_use]
pub fn now() -> String {
    raw::now()
}
