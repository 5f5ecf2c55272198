//! Who answers for a caller: bounds its calls to servers, and is told what it was denied. Entry point: [`Warden`].

use crate::api::ApiError;
use crate::grant::{Denied, Grant};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// Leave for one call. Held until the server has answered.
pub type Admission = Box<dyn Send>;

/// Bounds the calls that a client makes to servers, which those answered by a cache are not, and keeps account of denials.
///
/// A client has one when it was made with [`Client::under`](super::Client::under).
pub trait Warden: Send + Sync {
    /// Waits until one more call may begin, no longer than `patience`.
    ///
    /// # Errors
    /// `limit-exceeded` when none may within that time.
    ///
    /// # Cancellation
    /// Dropping the future gives up its place.
    fn admit(&self, patience: Duration) -> BoxFuture<'_, Result<Admission, ApiError>>;

    /// What is left now of the grant that a client was made with: rights may be withdrawn while it is in use. Asked before every call.
    /// Default: all of it.
    fn left_of(&self, grant: &Arc<Grant>) -> Arc<Grant> {
        grant.clone()
    }

    /// A call was denied for want of a rule. The caller is told as well.
    fn denied(&self, missing: &Denied);

    /// Charges memory that the host keeps for the caller until the charge is dropped. Default: nothing is charged.
    ///
    /// # Errors
    /// `limit-exceeded` when the caller may have no more.
    fn charge(&self, _bytes: usize) -> Result<Admission, ApiError> {
        Ok(Box::new(()))
    }

    /// An event was refused: it is not valid, or more than may be recorded.
    fn event_refused(&self) {}
}

/// Bounds the calls that the host makes for a caller with rights of its own, as those that write its events.
pub(super) struct BoundsOnly(pub(super) Arc<dyn Warden>);

impl Warden for BoundsOnly {
    fn admit(&self, patience: Duration) -> BoxFuture<'_, Result<Admission, ApiError>> {
        self.0.admit(patience)
    }

    fn denied(&self, missing: &Denied) {
        self.0.denied(missing);
    }
}
