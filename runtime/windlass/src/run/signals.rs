//! SIGTERM and SIGINT: the first drains, the second ends the process at once. Entry point: [`stop_on_signals`].

use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code after a second signal.
const KILLED: i32 = 1;

/// A token that the first signal cancels.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub(crate) fn stop_on_signals() -> io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let token = stop.clone();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let signal = next().await;
        tracing::info!(signal, "stopping; a second signal ends at once");
        stop.cancel();
        let signal = next().await;
        tracing::warn!(signal, "ended at once: running calls are cut off");
        std::process::exit(KILLED);
    });
    Ok(token)
}
