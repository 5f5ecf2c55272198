//! `windlass fleet`: serves clusters in memory to the unit tests of a guest. Entry point: [`execute`].

use crate::cli::FleetArgs;
use crate::dev::socket::{AFTER_FAILURE, Socket};
use crate::dev::test_fleet::TestFleets;
use crate::run::signals::stop_on_signals;
use crate::status::process::raise_descriptor_limit;
use anyhow::Result;
use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_author::definitions::Manifest;

/// Prints where it listens, and serves until a signal, or until its standard input ends: then the process of the tests has gone.
///
/// # Errors
/// When it cannot listen, or a definition of the project is not valid.
pub(crate) async fn execute(args: FleetArgs) -> Result<ExitCode> {
    let stop = stop_on_signals()?;
    raise_descriptor_limit();
    let manifests = Manifest::all(&args.folder)?.into_iter();
    let definitions = manifests.map(|manifest| manifest.document).collect();
    let fleets = Arc::new(TestFleets::start(definitions).await?);
    let socket = Socket::open()?;
    anstream::println!("{}", socket.path().display());
    stop_at_end_of_input(stop.clone());
    while let Some(connected) = stop.run_until_cancelled(socket.accept()).await {
        let lines = match connected {
            Ok(lines) => lines,
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "no test can connect");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        let fleets = fleets.clone();
        tokio::spawn(async move {
            if let Err(error) = fleets.serve(lines).await {
                tracing::debug!(error = format!("{error:#}"), "a test fleet ends");
            }
        });
    }
    Ok(super::DONE)
}

/// A thread, because a read of standard input cannot be cancelled: it ends with the process.
fn stop_at_end_of_input(stop: CancellationToken) {
    std::thread::spawn(move || {
        let mut rest = [0; 1024];
        while matches!(std::io::stdin().read(&mut rest), Ok(1..)) {}
        stop.cancel();
    });
}
