//! `windlass run`: the manager in the foreground. Entry point: [`execute`].

use crate::cli::{Format, RunArgs};
use crate::run::signals::stop_on_signals;
use crate::run::{self, Pace, RunOptions};
use std::process::ExitCode;
use windlass_sandbox::{NativeGuests, Options};

/// Runs until a signal or until idle.
///
/// # Errors
/// When nothing can start.
pub(crate) async fn execute(
    args: RunArgs,
    format: Format,
    engine: Options,
) -> anyhow::Result<ExitCode> {
    let options = RunOptions {
        files: args.files,
        from_cluster: args.from_cluster,
        simulated: None,
        rebuild: None,
        admin: args.admin,
        found_in: None,
        idle: args.idle,
        gives_up: None,
        then: None,
        pace: Pace::default(),
        needs: None,
        rehearsal: None,
        natives: NativeGuests::default(),
        engine,
        stop: stop_on_signals()?,
    };
    super::finish(run::run(options).await?, format)
}
