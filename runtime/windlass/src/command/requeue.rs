//! `windlass requeue`: reconciles a key now. Entry point: [`execute`].

use crate::cli::{Format, RequeueArgs};
use crate::command::client::Client;
use crate::output::count;
use crate::status::view::{RequeueReply, RequeueRequest};
use std::process::ExitCode;
use windlass_fleet::Request;

/// Calls the manager and prints how many reconcilers took the key.
///
/// # Errors
/// When the key cannot be read, no manager answers, or no reconciler knows the key.
pub(crate) async fn execute(args: RequeueArgs, format: Format) -> anyhow::Result<ExitCode> {
    let request: Request = args.key.parse()?;
    let body = RequeueRequest {
        key: request.to_string(),
        reconciler: args.reconciler,
    };
    let reply: RequeueReply = Client::new(&args.admin)
        .await?
        .of(&request.cluster)
        .await?
        .post("/api/v1/requeue", &body)
        .await?;
    match format {
        Format::Json => anstream::println!("{}", serde_json::to_string(&reply)?),
        Format::Text | Format::Wide | Format::Markdown => anstream::println!(
            "{request} queued for {}",
            count(reply.requeued, "reconciler")
        ),
    }
    Ok(super::DONE)
}
