//! Calls that were denied to a guest: counted, with each missing rule logged once, for the author of the rules. Entry point: [`Denials`].

use crate::clean::clean;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Missing rules that are kept. A guest can cause any number.
const RULES: usize = 32;
/// Longest rule that is kept, in bytes. The guest chooses the names in it.
const LENGTH: usize = 512;

/// Denials of one guest, over all of its revisions.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    count: AtomicU64,
    /// As YAML list items; at most [`RULES`].
    rules: Mutex<BTreeSet<String>>,
}

impl Denials {
    /// Counts a denial, and logs a missing rule that is new. The span around the call names the guest.
    pub(crate) fn add(&self, rule: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let rule = clean(rule, LENGTH);
        let mut rules = self.rules.lock();
        if rules.len() >= RULES || !rules.insert(rule.clone()) {
            return;
        }
        let full = rules.len() == RULES;
        drop(rules);
        tracing::warn!(target: "audit", rule, "denied: no rule grants it; this rule would");
        if full {
            tracing::warn!(target: "audit", rules = RULES, "further denials are counted, and their rules are not logged");
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The rules that were missing, sorted.
    pub(crate) fn rules(&self) -> Vec<String> {
        self.rules.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rules_are_kept_once_and_within_bounds() {
        let denials = Denials::default();
        for _ in 0..3 {
            denials.add("- {verbs: [get]}");
        }
        assert_eq!((denials.count(), denials.rules().len()), (3, 1));
        (0..1000).for_each(|at| denials.add(&format!("- {at} {}", "x".repeat(1 << 16))));
        let rules = denials.rules();
        assert_eq!((denials.count(), rules.len()), (1003, RULES));
        assert!(
            rules
                .iter()
                .all(|rule| rule.len() <= LENGTH + '…'.len_utf8())
        );
    }
}
