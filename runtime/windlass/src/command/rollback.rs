//! `windlass rollback`: has a reconciler serve the revision before. Entry point: [`execute`].

use crate::cli::{Format, RollbackArgs};
use crate::command::client::Client;
use crate::status::view::{RollbackReply, RollbackRequest};
use std::process::ExitCode;

/// Asks the manager and tells what serves.
///
/// # Errors
/// When no manager answers, or it cannot be: what served goes on.
pub(crate) async fn execute(args: RollbackArgs, format: Format) -> anyhow::Result<ExitCode> {
    let request = RollbackRequest {
        reconciler: args.reconciler,
        to: args.to,
        undo: args.undo,
    };
    let reply: RollbackReply = Client::new(&args.admin.admin)
        .post("/api/v1/rollback", &request)
        .await?;
    match format {
        Format::Json => anstream::println!("{}", serde_json::to_string(&reply)?),
        Format::Text | Format::Wide => anstream::println!("{}", as_text(&reply)),
    }
    Ok(super::DONE)
}

fn as_text(reply: &RollbackReply) -> String {
    let short = |digest: &str| digest.chars().take(12).collect::<String>();
    let (name, revision) = (&reply.reconciler, short(&reply.revision));
    if !reply.rolled_back {
        return format!("{name} serves {revision}, as its file has it");
    }
    format!(
        "{name} serves {revision} instead of {}, until its file changes or windlass rollback {name} --undo",
        short(&reply.previous)
    )
}
