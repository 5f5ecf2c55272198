//! SIGTERM and SIGINT: the first drains, the second ends the process at once. Entry point: [`stop_on_signals`].

use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How the process ends after a second signal.
const AT_ONCE: i32 = 1;

/// What is cancelled at the first signal, in the background.
///
/// # Errors
/// When signals cannot be listened to.
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
        tracing::warn!(signal, "ended at once; what was running is cut off");
        std::process::exit(AT_ONCE);
    });
    Ok(token)
}
