//! One run of one key, from its start to the end of its last write. Entry point: [`Attempt::run`].

use super::{Context, Reconciler};
use crate::cluster::call_scope::NOTICE;
use crate::outcome::{Action, Blame, Disposition, Failure};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a run that was cancelled may take to return by itself.
const GRACE: Duration = Duration::from_secs(1);

/// How a run ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It succeeded.
    Action(Action),
    /// It failed. The delay, if any, is the least before the next run.
    Failed(Failure, Option<Duration>),
    /// It failed after its cluster had left the fleet, so the failure does not count.
    Gone,
}

/// A run that is about to start.
pub(crate) struct Attempt {
    pub(crate) context: Context,
    pub(crate) reconciler: Arc<dyn Reconciler>,
    pub(crate) timeout: Duration,
}

impl Attempt {
    /// Runs the reconciler until its deadline, then waits for the writes that it started.
    pub(crate) async fn run(self) -> Ended {
        let outcome = self.bounded().await;
        // The key must not run again while a write is in flight. Each write has a deadline.
        self.context.scope.token.cancel();
        self.context.scope.writes.close();
        self.context.scope.writes.wait().await;
        self.judge(outcome)
    }

    async fn bounded(&self) -> Result<Action, Failure> {
        let deadline = self
            .context
            .scope
            .deadline
            .unwrap_or_else(|| Instant::now() + self.timeout);
        let notice = deadline - NOTICE.min(self.timeout / 10);
        // Called inside the future, so that a panic before the first await is caught too.
        let run = async { self.reconciler.reconcile(self.context.clone()).await };
        let run = AssertUnwindSafe(run).catch_unwind();
        tokio::pin!(run);
        let token = &self.context.scope.token;
        let end = tokio::select! {
            outcome = &mut run => return settle(outcome),
            // Calls fail from now on. The run may still return by itself.
            () = tokio::time::sleep_until(notice) => { token.cancel(); deadline }
            () = token.cancelled() => deadline.min(Instant::now() + GRACE),
        };
        tokio::select! {
            outcome = &mut run => settle(outcome),
            () = tokio::time::sleep_until(end) => Err(self.timed_out()),
        }
    }

    fn timed_out(&self) -> Failure {
        let message = format!(
            "no result within {:?}: do less per run, or raise limits.timeout",
            self.timeout
        );
        Failure::retry(message).reason("timeout")
    }

    fn judge(&self, outcome: Result<Action, Failure>) -> Ended {
        match outcome {
            Ok(action) => Ended::Action(action),
            Err(_) if self.context.cluster.token().is_cancelled() => Ended::Gone,
            Err(failure) => {
                let not_before = match failure.disposition {
                    Disposition::Retry => self.context.retry_after(),
                    Disposition::Terminal => None,
                };
                Ended::Failed(self.blame(failure), not_before)
            }
        }
    }

    /// Blames the API server for an error that follows a failed call. A guest has no other way to say that it passes on the server's error.
    fn blame(&self, failure: Failure) -> Failure {
        let is_own = failure.blame == Blame::Guest && failure.reason == "error";
        if is_own && self.context.api_failed() {
            return failure.blame(Blame::Api).reason("api");
        }
        failure
    }
}

/// A panic counts as a failed run, as in controller-runtime.
fn settle(outcome: std::thread::Result<Result<Action, Failure>>) -> Result<Action, Failure> {
    outcome.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        let message = format!("the reconciler panicked: {}", text.unwrap_or("no message"));
        Err(Failure::retry(message).blame(Blame::Host).reason("panic"))
    })
}
