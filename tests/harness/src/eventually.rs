//! Waiting for a condition with a deadline. Entry points: [`eventually()`] and [`wait`].

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep, timeout_at};

/// How long anything may take before a test fails, unless the test says otherwise.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Time between two checks of the condition.
const INTERVAL: Duration = Duration::from_millis(20);

/// The result of one check of a condition.
///
/// Closures given to [`eventually()`] usually build it with [`Seen::of`].
#[derive(Debug)]
pub enum Seen<T> {
    /// The condition holds, with this value.
    Yes(T),
    /// The condition does not hold yet; the text describes the current state.
    NotYet(String),
}

impl<T: Debug> Seen<T> {
    /// `Yes` if `holds` accepts the value, otherwise a `No` that shows the value.
    pub fn of(value: T, holds: impl FnOnce(&T) -> bool) -> Self {
        if holds(&value) {
            Self::Yes(value)
        } else {
            Self::NotYet(format!("{value:?}"))
        }
    }
}

/// Calls `look` until it returns [`Seen::Yes`], and returns that value.
///
/// `what` completes the sentence "waited for …". An error of `look` counts as not yet, so a server may be unreachable for a while.
///
/// # Errors
/// After `deadline`, with the last state, even if a call of `look` hangs.
pub async fn eventually<T, Look, Fut>(deadline: Duration, what: &str, mut look: Look) -> Result<T>
where
    Look: FnMut() -> Fut,
    Fut: Future<Output = Result<Seen<T>>>,
{
    let end = Instant::now() + deadline;
    let mut last = "nothing: the first look did not end".to_owned();
    loop {
        match timeout_at(end, look()).await {
            Ok(Ok(Seen::Yes(value))) => return Ok(value),
            Ok(Ok(Seen::NotYet(seen))) => last = seen,
            Ok(Err(error)) => last = format!("error: {error:#}"),
            Err(_) => {}
        }
        if Instant::now() + INTERVAL > end {
            bail!("waited {deadline:?} for {what}; last seen: {last}");
        }
        sleep(INTERVAL).await;
    }
}

/// Like [`eventually()`], for a condition that needs no waiting to be checked, and with [`DEADLINE`].
///
/// # Errors
/// After the deadline, with the last state.
pub async fn wait<T>(what: &str, mut look: impl FnMut() -> Seen<T>) -> Result<T> {
    eventually(DEADLINE, what, || {
        let seen = look();
        async move { Ok(seen) }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[tokio::test(start_paused = true)]
    async fn returns_the_value_that_holds() -> Result<()> {
        let mut count = 0;
        let seen = eventually(Duration::from_secs(1), "three", || {
            count += 1;
            let now = count;
            async move { Ok(Seen::of(now, |n| *n == 3)) }
        })
        .await?;
        assert_eq!(seen, 3);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn names_the_last_thing_seen_when_the_deadline_passes() {
        let error = eventually(Duration::from_secs(1), "a miracle", || async {
            Ok(Seen::of(7, |n| *n == 8))
        })
        .await
        .unwrap_err();
        assert_eq!(error.to_string(), "waited 1s for a miracle; last seen: 7");
    }

    #[tokio::test(start_paused = true)]
    async fn reports_an_error_only_when_it_lasts() {
        let error = eventually(Duration::from_secs(1), "an answer", || async {
            Err::<Seen<()>, _>(anyhow!("refused"))
        })
        .await
        .unwrap_err();
        assert!(error.to_string().ends_with("last seen: error: refused"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_does_not_outlive_the_deadline() {
        let error = eventually(Duration::from_secs(1), "the end", || {
            std::future::pending::<Result<Seen<()>>>()
        })
        .await
        .unwrap_err();
        assert!(error.to_string().contains("the first look did not end"));
    }
}
