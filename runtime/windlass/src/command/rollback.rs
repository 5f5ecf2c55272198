//! `windlass rollback`: makes a reconciler serve its previous revision. Entry point: [`execute`].

use crate::cli::{Format, RollbackArgs};
use crate::command::client::Client;
use crate::output::Tone;
use crate::status::view::{RollbackReply, RollbackRequest};
use std::process::ExitCode;

/// Calls the manager and prints the revision that serves.
///
/// # Errors
/// When no manager answers, or the rollback fails: then the current revision keeps serving.
pub(crate) async fn execute(args: RollbackArgs, format: Format) -> anyhow::Result<ExitCode> {
    let request = RollbackRequest {
        reconciler: args.reconciler,
        to: args.to,
        undo: args.undo,
    };
    let reply: RollbackReply = Client::new(&args.admin)
        .await?
        .post("/api/v1/rollback", &request)
        .await?;
    match format {
        Format::Json => anstream::println!("{}", serde_json::to_string(&reply)?),
        Format::Text | Format::Wide | Format::Markdown => anstream::println!("{}", as_text(&reply)),
    }
    if !reply.note.is_empty() {
        anstream::eprintln!("{}", Tone::Warn.paint(&reply.note));
    }
    Ok(super::DONE)
}

fn as_text(reply: &RollbackReply) -> String {
    let short = |digest: &str| digest.chars().take(12).collect::<String>();
    let (name, revision) = (&reply.reconciler, short(&reply.revision));
    if !reply.rolled_back {
        return format!("{name} serves {revision}, the revision of its file");
    }
    format!(
        "{name} serves {revision} instead of {}, until its file changes or windlass rollback {name} --undo",
        short(&reply.previous)
    )
}
