//! The signals that end a run. Entry point: [`Signals::next`].

use super::error::ManagerError;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT of this process, which no longer end it by themselves.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// # Errors
    /// [`ManagerError::Signals`].
    pub(super) fn listen() -> Result<Self, ManagerError> {
        let listen = |kind| signal(kind).map_err(|error| ManagerError::Signals(error.kind()));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        let signal = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal, "a signal arrived");
    }
}
