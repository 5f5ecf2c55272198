//! Processes whose clock and random numbers follow from a seed. Entry point: [`block_on`].
//!
//! A program in one thread is the same run each time, if nothing reaches it from outside. Two things do: the clock, and the system's random numbers.
//! So in a process that has called [`block_on`]:
//!
//! * `clock_gettime` answers with tokio's paused time, which stands still while anything can run and jumps to the next timer when nothing can;
//! * `getrandom` answers with numbers of the seed: keys of hash maps, tokio's choice among branches, names and delays follow from it.
//!
//! A process that does not call it behaves as ever. One process simulates one seed, so that no run sees what another has left.

mod replaced;

use anyhow::{Context as _, Result, ensure};
use std::future::Future;

/// Runs what `begin` returns in one thread, under paused time, with the random numbers of a seed. From now on the process has no other clock.
///
/// # Errors
/// If the process has done so before, or tokio cannot be started.
pub fn block_on<F: Future>(seed: u64, begin: impl FnOnce() -> F + Send) -> Result<F::Output>
where
    F::Output: Send,
{
    ensure!(
        replaced::begin(seed),
        "a process is simulated once: start another one"
    );
    // The test's own thread has drawn the keys of its hash maps already. A new one has not.
    std::thread::scope(|scope| {
        let simulated = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .context("start a runtime")?;
            Ok(runtime.block_on(begin()))
        });
        let ended = simulated.join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// How much simulated time has passed.
#[must_use]
pub fn elapsed() -> std::time::Duration {
    replaced::elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::time::{Duration, Instant, SystemTime};

    /// The one test of this binary that is simulated: a process is simulated once.
    #[test]
    fn time_and_random_numbers_follow_from_the_seed() {
        let run = || async {
            let (begin, wall) = (Instant::now(), SystemTime::now());
            // Not a wait: time is simulated.
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            let order: Vec<u32> = (0..50)
                .map(|n| (n, ()))
                .collect::<HashMap<_, _>>()
                .into_keys()
                .collect();
            (begin.elapsed(), wall.elapsed().ok(), order)
        };
        let (passed, of_wall, order) = block_on(7, run).unwrap();
        let hour = Duration::from_secs(3_600);
        assert_eq!((passed, of_wall), (hour, Some(hour)));
        // What seed 7 gave when this was written.
        assert_eq!(order[..5], [5, 6, 25, 29, 47]);
    }
}
