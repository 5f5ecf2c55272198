//! `windlass preflight`: the clusters and hubs that a configuration reaches, and what its credentials may not do there.
//! Entry point: [`execute`].
//!
//! * `engaged`: the clusters of the Providers, engaged by a manager without reconcilers; `recorded`: which Provider has which, and its hub.
//! * `needs`: the questions about a cluster; `check`: asks them.
//! * `report`: the answers, for people and programs.

mod check;
mod engaged;
mod needs;
mod recorded;
mod report;

use crate::cli::{Format, PreflightArgs};
use crate::command::rbac;
use crate::status::process::raise_descriptor_limit;
use anyhow::Result;
use engaged::Engaged;
use needs::Plan;
use report::Report;
use std::process::ExitCode;
use std::time::SystemTime;
use windlass_sandbox::Options;

/// Asks the Providers once, connects to every cluster, asks for rights, and prints the report. Exit code 1 when anything is missing,
/// cannot be reached or was not answered in time.
///
/// # Errors
/// When a document is not valid, or the local cluster or the engine cannot be used.
pub(crate) async fn execute(
    args: PreflightArgs,
    format: Format,
    engine: Options,
) -> Result<ExitCode> {
    raise_descriptor_limit();
    let configuration = rbac::valid(&args.files)?;
    // Clusters connect while guests describe themselves.
    let engaged = Engaged::start(&configuration)?;
    let work = rbac::work(&configuration, engine).await?;
    let plan = Plan::new(&configuration, work);
    let checked = engaged.check(&plan, args.timeout.0).await;
    let report = Report::new(checked, engaged.problems());
    match format {
        Format::Json => anstream::println!("{}", serde_json::to_string_pretty(&report)?),
        Format::Text | Format::Wide | Format::Markdown => {
            anstream::print!("{}", report.text(format == Format::Wide, SystemTime::now()));
        }
    }
    Ok(if report.ok {
        super::DONE
    } else {
        super::FAILED
    })
}
