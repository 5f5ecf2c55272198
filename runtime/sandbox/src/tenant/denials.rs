//! Calls that were denied to a guest: counted, with each missing rule logged once, for the author of the rules. Entry point: [`Denials`].

use crate::clean::clean;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_fleet::Rule;

/// Missing rules that are kept, and other reasons. A guest can cause any number.
const MOST: usize = 32;
/// Longest rule or reason that is kept, in bytes. The guest chooses the names in it.
const LENGTH: usize = 512;

/// Denials of one guest, over all of its revisions.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    count: AtomicU64,
    /// By their text, as items of a YAML list; at most [`MOST`].
    rules: Mutex<BTreeMap<String, Rule>>,
    /// Why calls were denied that no rule for a resource would allow; at most [`MOST`].
    reasons: Mutex<BTreeMap<String, ()>>,
}

impl Denials {
    /// Counts a denial, and logs a missing rule that is new. The span around the call names the guest.
    pub(crate) fn add_missing(&self, rule: Rule) {
        let text = format!("- {rule}");
        if !is_whole(&text) {
            return self.add(&text);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let Some((rule, is_last)) = new_one(&self.rules, &text, rule) else {
            return;
        };
        tracing::warn!(target: "audit", rule, "denied: no rule grants it; this rule would");
        if is_last {
            tracing::warn!(target: "audit", most = MOST, "denials for other missing rules are counted, and not logged");
        }
    }

    /// Keeps a missing rule that its caller logs. What it denies is no call, and is not counted.
    pub(crate) fn keep_missing(&self, rule: Rule) {
        let text = format!("- {rule}");
        if is_whole(&text) {
            new_one(&self.rules, &text, rule);
        }
    }

    /// Counts a denial that no single rule of the reconciler would prevent, and logs a reason that is new.
    pub(crate) fn add(&self, reason: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let Some((reason, is_last)) = new_one(&self.reasons, reason, ()) else {
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

    /// The rules that were missing, sorted by their text.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        self.rules.lock().values().cloned().collect()
    }
}

/// Whether a rule can be kept: a part of one is no rule, nor is one with other names.
fn is_whole(text: &str) -> bool {
    clean(text, LENGTH) == text
}

/// Keeps a value by its text. Returns the text if it is to be logged, and whether it is the last one.
fn new_one<T>(known: &Mutex<BTreeMap<String, T>>, text: &str, value: T) -> Option<(String, bool)> {
    let text = clean(text, LENGTH);
    let mut known = known.lock();
    if known.len() >= MOST || known.contains_key(&text) {
        return None;
    }
    known.insert(text.clone(), value);
    Some((text, known.len() == MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(resource: &str) -> Rule {
        Rule {
            resources: vec![resource.into()],
            ..Rule::default()
        }
    }

    #[test]
    fn missing_rules_are_kept_once_and_within_bounds() {
        let denials = Denials::default();
        for _ in 0..3 {
            denials.add_missing(rule("pods"));
        }
        assert_eq!((denials.count(), denials.rules().len()), (3, 1));
        (0..1000).for_each(|at| denials.add_missing(rule(&at.to_string())));
        assert_eq!((denials.count(), denials.rules().len()), (1003, MOST));
    }

    #[test]
    fn what_is_no_rule_is_no_missing_rule() {
        let denials = Denials::default();
        let long = "x".repeat(1 << 16);
        (0..1000).for_each(|at| denials.add_missing(rule(&format!("{at} {long}"))));
        denials.add_missing(rule("pods\u{202e}"));
        denials.add("no rule opens a cluster");
        assert_eq!((denials.count(), denials.rules().len()), (1002, 0));
        let reasons = denials.reasons.lock();
        let longest = reasons.keys().map(String::len).max();
        assert_eq!(reasons.len(), MOST);
        assert!(longest <= Some(LENGTH + '…'.len_utf8()), "{longest:?}");
    }
}
