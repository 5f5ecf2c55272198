//! `windlass rollback`: makes a reconciler serve its previous revision. Entry point: [`execute`].

use crate::cli::{Format, RollbackArgs};
use crate::command::client::Client;
use crate::output::{Tone, printable};
use crate::status::view::{RollbackReply, RollbackRequest};
use std::process::ExitCode;
use windlass_fleet::ClusterName;

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
    let client = Client::new(&args.admin).await?;
    // What one process writes on an object of the local cluster, the others have from there. A file is each one's own.
    let each = if request.reconciler.contains('/') {
        vec![(None, client.of(&ClusterName::local()).await?)]
    } else {
        client.each().await?
    };
    let mut all_done = true;
    for (name, client) in each {
        match (client.post("/api/v1/rollback", &request).await, name) {
            (Ok(reply), name) => print(&reply, name.as_deref(), format)?,
            (Err(error), None) => return Err(error),
            (Err(error), Some(name)) => {
                all_done = false;
                let text = format!("{name}: {error:#}");
                anstream::eprintln!("{}", Tone::Bad.paint(printable(&text)));
            }
        }
    }
    Ok(if all_done { super::DONE } else { super::FAILED })
}

/// `process`: the one that answered, of several.
fn print(reply: &RollbackReply, process: Option<&str>, format: Format) -> anyhow::Result<()> {
    let prefix = process.map_or_else(String::new, |process| format!("{process}: "));
    match format {
        Format::Json => anstream::println!("{}", serde_json::to_string(&reply)?),
        Format::Text | Format::Wide | Format::Markdown => {
            anstream::println!("{prefix}{}", as_text(reply));
        }
    }
    if !reply.note.is_empty() {
        let note = format!("{prefix}{}", reply.note);
        anstream::eprintln!("{}", Tone::Warn.paint(&note));
    }
    Ok(())
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
