//! What reconcilers do that their rules do not grant. Entry point: [`ReconcilerNeeds::of`].

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_fleet::grant::{Need, Needs};

/// The needs of each reconciler of a run that notes them. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReconcilerNeeds(Arc<Mutex<BTreeMap<String, Arc<Needs>>>>);

impl ReconcilerNeeds {
    /// Where those of a reconciler are noted.
    pub(crate) fn of(&self, reconciler: &str) -> Arc<Needs> {
        let mut all = self.0.lock();
        all.entry(reconciler.to_owned()).or_default().clone()
    }

    /// What was noted, by reconciler.
    pub(crate) fn noted(&self) -> BTreeMap<String, BTreeSet<Need>> {
        let all = self.0.lock();
        let noted = all
            .iter()
            .map(|(name, needs)| (name.clone(), needs.noted()));
        noted.collect()
    }

    /// The reconcilers with so many needs that further ones are left out.
    pub(crate) fn full(&self) -> Vec<String> {
        let all = self.0.lock();
        let full = all.iter().filter(|(_, needs)| needs.is_full());
        full.map(|(name, _)| name.clone()).collect()
    }
}
