//! `windlass drain`: has a process give its clusters to the others. Entry point: [`execute`].

use crate::cli::{DrainArgs, Format};
use crate::command::client::Client;
use crate::output::{Tone, count};
use crate::status::view::{DrainReply, MemberView, ShardsView};
use anyhow::bail;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often the manager is asked how many shards are left.
const LOOK: Duration = Duration::from_millis(500);

/// Calls the manager, and waits until other processes hold its shards.
///
/// # Errors
/// When no manager answers, or it has no shards to give away.
pub(crate) async fn execute(args: DrainArgs, format: Format) -> anyhow::Result<ExitCode> {
    let mut admin = args.admin;
    if args.member.is_some() {
        admin.pod = args.member;
    }
    if admin.is_in_cluster() && admin.pod.is_none() {
        bail!("name the process that is to give its clusters away: windlass get shards lists them");
    }
    let client = Client::new(&admin).await?;
    let body = serde_json::json!({});
    let reply: DrainReply = client.post("/api/v1/drain", &body).await?;
    let member = reply.member.as_str();
    if reply.others == 0 && reply.shards > 0 {
        let text = format!(
            "{member} is the only process that lives: it keeps its shards until another one takes them"
        );
        anstream::eprintln!("{}", Tone::Warn.paint(&text));
        return Ok(super::FAILED);
    }
    let deadline = Instant::now() + args.timeout.0;
    let left = loop {
        let view: ShardsView = client.get("/api/v1/shards").await?;
        let left = left(&view);
        if left.shards == 0 || Instant::now() > deadline {
            break left;
        }
        sleep(LOOK).await;
    };
    match format {
        Format::Json => anstream::println!("{}", serde_json::to_string(&left)?),
        _ if left.shards == 0 => anstream::println!("{member} holds no shards"),
        Format::Text | Format::Wide | Format::Markdown => anstream::println!(
            "{member} still holds {} with {}: see windlass get shards",
            count(left.shards, "shard"),
            count(left.clusters, "cluster")
        ),
    }
    let is_done = left.shards == 0;
    Ok(if is_done { super::DONE } else { super::FAILED })
}

/// What the process that answers holds.
fn left(view: &ShardsView) -> MemberView {
    let own = view.items.iter().find(|member| member.name == view.member);
    own.cloned().unwrap_or_default()
}
