//! What the program takes of memory, whatever guests do with theirs.

use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, create_watched, fleet, start};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::fs;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

/// What the guest hands to the host in one call, in bytes.
const SIZE: u64 = 150_000_000;

/// The most memory that the program ever had, in bytes.
fn most_memory(program: &Program) -> Result<u64> {
    let pid = program.pid().context("it runs")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.context("VmHWM in kB")?.parse::<u64>()? << 10)
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
    let (program, address) = start(&project).await?;
    let http = Http { address };
    eventually(SOON, "the guest to be loaded", || async {
        let (status, _) = http.get("/readyz").await?;
        Ok(Seen::of(status, |status| *status == 200))
    })
    .await?;
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
