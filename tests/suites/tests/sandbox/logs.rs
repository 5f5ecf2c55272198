//! What guests log, and what they print. Entry points: [`init`] and [`lines`].

use crate::fixture::{Stage, config_map};
use crate::neighbour::well_beside_a_neighbour;
use anyhow::Result;
use parking_lot::Mutex;
use serde_json::json;
use std::io;
use std::time::Instant;
use windlass_harness::eventually::{Seen, wait};
use windlass_sandbox::Rate;

/// Everything that this process logged. Tests tell their lines apart by reconciler.
static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Writes to the log above, and to the test's output.
struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGGED.lock().extend_from_slice(bytes);
        print!("{}", String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn init() {
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_writer(|| Writer);
    // Another test of this process may have been first: its subscriber is this one.
    drop(subscriber.try_init());
}

/// The lines about a reconciler that hold a text.
pub(crate) fn lines(reconciler: &str, text: &str) -> Vec<String> {
    let logged = LOGGED.lock();
    let logged = String::from_utf8_lossy(&logged);
    let of = format!("reconciler={reconciler}");
    logged
        .lines()
        .filter(|line| line.contains(&of) && line.contains(text))
        .map(str::to_owned)
        .collect()
}

async fn logged(reconciler: &str, text: &str) -> Result<Vec<String>> {
    wait(&format!("a line of {reconciler} with {text:?}"), || {
        Seen::of(lines(reconciler, text), |lines| !lines.is_empty())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_output_and_error_become_lines_of_the_log() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage.guest("test-output").run().await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    running
        .outcome("alpha", "a")
        .await?
        .expect("it only prints");
    assert!(logged("test-output", "out: a").await?[0].contains("INFO"));
    assert!(
        logged("test-output", "out: and more").await?[0].contains("INFO"),
        "a last line needs no end"
    );
    assert!(logged("test-output", "err: a warning").await?[0].contains("WARN"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_says_whose_it_is() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage.guest("hello").name("hello-logs").run().await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    running.outcome("alpha", "a").await?.expect("it greets");
    let line = logged("hello-logs", "greeted").await?.remove(0);
    for part in [
        "guest",
        "tenant=tenant-of-hello-logs",
        "cluster=alpha",
        "who=world",
        "greeting=default/a-greeting",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_cut_at_the_budget_and_counted() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let flood = stage
        .guest("test-log")
        // Other tests have this guest flood, too.
        .name("flood")
        .config(json!({"lines": 1000, "length": 100}))
        .limits(|limits| limits.log_bytes = 2000);
    let running = flood.run().await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    running
        .outcome("alpha", "a")
        .await?
        .expect("a flood is no failure");
    let dropped = logged("flood", "over limits.logBytes").await?;
    assert!(dropped[0].contains("lines=98"), "{}", dropped[0]);
    let written = lines("flood", "xxxx").len();
    assert!((10..=20).contains(&written), "{written} lines were written");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_log_lines_and_output_disturb_nobody() -> Result<()> {
    for (guest, config) in [
        ("test-log", json!({"lines": 2000, "length": 100})),
        ("test-output", json!({"kilobytes": 1000})),
    ] {
        let stage = Stage::start(&["alpha"]).await?;
        let name = format!("{guest}-beside");
        let builder = stage.guest(guest).name(&name).config(config);
        let builder = builder.limits(|limits| limits.log_bytes = 20_000);
        well_beside_a_neighbour(&stage, builder).await?;
        let dropped = lines(&name, "over limits.logBytes").len();
        assert!(dropped >= 4, "{guest}: told {dropped} times");
        let written: usize = lines(&name, "xxxx").iter().map(String::len).sum();
        assert!(written < dropped * 60_000, "{guest}: {written} bytes");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn megabytes_on_standard_output_are_cut_at_the_same_budget() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let babbling = stage
        .guest("test-output")
        .name("babbling")
        .config(json!({"kilobytes": 8000}))
        .limits(|limits| limits.log_bytes = 20_000);
    let running = babbling.run().await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    running
        .outcome("alpha", "a")
        .await?
        .expect("to print too much is no failure");
    logged("babbling", "over limits.logBytes").await?;
    let written: usize = lines("babbling", "xxxx").iter().map(String::len).sum();
    assert!(
        (10_000..=30_000).contains(&written),
        "{written} bytes were written"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_log_more_per_second_than_their_reconciler_may_are_cut_and_no_others()
-> Result<()> {
    const RUNS: usize = 40;
    let stage = Stage::start(&["alpha"]).await?;
    let hello = stage.guest("hello").name("logs-beside").run().await?;
    // Each call is far within its own budget.
    let hasty = stage
        .guest("test-log")
        .name("logs-in-haste")
        .config(json!({"lines": 5, "length": 100}))
        .limits(|limits| {
            limits.log_bytes = 1000;
            limits.log_bytes_per_second = Some(Rate { per_second: 50 });
        })
        .run()
        .await?;
    let began = Instant::now();
    for at in 0..RUNS {
        stage.apply("alpha", config_map(&format!("m{at}"), json!({})))?;
    }
    for at in 0..RUNS {
        let name = format!("m{at}");
        let done = hasty.outcome("alpha", &name).await?;
        done.expect("to log in haste is no failure");
        let greeted = hello.outcome("alpha", &name).await?;
        greeted.expect("the neighbour greets");
    }
    let written: usize = lines("logs-in-haste", "xxxx").len() * 100;
    let seconds = began.elapsed().as_secs_f64();
    // A call's worth at once, and then by time.
    let most = 1000.0 + 50.0 * (seconds + 1.0);
    assert!(
        written >= 500 && (written as f64) <= most,
        "{written} bytes in {seconds} s"
    );
    let status = hasty.guest.status();
    assert!(status.limit_hits["logBytesPerSecond"] > 0, "{status:?}");
    assert_eq!(status.limit_hits.get("logBytes"), None, "{status:?}");
    let told = logged("logs-in-haste", "over limits.logBytesPerSecond").await?;
    assert!(
        told.len() as f64 <= 1.0 + seconds / 10.0,
        "told now and then: {told:?}"
    );
    assert_eq!(lines("logs-beside", "over limits").len(), 0);
    for at in 0..RUNS {
        let greeting = format!("greeting=default/m{at}-greeting");
        assert!(!lines("logs-beside", &greeting).is_empty(), "{greeting}");
    }
    // On a busy machine a call may be interrupted, which is counted as well; its lines are what nobody else may use up.
    let hits = hello.guest.status().limit_hits;
    assert!(
        !hits.keys().any(|limit| limit.starts_with("logBytes")),
        "{hits:?}"
    );
    Ok(())
}
