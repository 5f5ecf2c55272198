//! How often one key may run: at a rate, which a burst may exceed. Entry point: [`RunCounts`].
//!
//! The queue keeps nothing of a key that is not in it, and a key leaves it between two runs. So runs are counted by the keys' hashes in
//! a table of fixed size. A count fades at the rate that is allowed. A new key that finds no room replaces the count that fades
//! first. A hot key hardly ever loses its count: as many keys as there are slots would have to run without a pause.

use super::options::HotKeyLimit;

/// What a run counts.
pub(super) const RUN: u32 = 1;
/// What a run counts more that was enqueued while the run before was under way, as by the reconciler's own writes.
pub(super) const RERUN: u32 = 9;
/// What a run counts more that the run before asked for sooner than it may: so much that a key that goes on asking becomes hot.
pub(super) const TOO_SOON: u32 = 19;

/// Sets of slots, by hash.
const SETS: usize = 4096;
/// Slots of a set: keys whose hashes share a set.
const SLOTS: usize = 4;

/// One key's runs.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// When all that is counted will have faded, in the queue's nanoseconds.
    faded: u64,
    hash: u32,
    /// The key has been reported as hot since its count had faded last.
    reported: bool,
}

/// The slots that a hash may have.
#[derive(Debug, Clone, Copy, Default)]
struct Set([Slot; SLOTS]);

/// The keys that have run lately.
#[derive(Debug)]
pub(super) struct RunCounts {
    sets: Box<[Set]>,
    /// How long a run counts, in nanoseconds.
    interval: u64,
    /// A key whose count takes longer than this to fade is hot.
    burst: u64,
    /// No key is hot after this. Most of the time it has passed, and no key need be looked up.
    hot_until: u64,
}

impl RunCounts {
    pub(super) fn new(limit: HotKeyLimit) -> Self {
        let mut counts = Self {
            sets: vec![Set::default(); SETS].into(),
            interval: 0,
            burst: 0,
            hot_until: 0,
        };
        counts.set_limit(limit);
        counts
    }

    pub(super) fn set_limit(&mut self, limit: HotKeyLimit) {
        self.interval = 1_000_000_000 / u64::from(limit.per_second.max(1));
        self.burst = self.interval * u64::from(limit.burst);
    }

    /// Counts `runs` of a key.
    pub(super) fn add(&mut self, hash: u32, now: u64, runs: u32) {
        let Set(slots) = &mut self.sets[hash as usize % SETS];
        let mut at = 0;
        for (index, slot) in slots.iter().enumerate() {
            if slot.hash == hash {
                at = index;
                break;
            }
            if slot.faded < slots[at].faded {
                at = index;
            }
        }
        let slot = &mut slots[at];
        if slot.hash != hash || slot.faded <= now {
            *slot = Slot {
                faded: now,
                hash,
                reported: false,
            };
        }
        slot.faded += self.interval * u64::from(runs);
        self.hot_until = self.hot_until.max(slot.faded.saturating_sub(self.burst));
    }

    /// When a key may run again, if it is hot.
    pub(super) fn throttled_until(&self, hash: u32, now: u64) -> Option<u64> {
        if now >= self.hot_until {
            return None;
        }
        let Set(slots) = &self.sets[hash as usize % SETS];
        let slot = slots.iter().find(|slot| slot.hash == hash)?;
        Some(slot.faded.saturating_sub(self.burst)).filter(|free| *free > now)
    }

    /// Marks a hot key as reported. True if it was not.
    pub(super) fn report(&mut self, hash: u32) -> bool {
        let Set(slots) = &mut self.sets[hash as usize % SETS];
        slots
            .iter_mut()
            .find(|slot| slot.hash == hash)
            .is_some_and(|slot| !std::mem::replace(&mut slot.reported, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn counts() -> RunCounts {
        RunCounts::new(HotKeyLimit {
            per_second: 100,
            burst: 10,
        })
    }

    #[test]
    fn a_burst_is_free_and_the_rate_holds_after_it() {
        let mut counts = counts();
        for _ in 0..10 {
            assert_eq!(counts.throttled_until(7, 0), None);
            counts.add(7, 0, RUN);
        }
        assert_eq!(counts.throttled_until(7, 0), None);
        counts.add(7, 0, RUN);
        assert_eq!(counts.throttled_until(7, 0), Some(10 * MILLI));
        assert_eq!(counts.throttled_until(8, 0), None, "another key");
        assert_eq!(counts.throttled_until(7, 10 * MILLI), None);
    }

    #[test]
    fn a_hot_key_is_reported_once_until_its_count_has_faded() {
        let mut counts = counts();
        counts.add(7, 0, 12);
        assert!(counts.report(7) && !counts.report(7));
        counts.add(7, 119 * MILLI, 1);
        assert!(!counts.report(7), "it has not faded");
        counts.add(7, 1000 * MILLI, 12);
        assert!(counts.report(7));
    }

    #[test]
    fn a_flood_of_keys_does_not_replace_the_count_of_a_hot_key() {
        let mut counts = counts();
        counts.add(SETS as u32, 0, 50);
        for key in 0..1_000_000 {
            if key != SETS as u32 {
                counts.add(key, 0, RUN);
            }
        }
        assert!(counts.throttled_until(SETS as u32, 0).is_some());
    }
}
