//! How often one key may run: at a rate, which a burst may exceed. Entry point: [`RunCounts`].
//!
//! Nothing is kept of a key that is not in the queue, and a key leaves it between two runs. So runs are counted by the keys' hashes
//! in a table of fixed size. What is counted there fades at the rate that is allowed;
//! where a new key finds no room the one goes that has least left to fade, which is hardly ever one that matters: as many keys
//! as there are places would have to run without a pause.

use super::options::StormLimit;

/// What a run counts.
pub(super) const RUN: u32 = 1;
/// What a run counts more that was asked for while the one before ran, as the reconciler's own writes do.
pub(super) const AGAIN: u32 = 9;
/// What a run counts more that the one before asked for sooner than a key may: so much that to go on asking is a storm.
pub(super) const TOO_SOON: u32 = 19;

const SETS: usize = 4096;

/// One key's runs.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// When all that is counted will have faded, in the queue's nanoseconds.
    faded: u64,
    hash: u32,
    /// The key has been held back since all had faded last.
    told: bool,
}

/// The places that a hash may have.
#[derive(Debug, Clone, Copy, Default)]
struct Set([Slot; 4]);

/// The keys that have run lately.
#[derive(Debug)]
pub(super) struct RunCounts {
    sets: Box<[Set]>,
    /// How long a run counts, in nanoseconds.
    interval: u64,
    /// A key whose count takes longer than this to fade is held back.
    burst: u64,
    /// No key is held back after this. Most of the time it has passed, and no key need be looked up.
    held_until: u64,
}

impl RunCounts {
    pub(super) fn new(limit: StormLimit) -> Self {
        let mut storms = Self {
            sets: vec![Set::default(); SETS].into(),
            interval: 0,
            burst: 0,
            held_until: 0,
        };
        storms.set_limit(limit);
        storms
    }

    pub(super) fn set_limit(&mut self, limit: StormLimit) {
        self.interval = 1_000_000_000 / u64::from(limit.per_second.max(1));
        self.burst = self.interval * u64::from(limit.burst);
    }

    /// Counts `runs` of a key.
    pub(super) fn count(&mut self, hash: u32, now: u64, runs: u32) {
        let Set(slots) = &mut self.sets[hash as usize % SETS];
        let mut at = 0;
        for (place, slot) in slots.iter().enumerate() {
            if slot.hash == hash {
                at = place;
                break;
            }
            if slot.faded < slots[at].faded {
                at = place;
            }
        }
        let slot = &mut slots[at];
        if slot.hash != hash || slot.faded <= now {
            *slot = Slot {
                faded: now,
                hash,
                told: false,
            };
        }
        slot.faded += self.interval * u64::from(runs);
        self.held_until = self.held_until.max(slot.faded.saturating_sub(self.burst));
    }

    /// When a key may run again, if that is not yet.
    pub(super) fn held(&self, hash: u32, now: u64) -> Option<u64> {
        if now >= self.held_until {
            return None;
        }
        let Set(slots) = &self.sets[hash as usize % SETS];
        let slot = slots.iter().find(|slot| slot.hash == hash)?;
        Some(slot.faded.saturating_sub(self.burst)).filter(|free| *free > now)
    }

    /// Notes that a key is held back. Whether it is for the first time since it was calm.
    pub(super) fn tell(&mut self, hash: u32) -> bool {
        let Set(slots) = &mut self.sets[hash as usize % SETS];
        slots
            .iter_mut()
            .find(|slot| slot.hash == hash)
            .is_some_and(|slot| !std::mem::replace(&mut slot.told, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn storms() -> RunCounts {
        RunCounts::new(StormLimit {
            per_second: 100,
            burst: 10,
        })
    }

    #[test]
    fn a_burst_is_free_and_the_rate_holds_after_it() {
        let mut storms = storms();
        for _ in 0..10 {
            assert_eq!(storms.held(7, 0), None);
            storms.count(7, 0, RUN);
        }
        assert_eq!(storms.held(7, 0), None);
        storms.count(7, 0, RUN);
        assert_eq!(storms.held(7, 0), Some(10 * MILLI));
        assert_eq!(storms.held(8, 0), None, "another key");
        assert_eq!(storms.held(7, 10 * MILLI), None);
    }

    #[test]
    fn a_storm_is_told_once_until_it_was_calm() {
        let mut storms = storms();
        storms.count(7, 0, 12);
        assert!(storms.tell(7) && !storms.tell(7));
        storms.count(7, 119 * MILLI, 1);
        assert!(!storms.tell(7), "it has not faded");
        storms.count(7, 1000 * MILLI, 12);
        assert!(storms.tell(7));
    }

    #[test]
    fn a_flood_of_keys_does_not_wash_away_a_storm() {
        let mut storms = storms();
        storms.count(SETS as u32, 0, 50);
        for key in 0..1_000_000 {
            if key != SETS as u32 {
                storms.count(key, 0, RUN);
            }
        }
        assert!(storms.held(SETS as u32, 0).is_some());
    }
}
