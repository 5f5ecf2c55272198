//! The commands: one file each, from flags to exit code. Entry points: their `execute` functions.

mod api_server;
mod progress;
pub(crate) mod build;
pub(crate) mod check;
mod client;
pub(crate) mod completion;
pub(crate) mod console;
pub(crate) mod crds;
pub(crate) mod dev;
pub(crate) mod drain;
pub(crate) mod fleet;
pub(crate) mod get;
pub(crate) mod kcp;
pub(crate) mod new;
pub(crate) mod pause;
pub(crate) mod plan;
pub(crate) mod preflight;
pub(crate) mod rbac;
pub(crate) mod record;
pub(crate) mod registry;
pub(crate) mod release;
pub(crate) mod replay;
pub(crate) mod requeue;
pub(crate) mod rollback;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod test;
pub(crate) mod types;
pub(crate) mod upgrade;

use crate::cli::Format;
use crate::run::idle::Report;
use std::process::ExitCode;

/// Done.
pub(crate) const DONE: ExitCode = ExitCode::SUCCESS;

/// Something failed, and the error was printed.
pub(crate) const FAILED: ExitCode = ExitCode::FAILURE;

/// The path of the file of a recording.
fn recording(id: &str) -> String {
    let id = percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC);
    format!("/api/contents/v1/recordings/{id}")
}

/// Prints the report of a run that ended when idle. A run that a signal ended has no report.
///
/// # Errors
/// When the report cannot be turned into JSON.
fn finish(report: Option<Report>, format: Format) -> anyhow::Result<ExitCode> {
    let Some(report) = report else {
        return Ok(DONE);
    };
    report.print(format)?;
    Ok(if report.done { DONE } else { FAILED })
}
