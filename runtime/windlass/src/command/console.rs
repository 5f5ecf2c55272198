//! `windlass console`: prints where the page about a running manager is. Entry point: [`execute`].

use crate::cli::{AdminArgs, Format};
use crate::command::client::Client;
use serde_json::json;
use std::process::ExitCode;

/// Prints the address, and the command that opens the way to it if the manager is a pod.
///
/// # Errors
/// When no manager answers, or it does not know the caller.
pub(crate) async fn execute(args: AdminArgs, format: Format) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args).await?;
    // An address that would not work is of no use.
    let _: serde_json::Value = client.get("/api/v1/election").await?;
    let (forward, address) = client.console();
    match format {
        Format::Json => {
            anstream::println!("{}", json!({"portForward": forward, "address": address}));
        }
        Format::Text | Format::Wide | Format::Markdown => {
            if let Some(forward) = forward {
                anstream::println!("{forward}");
            }
            anstream::println!("{address}");
        }
    }
    Ok(super::DONE)
}
