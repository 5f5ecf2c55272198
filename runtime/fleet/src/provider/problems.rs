//! The problems of a provider at the moment. Entry point: [`Problems::replace`].

use super::Problem;
use parking_lot::Mutex;

/// The problems of a provider at the moment.
#[derive(Default)]
pub(super) struct Problems(Mutex<Vec<Problem>>);

impl Problems {
    /// Replaces all of them, and logs those that are new.
    pub(super) fn replace(&self, provider: &str, problems: Vec<Problem>) {
        let mut now = self.0.lock();
        for problem in problems.iter().filter(|problem| !now.contains(problem)) {
            tracing::warn!(
                provider,
                subject = problem.subject,
                reason = problem.message,
                "a provider has a problem"
            );
        }
        *now = problems;
    }

    pub(super) fn all(&self) -> Vec<Problem> {
        self.0.lock().clone()
    }
}
