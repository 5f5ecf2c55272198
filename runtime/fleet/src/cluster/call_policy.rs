//! Limits on the calls that a client makes for a caller. Entry point: [`CallPolicy`].

use crate::api::ApiError;
use crate::grant::{Denied, Grant};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// The right to make one call. Held until the server has answered.
pub type Permit = Box<dyn Send>;

/// Memory that is charged to a caller. Dropping it ends the charge.
pub type MemoryCharge = Box<dyn Send>;

/// Limits the calls that a client makes to servers, and receives its denials. A cached answer needs no permit.
///
/// [`Client::with_policy`](super::Client::with_policy) gives a client one.
pub trait CallPolicy: Send + Sync {
    /// Waits until one more call may begin, no longer than `patience`.
    ///
    /// # Errors
    /// `limit-exceeded` when no call may begin within that time.
    ///
    /// # Cancellation
    /// Dropping the future gives up its place in the queue.
    fn acquire(&self, patience: Duration) -> BoxFuture<'_, Result<Permit, ApiError>>;

    /// The part of the client's grant that still holds: rights can be revoked while the client is in use. Called before every call.
    /// Default: all of it.
    fn current_grant(&self, grant: &Arc<Grant>) -> Arc<Grant> {
        grant.clone()
    }

    /// Reports a call that no rule grants. The caller gets the error as well.
    fn denied(&self, missing: &Denied);

    /// Charges memory that the host keeps for the caller. Default: nothing is charged.
    ///
    /// # Errors
    /// `limit-exceeded` when the caller may have no more.
    fn charge(&self, _bytes: usize) -> Result<MemoryCharge, ApiError> {
        Ok(Box::new(()))
    }

    /// Reports an event that was refused: it is not valid, or the caller has recorded too many.
    fn event_refused(&self) {}
}

/// A caller's limits without its rights: for calls that the host makes for a caller under a grant of the host's own, such as writing
/// the caller's events.
pub(super) struct LimitsOnly(pub(super) Arc<dyn CallPolicy>);

impl CallPolicy for LimitsOnly {
    fn acquire(&self, patience: Duration) -> BoxFuture<'_, Result<Permit, ApiError>> {
        self.0.acquire(patience)
    }

    fn denied(&self, missing: &Denied) {
        self.0.denied(missing);
    }
}
