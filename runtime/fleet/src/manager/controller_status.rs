//! A controller as status pages show it. Entry point: [`ControllerStatus::of`].

use super::registrations::Registration;
use super::shared_queue::SharedQueue;
use super::watches::RunningWatches;
use crate::metrics::{AttemptCounts, AttemptTotals, FailedBy};

/// Most problems that a status lists.
const MAX_PROBLEMS: usize = 20;

/// A controller as status pages show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ControllerStatus {
    /// Its tenant.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Keys that could run now.
    pub ready: usize,
    /// Keys that run.
    pub running: usize,
    /// Keys that wait for a time that their last run asked for.
    pub delayed: usize,
    /// Keys that wait to be tried again.
    pub backoff: usize,
    /// Keys that wait because they have run too often lately.
    pub throttled: usize,
    /// Keys that a pause holds.
    pub paused: usize,
    /// Keys that failed for good and wait for an event.
    pub terminal: usize,
    /// Attempts that ended.
    pub attempts: AttemptCounts,
    /// The same in clusters that have left too, with the time that they took.
    pub totals: AttemptTotals,
    /// Those that failed, by the party at fault.
    pub failed_by: FailedBy,
    /// The latest error, as long as the last run of any key failed.
    pub last_error: Option<String>,
    /// The party at fault in it: `guest`, `host` or `api`.
    pub last_blame: Option<&'static str>,
    /// Clusters it is attached to.
    pub clusters: usize,
    /// Why watches of it do not run, a line for each with its cluster.
    pub problems: Vec<String>,
}

impl ControllerStatus {
    pub(super) fn of(
        registration: &Registration,
        queue: &SharedQueue,
        watches: &RunningWatches,
    ) -> Self {
        let controller = registration.controller();
        let id = registration.id;
        let (counts, last_error, last_blame) =
            queue.read(|queue| (queue.counts(id), queue.last_error(id), queue.last_blame(id)));
        let mut problems = watches.problems(id);
        problems.truncate(MAX_PROBLEMS);
        Self {
            tenant: controller.tenant.to_string(),
            name: controller.name.to_string(),
            ready: counts.ready,
            running: counts.running,
            delayed: counts.delayed,
            backoff: counts.backoff,
            throttled: counts.throttled,
            paused: counts.paused,
            terminal: counts.terminal,
            attempts: registration.metrics.counts(),
            totals: registration.metrics.totals(),
            failed_by: registration.metrics.failed_by(),
            last_error: last_error.map(|message| message.to_string()),
            last_blame: last_blame.map(|blame| blame.as_str()),
            clusters: watches.clusters(id),
            problems,
        }
    }
}
