//! Calls that were denied to a guest: counted, with each missing rule logged once, for the author of the rules. Entry point: [`Denials`].

use crate::clean::clean;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Missing rules that are kept, and other reasons. A guest can cause any number.
const MOST: usize = 32;
/// Longest rule or reason that is kept, in bytes. The guest chooses the names in it.
const LENGTH: usize = 512;

/// Denials of one guest, over all of its revisions.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    count: AtomicU64,
    /// As YAML list items; at most [`MOST`].
    rules: Mutex<BTreeSet<String>>,
    /// Why calls were denied that no rule for a resource would allow; at most [`MOST`].
    reasons: Mutex<BTreeSet<String>>,
}

impl Denials {
    /// Counts a denial, and logs a missing rule that is new. The span around the call names the guest.
    pub(crate) fn add_missing(&self, rule: &str) {
        if rule.len() > LENGTH {
            // A part of a rule is no rule.
            return self.add(rule);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let Some((rule, is_last)) = new_one(&self.rules, rule) else {
            return;
        };
        tracing::warn!(target: "audit", rule, "denied: no rule grants it; this rule would");
        if is_last {
            tracing::warn!(target: "audit", most = MOST, "denials for other missing rules are counted, and not logged");
        }
    }

    /// Counts a denial that no single rule of the reconciler would prevent, and logs a reason that is new.
    pub(crate) fn add(&self, reason: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let Some((reason, is_last)) = new_one(&self.reasons, reason) else {
            return;
        };
        tracing::warn!(target: "audit", reason, "denied");
        if is_last {
            tracing::warn!(target: "audit", most = MOST, "denials for other reasons are counted, and not logged");
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

/// Keeps a text. Returns it if it is to be logged, and whether it is the last one.
fn new_one(known: &Mutex<BTreeSet<String>>, text: &str) -> Option<(String, bool)> {
    let text = clean(text, LENGTH);
    let mut known = known.lock();
    if known.len() >= MOST || !known.insert(text.clone()) {
        return None;
    }
    Some((text, known.len() == MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rules_are_kept_once_and_within_bounds() {
        let denials = Denials::default();
        for _ in 0..3 {
            denials.add_missing("- {verbs: [get]}");
        }
        assert_eq!((denials.count(), denials.rules().len()), (3, 1));
        (0..1000).for_each(|at| denials.add_missing(&format!("- {at}")));
        assert_eq!((denials.count(), denials.rules().len()), (1003, MOST));
    }

    #[test]
    fn what_is_no_rule_is_no_missing_rule() {
        let denials = Denials::default();
        (0..1000).for_each(|at| denials.add_missing(&format!("- {at} {}", "x".repeat(1 << 16))));
        denials.add("no rule opens a cluster");
        assert_eq!((denials.count(), denials.rules().len()), (1001, 0));
        let reasons = denials.reasons.lock();
        let longest = reasons.iter().map(String::len).max();
        assert_eq!(reasons.len(), MOST);
        assert!(longest <= Some(LENGTH + '…'.len_utf8()), "{longest:?}");
    }
}
