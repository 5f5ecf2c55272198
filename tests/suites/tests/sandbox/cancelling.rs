//! A run that ends while one of its writes is on its way: the write lands first, and only then may the key run again.

use crate::fixture::{Stage, config_map};
use anyhow::Result;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::{AnswerVerdict, Call, Hook, RequestVerdict, Verb};
use windlass_harness::eventually::{Seen, wait};

/// How long a write takes: longer than the run may.
const WRITE: Duration = Duration::from_millis(1500);

/// Slows the writes of guests down, and notes when each came and was answered.
#[derive(Default)]
struct Slow(Mutex<Vec<(bool, Instant)>>);

fn is_write(call: &Call) -> bool {
    call.verb == Verb::Patch && call.name == "a-greeting"
}

impl Hook for Slow {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        if !is_write(call) {
            return RequestVerdict::Proceed;
        }
        self.0.lock().push((true, Instant::now()));
        RequestVerdict::Delay(WRITE)
    }

    fn answer(&self, _: &str, call: &Call, _: &bytes::Bytes) -> AnswerVerdict {
        if is_write(call) {
            self.0.lock().push((false, Instant::now()));
        }
        AnswerVerdict::Send
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_runs_again_only_when_the_write_of_the_run_before_has_landed() -> Result<()> {
    let slow = Arc::new(Slow::default());
    let stage = Stage::hooked(&["alpha"], slow.clone()).await?;
    let running = stage
        .guest("hello")
        .name("cut-off-while-writing")
        .limits(|limits| limits.timeout = Duration::from_millis(300))
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let failure = running.failure("alpha", "a").await?;
    assert!(
        failure.reason == "timeout" || failure.message.contains("cancelled"),
        "{failure}"
    );
    // It is tried again, finds what the write has left, and has nothing to do: had it run any earlier, it would have written once more.
    wait("a run that succeeds", || {
        Seen::of(running.runs() - running.failures().len(), |runs| *runs > 0)
    })
    .await?;
    assert_eq!(slow.0.lock().len(), 2, "one write, and its answer");
    let right = |data: &serde_json::Value| data["greeting"] == "hello, world, from alpha";
    stage.data("alpha", "a-greeting", right).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_while_a_write_is_on_its_way_runs_no_key_twice_at_once() -> Result<()> {
    let slow = Arc::new(Slow::default());
    let stage = Stage::hooked(&["alpha"], slow.clone()).await?;
    let running = stage
        .guest("hello")
        .name("swapped-while-writing")
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    wait("the write on its way", || {
        Seen::of(slow.0.lock().len(), |notes| *notes == 1)
    })
    .await?;
    let next = crate::fixture::revision("hello").await?;
    running.guest.swap(next).await?;
    running.put(&stage)?;
    // The object changes while its key runs, on the old revision: the new one runs it when that has ended.
    let mut changed = config_map("a", json!({}));
    changed["metadata"]["labels"]["hello.windlass.dev/greet"] = json!("moon");
    stage.apply("alpha", changed)?;
    let right = |data: &serde_json::Value| data["greeting"] == "hello, moon, from alpha";
    stage.data("alpha", "a-greeting", right).await?;
    wait("both runs to end", || {
        Seen::of(running.runs(), |runs| *runs >= 2)
    })
    .await?;
    assert_eq!(running.failures(), Vec::<String>::new());
    let notes = slow.0.lock().clone();
    let began: Vec<bool> = notes.iter().take(4).map(|(began, _)| *began).collect();
    assert_eq!(began, [true, false, true, false]);
    Ok(())
}
