//! The cluster that a fork stands for. Entry point: [`Origin`], which answers its reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

use crate::status::ApiError;

/// Reads of the cluster that a fork stands for. A fork asks for each part once and asks nothing else, so it can change nothing there.
pub trait Origin: Send + Sync + 'static {
    /// Answers a GET of `path`, which begins below the URL of the cluster and has its query, with this `Accept` header.
    ///
    /// # Errors
    /// [`OriginError`], which the fork's client gets as the answer to its request.
    fn read(&self, path: String, accept: &'static str)
    -> BoxFuture<'_, Result<Bytes, OriginError>>;
}

/// Why the cluster that a fork stands for was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// It answered with an error.
    #[error("{}", status_message(*.code, .body))]
    Answered {
        /// HTTP status code.
        code: u16,
        /// The body, which is mostly a `Status` object.
        body: Bytes,
    },
    /// It did not answer.
    #[error("{0}")]
    Unreachable(String),
}

fn status_message(code: u16, body: &Bytes) -> String {
    let status: Option<Value> = serde_json::from_slice(body).ok();
    let message = status.and_then(|status| Some(status["message"].as_str()?.to_owned()));
    message.unwrap_or_else(|| format!("the server answered {code}"))
}

impl OriginError {
    /// Whether what was asked for is not there.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Answered { code: 404, .. })
    }

    /// Whether the pages of a list that went before are too old to go on.
    pub(crate) fn is_expired(&self) -> bool {
        matches!(self, Self::Answered { code: 410, .. })
    }
}

impl From<OriginError> for ApiError {
    fn from(error: OriginError) -> Self {
        let (code, details) = match &error {
            OriginError::Answered { code, body } => {
                let status: Option<Value> = serde_json::from_slice(body).ok();
                let details = status.map(|mut status| status["details"].take());
                (*code, details.filter(Value::is_object))
            }
            OriginError::Unreachable(_) => (503, None),
        };
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            410 => "Expired",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        Self {
            details,
            ..Self::new(code, reason, error.to_string())
        }
    }
}

/// How many bytes forks may hold of other clusters, together.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// At most `limit` bytes of JSON.
    #[must_use]
    pub fn new(limit: u64) -> Arc<Self> {
        let used = AtomicU64::new(0);
        Arc::new(Self { limit, used })
    }

    /// The bytes that are held now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// The origin of one fork, with what was copied counted.
pub(crate) struct Source {
    pub(crate) origin: Arc<dyn Origin>,
    /// One part is copied at a time, so that none is copied twice.
    turn: Mutex<()>,
    budget: Arc<Budget>,
    held: AtomicU64,
}

impl Source {
    pub(crate) fn new(origin: Arc<dyn Origin>, budget: Arc<Budget>) -> Self {
        Self {
            origin,
            turn: Mutex::new(()),
            budget,
            held: AtomicU64::new(0),
        }
    }

    /// Waits until no other part is being copied.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Counts bytes that were copied.
    ///
    /// # Errors
    /// 413 when all forks together hold more than they may.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), ApiError> {
        let bytes = bytes as u64;
        self.held.fetch_add(bytes, Ordering::Relaxed);
        let used = self.budget.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used <= self.budget.limit {
            return Ok(());
        }
        let text = format!(
            "the copies of clusters take more than {} bytes: allow more, or copy fewer clusters at once",
            self.budget.limit
        );
        Err(ApiError::new(413, "RequestEntityTooLarge", text))
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let held = self.held.load(Ordering::Relaxed);
        self.budget.used.fetch_sub(held, Ordering::Relaxed);
    }
}
