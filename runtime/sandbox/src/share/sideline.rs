//! Calls of guests that compute for long in what cannot be interrupted, apart from others'. Entry point: [`in_its_place`].

use super::Seat;
use crate::identity::Identity;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// Runs a guest's call where it is to compute: here, or on the sideline.
///
/// # Cancellation
/// Dropping the future abandons the call. On the sideline, one that computes just then does so until it can be interrupted. A manager drops
/// no run before its end.
pub(crate) async fn in_its_place<F>(identity: &Identity, call: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    if !identity.is_sidelined() {
        return call.await;
    }
    let Some(sideline) = Seat::sideline() else {
        return call.await;
    };
    let call = AbortOnDropHandle::new(sideline.spawn(call.in_current_span()));
    match call.await.map_err(|error| error.try_into_panic()) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime ends, and this with it.
        Err(Err(_)) => std::future::pending().await,
    }
}
