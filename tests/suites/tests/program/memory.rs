//! What the program takes of memory, whatever guests do with theirs.

use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, create_watched, fleet, start};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use std::fs;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

/// What the guest hands to the host in one call, in bytes.
const SIZE: u64 = 150_000_000;

/// The most memory that the program ever had, in bytes.
fn most_memory(program: &Program) -> Result<u64> {
    memory(program, "VmHWM:")
}

/// A line of what the system says of the program's memory, in bytes.
fn memory(program: &Program, line: &str) -> Result<u64> {
    let pid = program.pid().context("it runs")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status.lines().find_map(|text| text.strip_prefix(line));
    let kib = kib.and_then(|text| text.trim().strip_suffix(" kB"));
    Ok(kib
        .with_context(|| format!("{line} in kB"))?
        .parse::<u64>()?
        << 10)
}

/// The program, once its guest is loaded.
async fn ready(project: &Project) -> Result<(Program, Http)> {
    let (program, address) = start(project).await?;
    let http = Http { address };
    eventually(SOON, "the guest to be loaded", || async {
        let (status, _) = http.get("/readyz").await?;
        Ok(Seen::of(status, |status| *status == 200))
    })
    .await?;
    Ok((program, http))
}

#[tokio::test]
async fn what_is_too_much_for_the_host_is_refused_before_it_is_copied() -> Result<()> {
    let project = Project::new()?;
    let document = reconciler("huge", &guest("test-huge")).replace(
        "{greeting: hello}",
        &format!("{{what: object, size: {SIZE}}}"),
    );
    let limits = "  limits: {memory: 250Mi, timeout: 30s, concurrency: 1}\n";
    let path = project.write_config(&[document + limits])?;
    // Not enough for a second instance: the next call begins once the memory of the one before is given back.
    let alone = fs::read_to_string(&path)?.replace(
        "limits: {concurrency: 32}",
        "limits: {concurrency: 32, memory: 250Mi}",
    );
    fs::write(&path, alone)?;
    let server = fleet(&project, &["alpha"]).await?;
    let (program, http) = ready(&project).await?;
    let before = most_memory(&program)?;
    let alpha = server.cluster("alpha").context("it is served")?;
    for object in ["a", "b", "c"] {
        create_watched(&alpha, object)?;
    }
    let item = eventually(SOON, "refused calls", || async {
        let (_, body) = http.get("/api/v1/reconcilers").await?;
        let item = serde_json::from_str::<Json>(&body)?["items"][0].clone();
        Ok(Seen::of(item, |item| {
            item["usage"]["limitHits"]["hostCallBytes"].as_u64() >= Some(6)
        }))
    })
    .await?;
    let guests = item["usage"]["memoryPeak"].as_u64().unwrap_or_default();
    assert!(guests >= SIZE, "{item}");
    let more = most_memory(&program)? - before;
    assert!(
        more < guests + SIZE / 2,
        "{more} bytes more for a guest that had {guests}"
    );
    Ok(())
}

/// Lists of a batch, objects in each, and bytes of an object: 300 megabytes in all.
const LISTS: usize = 30;
const OBJECTS: usize = 20;
const OBJECT: usize = 500_000;

#[tokio::test]
async fn a_batch_of_everything_costs_the_host_what_one_call_may_and_is_given_back() -> Result<()> {
    let project = Project::new()?;
    let list = json!({"do": "list", "kind": ["v1", "Secret"], "options": {"mode": "live"}});
    let steps = json!({"steps": [{"do": "batch", "steps": vec![list; LISTS]}]});
    let document = reconciler("everything", &guest("test-calls"))
        .replace("{greeting: hello}", &steps.to_string())
        .replace("[configmaps]", "[configmaps, secrets]");
    let limits = "  limits: {memory: 250Mi, timeout: 60s, concurrency: 4}\n";
    project.write_config(&[document + limits])?;
    let server = fleet(&project, &["alpha"]).await?;
    let alpha = server.cluster("alpha").context("it is served")?;
    for at in 0..OBJECTS {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": "default", "name": format!("large-{at}")},
            "stringData": {"text": "x".repeat(OBJECT)}});
        let created = alpha.create(secret);
        created.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    }
    let (program, http) = ready(&project).await?;
    let before = most_memory(&program)?;
    for object in ["a", "b", "c", "d"] {
        create_watched(&alpha, object)?;
    }
    eventually(SOON, "the runs to end", || async {
        let (_, body) = http.get("/api/v1/reconcilers").await?;
        let item = serde_json::from_str::<Json>(&body)?["items"][0].clone();
        Ok(Seen::of(item, |item| {
            let refused = item["usage"]["limitHits"]["responseBytes"].as_u64();
            item["terminal"].as_u64() == Some(4) && refused.is_some_and(|refused| refused >= 4)
        }))
    })
    .await?;
    // Half of the bound of 256 MiB for answers, and four instances with 16 MiB of answers each and what they make of them. All lists
    // together are 1.2 gigabytes.
    let more = most_memory(&program)? - before;
    assert!(more < 450_000_000, "{more} bytes more at most");
    eventually(SOON, "the memory to be given back", || async {
        let kept = memory(&program, "VmRSS:")?.saturating_sub(before);
        Ok(Seen::of(kept, |kept| *kept < 100_000_000))
    })
    .await?;
    Ok(())
}
