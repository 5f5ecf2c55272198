//! The problems of a provider at the moment. Entry point: [`Problems::replace`].

use super::Problem;
use parking_lot::Mutex;
use std::collections::HashSet;

/// The problems of a provider at the moment.
#[derive(Default)]
pub(super) struct Problems(Mutex<Vec<Problem>>);

impl Problems {
    /// Replaces all of them, and logs those that are new.
    pub(super) fn replace(&self, provider: &str, problems: Vec<Problem>) {
        let mut now = self.0.lock();
        // A set: every one of a thousand clusters may have a problem.
        let known: HashSet<(&str, &str)> = now.iter().map(texts).collect();
        for (subject, reason) in problems.iter().map(texts) {
            if !known.contains(&(subject, reason)) {
                tracing::warn!(provider, subject, reason, "a provider has a problem");
            }
        }
        *now = problems;
    }

    pub(super) fn all(&self) -> Vec<Problem> {
        self.0.lock().clone()
    }
}

fn texts(problem: &Problem) -> (&str, &str) {
    (&problem.subject, &problem.message)
}
