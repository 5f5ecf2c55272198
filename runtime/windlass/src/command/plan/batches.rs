//! The clusters of a plan, so many at a time. Entry point: [`Batches::new`].

use crate::config::load::Configuration;
use anyhow::{Result, bail};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use windlass_fleet::ClusterName;

/// How many clusters are copied at once, unless a flag says so.
const WIDTH: usize = 50;

/// Admits clusters to one rehearsal after the other. It takes those that Providers name first.
pub(super) struct Batches {
    /// `usize::MAX`: all at once.
    width: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The clusters of earlier rehearsals.
    done: BTreeSet<ClusterName>,
    /// The clusters of this one.
    current: BTreeSet<ClusterName>,
    /// Whether any cluster was not admitted yet.
    waits: bool,
}

impl Batches {
    /// As many at a time as `parallel` says, or all at once where a reconciler reaches other clusters than that of its request, or where it is
    /// not known which reconcilers there are (`has_unknown`).
    ///
    /// # Errors
    /// When a number is asked for all the same.
    pub(super) fn new(
        configuration: &Configuration,
        has_unknown: bool,
        parallel: Option<usize>,
    ) -> Result<Self> {
        let width = match (fleet_wide(configuration), parallel) {
            _ if has_unknown && parallel.is_none() => usize::MAX,
            _ if has_unknown => bail!(
                "the Reconcilers of a cluster may reach other clusters than that of their request, so all are copied at once: leave --parallel out, or plan fewer with --cluster"
            ),
            (None, parallel) => parallel.unwrap_or(WIDTH),
            (Some(_), None) => usize::MAX,
            (Some(reconciler), Some(_)) => bail!(
                "reconciler {reconciler} reaches other clusters than that of its request, so all are copied at once: leave --parallel out, or plan fewer with --cluster"
            ),
        };
        Ok(Self::of_width(width))
    }

    fn of_width(width: usize) -> Self {
        Self {
            width,
            state: Mutex::default(),
        }
    }

    /// Whether a cluster takes part now.
    pub(super) fn admits(&self, name: &ClusterName) -> bool {
        let mut state = self.state.lock();
        if state.current.contains(name) {
            return true;
        }
        if state.done.contains(name) {
            return false;
        }
        if state.current.len() == self.width {
            state.waits = true;
            return false;
        }
        state.current.insert(name.clone());
        true
    }

    /// Begins another rehearsal, with other clusters. Returns whether there are any.
    pub(super) fn next(&self) -> bool {
        let mut state = self.state.lock();
        let current = std::mem::take(&mut state.current);
        state.done.extend(current);
        std::mem::take(&mut state.waits)
    }

    /// How many clusters were admitted so far.
    pub(super) fn admitted(&self) -> usize {
        let state = self.state.lock();
        state.done.len() + state.current.len()
    }
}

/// A reconciler that reaches other clusters than that of its request, or works in the local one, which all rehearsals would have.
fn fleet_wide(configuration: &Configuration) -> Option<&str> {
    let mut reconcilers = configuration.reconcilers();
    let found = reconcilers.find(|(_, spec)| {
        spec.clusters.local == Some(true)
            || spec.rules.iter().any(|rule| rule.clusters.is_some())
            || !configuration.has_provider()
    });
    found.map(|(document, _)| document.identity.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_takes_part_once() {
        let batches = Batches::of_width(2);
        let names = ["a", "b", "c", "d", "e"].map(|name| ClusterName::new(name).unwrap());
        let mut seen = Vec::new();
        loop {
            // Providers name each of them several times.
            let admitted = names
                .iter()
                .chain(&names)
                .filter(|name| batches.admits(name));
            let admitted: BTreeSet<&str> = admitted.map(ClusterName::as_str).collect();
            seen.push(admitted.into_iter().collect::<Vec<_>>());
            if !batches.next() {
                break;
            }
        }
        assert_eq!(seen, [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
        assert_eq!(batches.admitted(), 5);
    }
}
