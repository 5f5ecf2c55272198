//! How many events a tenant may record; without I/O. Entry point: [`Budgets::spend`].
//!
//! Keys are hashes, so that an entry has a fixed size. Each tenant has its own budgets, so it can evict only its own entries. Evicting
//! the budget of an object gains little, because the budget of its controller also applies, and names cannot multiply that.

use crate::rate_limit::{Bucket, RateLimit};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Events about one object: as in client-go, 25 at once and one more every five minutes.
const OF_AN_OBJECT: RateLimit = RateLimit {
    per_second: 1.0 / 300.0,
    burst: 25,
};
/// Events of one controller: one for each object of a large cluster after a start, and then a rate that keeps an API server well below
/// a hundred thousand events, because it keeps them for an hour by default.
const OF_A_CALLER: RateLimit = RateLimit {
    per_second: 5.0,
    burst: 500,
};
/// Objects, and controllers, with a budget, for each tenant and cluster. An entry takes less than a hundred bytes.
const MAX_BUDGETS: usize = 512;

/// The budgets of a tenant in a cluster.
pub(super) struct Budgets {
    objects: Recent<Bucket>,
    callers: Recent<Bucket>,
}

impl Budgets {
    /// After this time without events all budgets are full again.
    pub(super) const FULL_AFTER: Duration = Duration::from_secs(25 * 300);

    pub(super) fn new() -> Self {
        Self {
            objects: Recent::new(MAX_BUDGETS),
            callers: Recent::new(MAX_BUDGETS),
        }
    }

    /// Takes one event of a caller about an object from both budgets, or from none. Returns whether both had one left.
    pub(super) fn spend(&mut self, caller: u64, object: u64, now: Instant) -> bool {
        let take = |bucket: &mut Bucket| bucket.take(now, Duration::ZERO).is_some();
        let full = |limit| move || Bucket::new(limit, now);
        let caller = self.callers.entry(caller, full(OF_A_CALLER));
        if !take(caller) {
            return false;
        }
        if take(self.objects.entry(object, full(OF_AN_OBJECT))) {
            return true;
        }
        caller.give_back();
        false
    }
}

/// A bounded map that evicts the least recently used entry.
pub(super) struct Recent<V> {
    most: usize,
    uses: u64,
    entries: HashMap<u64, (u64, V)>,
}

impl<V> Recent<V> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            uses: 0,
            entries: HashMap::new(),
        }
    }

    /// An entry, which counts as used now; made if there is none.
    pub(super) fn entry(&mut self, key: u64, make: impl FnOnce() -> V) -> &mut V {
        if self.entries.len() >= self.most && !self.entries.contains_key(&key) {
            // A pass over all entries is short, and budgets bound how often it happens.
            let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used);
            let oldest = oldest.map(|(key, _)| *key);
            oldest.and_then(|key| self.entries.remove(&key));
        }
        self.uses += 1;
        let entry = self.entries.entry(key).or_insert_with(|| (0, make()));
        entry.0 = self.uses;
        &mut entry.1
    }

    pub(super) fn remove(&mut self, key: u64) {
        self.entries.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_multiply_what_a_controller_may_record() {
        let (mut budgets, now) = (Budgets::new(), Instant::now());
        let recorded = |budgets: &mut Budgets, caller, now| {
            (0..10_000)
                .filter(|object| budgets.spend(caller, *object, now))
                .count()
        };
        assert_eq!(recorded(&mut budgets, 1, now), 500);
        let later = now + Duration::from_secs(60);
        assert_eq!(recorded(&mut budgets, 1, later), 300);
        assert_eq!(recorded(&mut budgets, 2, later), 500, "one's own budget");
        assert!(budgets.objects.entries.len() <= MAX_BUDGETS);
    }

    #[test]
    fn an_object_has_a_burst_and_a_slow_refill() {
        let (mut budgets, now) = (Budgets::new(), Instant::now());
        let recorded =
            |budgets: &mut Budgets, now| (0..100).filter(|_| budgets.spend(1, 7, now)).count();
        assert_eq!(recorded(&mut budgets, now), 25);
        assert_eq!(recorded(&mut budgets, now + Duration::from_secs(600)), 2);
        assert_eq!(recorded(&mut budgets, now + Budgets::FULL_AFTER * 2), 25);
        // An event that the object's budget refuses costs the controller nothing.
        let others = (100..10_000).filter(|object| budgets.spend(1, *object, now));
        assert!(others.count() >= 475);
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut recent = Recent::new(2);
        for key in [1, 2, 1, 3] {
            recent.entry(key, || key);
        }
        let mut left: Vec<u64> = recent.entries.keys().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [1, 3]);
    }
}
