//! Random guests and components: the host always answers with a message, in time, and within the grants. Entry
//! points: the tests in the modules below.
//!
//! `./test --fuzz SECONDS --seed N` runs them for longer and from other seeds. What a guest does follows from the seed; how the
//! host's tasks meet it does not, so that a failure may need more than one run to show again.

mod components;
mod handed;

use anyhow::{Context as _, Result, anyhow};
use std::time::{Duration, Instant};

/// How long and from which seed: set by `./test`.
pub(crate) struct Length {
    /// When the first seed was asked for.
    began: Option<Instant>,
    time: Duration,
    seed: u64,
    /// The next seed.
    next: u64,
}

impl Length {
    pub(crate) fn from_environment() -> Result<Self> {
        let number = |name: &str, default: u64| match std::env::var(name) {
            Ok(text) => text
                .parse()
                .with_context(|| format!("{name} must be a number, not {text:?}")),
            Err(_) => Ok(default),
        };
        let seed = number("WINDLASS_FUZZ_SEED", 1)?;
        Ok(Self {
            began: None,
            time: Duration::from_secs(number("WINDLASS_FUZZ_SECONDS", 3)?),
            seed,
            next: seed,
        })
    }

    /// The next seed, while there is time. The time begins with the first.
    fn next(&mut self) -> Option<u64> {
        let began = *self.began.get_or_insert_with(Instant::now);
        let seed = (began.elapsed() < self.time).then_some(self.next)?;
        self.next += 1;
        Some(seed)
    }

    /// How many seeds were used.
    fn used(&self) -> u64 {
        self.next - self.seed
    }

    /// An error that says how to see it again.
    fn at<T>(&self, seed: u64, result: Result<T>) -> Result<T> {
        let seconds = self.time.as_secs();
        result.map_err(|error| {
            anyhow!("{error:#}\nagain with: ./test --fuzz {seconds} --seed {seed}")
        })
    }
}
