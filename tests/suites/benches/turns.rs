//! Reconcilers that take turns within one run, so that what else a machine does falls on all of them. Entry point: [`Turns::take`].

#![allow(dead_code, reason = "each bench uses the parts it needs")]

use crate::figures::median;
use crate::table::verdict;
use std::time::{Duration, Instant};
use windlass_fleet::{Context, Failure, Reconciler};

/// Odd, so that one of them is the middle.
const BATCHES: usize = 101;
/// A batch takes about so long: long against a turn of another process, short against what a machine does for a while.
const BATCH: Duration = Duration::from_millis(10);
/// What a fresh guest in Rust with one cached get of 1 KB may take beyond native code, in µs.
const BAR: f64 = 20.0;

/// Times of a call in µs, batch by batch: the first subject is the native one.
pub(crate) struct Turns<const SUBJECTS: usize>([Vec<f64>; SUBJECTS]);

impl<const SUBJECTS: usize> Turns<SUBJECTS> {
    /// Calls each subject many times.
    ///
    /// # Errors
    /// The first failure of a subject.
    pub(crate) async fn take(
        subjects: [&dyn Reconciler; SUBJECTS],
        context: &Context,
    ) -> Result<Self, Failure> {
        let mut times = [(); SUBJECTS].map(|()| Vec::new());
        for _ in 0..BATCHES {
            for (times, subject) in times.iter_mut().zip(subjects) {
                let (began, mut calls) = (Instant::now(), 0_u32);
                while began.elapsed() < BATCH {
                    subject.reconcile(context.clone()).await?;
                    calls += 1;
                }
                times.push(began.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
            }
        }
        Ok(Self(times))
    }

    /// The middle time of each subject.
    pub(crate) fn medians(&self) -> [f64; SUBJECTS] {
        self.0.each_ref().map(|times| median(times))
    }

    /// What a subject takes beyond the native one: the middle of the differences between batches that followed each other.
    pub(crate) fn beyond(&self, subject: usize) -> f64 {
        let [native, subject] = [0, subject].map(|at| &self.0[at]);
        let beyond: Vec<f64> = subject.iter().zip(native).map(|(s, n)| s - n).collect();
        median(&beyond)
    }
}

/// Whether a fresh guest with one cached get meets its bar.
pub(crate) fn one_get(beyond: f64) -> String {
    verdict("20 µs", beyond <= BAR)
}
