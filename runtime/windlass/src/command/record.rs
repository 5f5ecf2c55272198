//! `windlass record`: reconciles a key now, and records the run. Entry point: [`execute`].

use crate::cli::{Format, RecordArgs};
use crate::command::client::Client;
use crate::status::view::{Items, RecordReply, RecordingView, RequeueRequest};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, interval};
use windlass_fleet::Request;

/// How often the manager is asked whether the run has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Calls the manager, waits for the run of each reconciler, and writes their files.
///
/// # Errors
/// When the key cannot be read, no manager answers, no reconciler runs the key in time, or a file cannot be written.
pub(crate) async fn execute(args: RecordArgs, format: Format) -> Result<ExitCode> {
    let request: Request = args.key.parse()?;
    let client = Client::new(&args.admin).await?;
    let client = client.of(&request.cluster).await?;
    let key = request.to_string();
    let before: BTreeSet<String> = asked_for(&client, &key).await?.map(|it| it.id).collect();
    let body = RequeueRequest {
        key: key.clone(),
        reconciler: args.reconciler,
    };
    let reply: RecordReply = client.post("/api/v1/record", &body).await?;
    let mut waiting: BTreeSet<String> = reply.reconcilers.into_iter().collect();
    if args.file.is_some() && waiting.len() > 1 {
        let names: Vec<_> = waiting.into_iter().collect();
        bail!(
            "{} reconcile {key}, and --file is one file: add --reconciler",
            names.join(" and ")
        );
    }
    let deadline = Instant::now() + args.timeout.0;
    let mut looks = interval(LOOK);
    let mut problems = Vec::new();
    while !waiting.is_empty() {
        looks.tick().await;
        let news = asked_for(&client, &key).await?;
        for recording in news.filter(|recording| !before.contains(&recording.id)) {
            if waiting.remove(&recording.reconciler) {
                match write(&client, &recording, args.file.clone()).await {
                    Ok(file) => print(&file, &recording, format)?,
                    Err(error) => problems.push(format!("{error:#}")),
                }
            }
        }
        if Instant::now() > deadline && !waiting.is_empty() {
            let names: Vec<_> = waiting.into_iter().collect();
            bail!(
                "{key} did not run within {}: windlass get keys {key} says why {} not run it",
                args.timeout,
                match &names[..] {
                    [one] => format!("{one} does"),
                    many => format!("{} do", many.join(" and ")),
                }
            );
        }
    }
    if !problems.is_empty() {
        bail!(problems.join("\n"));
    }
    Ok(super::DONE)
}

fn print(file: &Path, recording: &RecordingView, format: Format) -> Result<()> {
    match format {
        Format::Json => anstream::println!("{}", serde_json::to_string(recording)?),
        Format::Text | Format::Wide | Format::Markdown => anstream::println!(
            "{}: {} of {}, {}",
            file.display(),
            recording.reconciler,
            recording.key,
            recording.outcome
        ),
    }
    Ok(())
}

/// The recordings of a key that somebody asked for.
async fn asked_for(
    client: &Client,
    key: &str,
) -> Result<impl Iterator<Item = RecordingView> + use<>> {
    let all: Items<RecordingView> = client.get("/api/v1/recordings").await?;
    let key = key.to_owned();
    let asked = move |one: &RecordingView| one.why == "asked" && one.key == key;
    Ok(all.items.into_iter().filter(asked))
}

/// Writes the file of a recording into this folder, or to the path that a flag names.
async fn write(
    client: &Client,
    recording: &RecordingView,
    file: Option<PathBuf>,
) -> Result<PathBuf> {
    let RecordingView { id, reconciler, .. } = recording;
    if let Some(problem) = &recording.problem {
        bail!("the run of {reconciler} is not kept: {problem}");
    }
    let text = client.get_bytes(&super::recording(id)).await?;
    let short: String = id.chars().take(8).collect();
    let file = file.unwrap_or_else(|| PathBuf::from(format!("{reconciler}-{short}.json")));
    std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    Ok(file)
}
