//! Calls of guests that compute for long in what cannot be interrupted, apart from others'. Entry point: [`Sideline`].

use super::Seat;
use crate::identity::Identity;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// Where the calls of a guest compute that is sidelined.
pub(crate) struct Sideline(Handle);

impl Sideline {
    /// `None`: its calls compute where they are.
    pub(crate) fn of(identity: &Identity) -> Option<Self> {
        if !identity.is_sidelined() {
            return None;
        }
        Seat::sideline().map(Self)
    }

    /// Runs a call there. It begins at once, and not when it is awaited.
    ///
    /// # Cancellation
    /// Dropping the future abandons the call. One that computes just then does so until it can be interrupted. A manager drops no run
    /// before its end.
    pub(crate) fn run<F>(self, call: F) -> BoxFuture<'static, F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let call = AbortOnDropHandle::new(self.0.spawn(call.in_current_span()));
        async move {
            match call.await.map_err(|error| error.try_into_panic()) {
                Ok(done) => done,
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                // The runtime ends, and this with it.
                Err(Err(_)) => std::future::pending().await,
            }
        }
        .boxed()
    }
}
