//! A guest that works steadily beside one of another tenant that does its worst. Entry point: [`measure`].

use super::stage::{Loose, NO_NPM, Setup, Stage, Watched, component, rust};
use crate::fleet::simulated::{Layout, Order, Simulated};
use crate::fleet::subject::{settled, watching};
use crate::fleet::table::verdict;
use crate::rig::Manager;
use crate::until::until;
use crate::workload::{Workload, tell};
use anyhow::{Context as _, Result};
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_fleet::TenantName;
use windlass_sandbox::Limits;

const HOT: usize = 100;
const QUIET: usize = 200;
/// Runs of each at once.
const CONCURRENCY: usize = 16;
/// Updates of quiet objects per second.
const RATE: f64 = 200.0;
const SECONDS: f64 = 8.0;
/// The steady guest may take so many times as long as without its neighbour.
const BAR: f64 = 2.0;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "harm",
    title: "a guest with 200 updates/s beside one that does its worst for 100 keys, 16 at once; due to reconciled, ms",
    heads: &[
        "the other      ",
        "alone p50",
        "   p99",
        "beside p50",
        "   p99",
        "p99 ratio",
        "done/s alone",
        "beside",
        "failed",
        "its calls/s",
        "bar       ",
    ],
    runs: &[
        &["test-loop"],
        &["test-memory"],
        &["test-recursion"],
        &["test-panic"],
        &["test-log"],
        &["test-requeue"],
        &["test-calls"],
        &["test-storm"],
        &["test-forge"],
        &["test-leak"],
        &["test-huge"],
        &["js/test-runaway"],
    ],
};

/// What makes it do its worst.
fn config(guest: &str) -> &'static str {
    match guest {
        "test-log" => r#"{"lines": 100000, "length": 100}"#,
        "test-requeue" => r#"{"after": 0}"#,
        "test-storm" => r#"{"live": false}"#,
        "test-huge" => r#"{"what": "object", "size": 2000000}"#,
        _ => "{}",
    }
}

pub(crate) async fn measure(other: &str) -> Result<()> {
    let Some(harmful) = component(other)? else {
        return tell(vec![other.to_owned(), NO_NPM.to_owned()]);
    };
    let layout = Layout {
        clusters: 1,
        sets: vec![("hot".into(), HOT), ("quiet".into(), QUIET)],
        filler: 500,
        tls: false,
    };
    let mut server = Simulated::start(layout).await?;
    let stage = Stage::new()?;
    let steady = stage.load(rust("echo")?).await?;
    let steady = Watched::new(stage.guest(steady, Setup::default()).await?);
    let limits = Limits {
        timeout: Duration::from_secs(1),
        ..Limits::default()
    };
    let harmful = stage.load(harmful).await?;
    let setup = Setup {
        tenant: "noisy",
        config: config(other),
        limits,
        ..Setup::default()
    };
    let harmful = Loose::new(stage.guest(harmful, setup).await?);
    let quiet = watching("steady", Some("set=quiet"), CONCURRENCY)?
        .tenant(TenantName::new("bench")?)
        .build(steady.clone())?;
    let hot = watching("noisy", Some("set=hot"), CONCURRENCY)?
        .tenant(TenantName::new("noisy")?)
        .build(harmful.clone())?;
    let builder = stage.manager().controller(quiet).controller(hot);
    let manager = Manager::engage(builder, server.specs()?).await?;
    settled(&manager).await?;
    let load = Order::Load {
        set: "quiet".into(),
        clusters: 0..1,
        rate: RATE,
        seconds: SECONDS,
    };
    let mut phases = Vec::new();
    for noise in [false, true] {
        if noise {
            harmful.on.store(true, Ordering::Relaxed);
            let wake = Order::Burst {
                set: "hot".into(),
                rounds: 1,
                clusters: 0..1,
            };
            server.order(&wake).await?;
            until("the neighbour to be at it", || {
                harmful.calls.load(Ordering::Relaxed) >= CONCURRENCY
            })
            .await?;
        }
        steady.clear();
        harmful.calls.store(0, Ordering::Relaxed);
        let told = server.order(&load).await?;
        let all = until("every update to be reconciled", || {
            steady.done.count() + 5 >= told.updates
        });
        let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
        phases.push([0.5, 0.99].map(|share| steady.done.at(share)));
        phases.push([steady.done.count() as f64 / SECONDS, 0.0]);
    }
    let calls = harmful.calls.load(Ordering::Relaxed) as f64 / SECONDS;
    let [alone, throughput, beside, with] = phases.as_slice() else {
        return Err(anyhow::anyhow!("two phases")).context("measured");
    };
    let failed = steady.failed.load(Ordering::Relaxed);
    let ratio = beside[1] / alone[1];
    let kept = with[0] >= 0.99 * throughput[0];
    tell(vec![
        other.to_owned(),
        format!("{:.2}", alone[0]),
        format!("{:.2}", alone[1]),
        format!("{:.2}", beside[0]),
        format!("{:.2}", beside[1]),
        format!("{ratio:.2}"),
        format!("{:.0}", throughput[0]),
        format!("{:.0}", with[0]),
        failed.to_string(),
        format!("{calls:.0}"),
        verdict("2.0", ratio <= BAR && kept && failed == 0),
    ])?;
    // The neighbour never ends: the manager ends with the process.
    drop(manager);
    Ok(())
}
