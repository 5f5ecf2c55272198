//! Detects a runtime that makes no progress. Entry point: [`Heartbeat::start`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The time between beats.
const INTERVAL: Duration = Duration::from_secs(1);
/// A runtime without a beat for this long is stuck: code that does not yield holds all of its threads.
const STUCK: Duration = Duration::from_secs(60);
/// How long a check waits for another beat: after the whole process was stopped, all beats are late.
const WAIT: Duration = Duration::from_secs(2);

/// The beats of one runtime.
#[derive(Debug, Clone)]
pub(crate) struct Heartbeat {
    /// The name of the runtime.
    pub(crate) name: &'static str,
    start: Instant,
    /// The last beat, in milliseconds since the start.
    last: Arc<AtomicU64>,
}

impl Heartbeat {
    /// Starts to beat on the current runtime: every second in which `makes_progress` returns true.
    pub(crate) fn start(
        name: &'static str,
        mut makes_progress: impl FnMut() -> bool + Send + 'static,
    ) -> Self {
        let heart = Self {
            name,
            start: Instant::now(),
            last: Arc::default(),
        };
        let beating = heart.clone();
        tokio::spawn(async move {
            loop {
                if makes_progress() {
                    let at = u64::try_from(beating.start.elapsed().as_millis()).unwrap_or(u64::MAX);
                    beating.last.store(at, Ordering::Relaxed);
                }
                sleep(INTERVAL).await;
            }
        });
        heart
    }

    fn silence(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last)
    }

    /// Checks for a recent beat.
    ///
    /// # Errors
    /// The time since the last beat, if the runtime is stuck.
    pub(crate) async fn check(&self) -> Result<(), Duration> {
        self.check_within(STUCK, WAIT).await
    }

    async fn check_within(&self, stuck: Duration, wait: Duration) -> Result<(), Duration> {
        if self.silence() <= stuck {
            return Ok(());
        }
        sleep(wait).await;
        match self.silence() {
            silence if silence <= stuck => Ok(()),
            silence => Err(silence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_whose_threads_are_all_held_is_found_and_one_that_works_is_not() {
        let one = || {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap()
        };
        let (held, asking) = (one(), one());
        let heart = {
            let _held = held.enter();
            Heartbeat::start("held", || true)
        };
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let (begun, at_work) = std::sync::mpsc::channel();
        held.spawn(async move {
            begun.send(()).unwrap();
            // What no reconciler may do: it blocks the only thread.
            let _ = wait.recv();
        });
        at_work.recv().unwrap();
        let (stuck, patience) = (Duration::from_millis(1500), Duration::from_millis(1600));
        let silent = asking.block_on(heart.check_within(Duration::ZERO, patience));
        assert!(silent.unwrap_err() >= Duration::from_millis(1500));
        drop(release);
        assert_eq!(asking.block_on(heart.check_within(stuck, patience)), Ok(()));
    }

    #[tokio::test]
    async fn a_part_that_makes_no_progress_is_found() {
        let long = Duration::from_millis(1500);
        let (stuck, works) = (
            Heartbeat::start("stuck", || false),
            Heartbeat::start("works", || true),
        );
        let patience = long + Duration::from_millis(100);
        let (stuck, works) = tokio::join!(
            stuck.check_within(Duration::ZERO, patience),
            works.check_within(long, patience)
        );
        assert!(stuck.unwrap_err() >= long);
        assert_eq!(works, Ok(()));
    }
}
