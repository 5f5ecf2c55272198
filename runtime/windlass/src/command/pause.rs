//! `windlass pause` and `windlass resume`: stop the runs of an object, a reconciler, a tenant or a cluster. Entry points: [`pause`] and [`resume`].

use crate::cli::{AdminArgs, Format, PauseArgs, PauseTarget, ResumeArgs};
use crate::command::client::Client;
use crate::status::view::{PauseReply, PauseRequest};
use std::process::ExitCode;
use windlass_fleet::{ClusterName, Request};

/// Pauses, and prints until when.
///
/// # Errors
/// When the key cannot be read, no manager answers, or it cannot pause that.
pub(crate) async fn pause(args: PauseArgs, format: Format) -> anyhow::Result<ExitCode> {
    let mut request = request(args.target)?;
    request.seconds = args.duration.map(|duration| duration.0.as_secs());
    request.reason = args.reason;
    request.deletions = args.deletions;
    let client = writer(&args.admin, &request).await?;
    print(client.post("/api/v1/pause", &request).await?, format)
}

/// Ends a pause.
///
/// # Errors
/// As [`pause`].
pub(crate) async fn resume(args: ResumeArgs, format: Format) -> anyhow::Result<ExitCode> {
    let request = request(args.target)?;
    let client = writer(&args.admin, &request).await?;
    print(client.post("/api/v1/resume", &request).await?, format)
}

/// The process that writes the annotation: it works on the cluster of the key, or on the local one, which has all other objects with pauses.
async fn writer(args: &AdminArgs, request: &PauseRequest) -> anyhow::Result<Client> {
    let key = request.key.as_ref().map(|key| key.parse::<Request>());
    let cluster = key.transpose()?.map(|key| key.cluster);
    let client = Client::new(args).await?;
    client.of(&cluster.unwrap_or_else(ClusterName::local)).await
}

fn request(target: PauseTarget) -> anyhow::Result<PauseRequest> {
    let key: Option<Request> = target.key.map(|key| key.parse()).transpose()?;
    Ok(PauseRequest {
        key: key.map(|key| key.to_string()),
        reconciler: target.reconciler,
        tenant: target.tenant,
        cluster: target.cluster,
        ..PauseRequest::default()
    })
}

fn print(reply: PauseReply, format: Format) -> anyhow::Result<ExitCode> {
    match format {
        Format::Json => anstream::println!("{}", serde_json::to_string(&reply)?),
        Format::Text | Format::Wide | Format::Markdown => {
            anstream::println!("{} {}", reply.subject, reply.state);
        }
    }
    Ok(super::DONE)
}
