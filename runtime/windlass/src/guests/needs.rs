//! What reconcilers do that their rules do not grant. Entry points: [`ReconcilerNeeds::of`] and [`lacks`].

use crate::output::printable;
use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_fleet::grant::{Needs, Noted, Rule};

/// What a reconciler lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Lack {
    pub(crate) reconciler: String,
    /// As JSON, each is YAML on one line.
    #[serde(serialize_with = "as_lines")]
    pub(crate) rules: Vec<Rule>,
}

fn as_lines<S: Serializer>(rules: &[Rule], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rules.iter().map(ToString::to_string))
}

/// What reconcilers lack, as rules to paste.
pub(crate) fn lacks(lacks: &[Lack]) -> String {
    let mut text = String::new();
    for Lack { reconciler, rules } in lacks {
        text.push_str(&format!("\nReconciler {} lacks:\n", printable(reconciler)));
        for rule in rules {
            text.push_str(&format!("    - {}\n", printable(&rule.to_string())));
        }
    }
    text
}

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
    pub(crate) fn noted(&self) -> BTreeMap<String, Noted> {
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
