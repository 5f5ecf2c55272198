//! Folds equal failures of a key: one line in a while stands for all. Entry point: [`Repeats::fold`].

use crate::outcome::Failure;
use parking_lot::Mutex;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::{Duration, Instant};

/// How long one line stands for equal failures. The first retries of a key come within less.
const QUIET: Duration = Duration::from_secs(10);

/// Keys that are remembered. Two that share a place are reported more often, and nothing else.
const PLACES: usize = 1024;

/// The failures that were reported last.
pub(super) struct Repeats {
    hasher: RandomState,
    places: Mutex<Box<[Option<Reported>]>>,
}

#[derive(Clone)]
struct Reported {
    /// A hash of the key and its failure.
    of: u64,
    at: Instant,
    /// Equal failures since then.
    since: u32,
}

impl Default for Repeats {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            places: Mutex::new(vec![None; PLACES].into()),
        }
    }
}

impl Repeats {
    /// Whether to report a failure, and then how many equal ones of its key were not reported since the last that was. `None`: it is
    /// folded. The first attempt since a success is always reported.
    pub(super) fn fold(
        &self,
        now: Instant,
        key: impl Hash,
        attempt: u32,
        failure: &Failure,
    ) -> Option<u32> {
        let key = self.hasher.hash_one(key);
        let (blame, reason) = (failure.blame.as_str(), failure.reason);
        let of = self.hasher.hash_one((key, blame, reason, &failure.message));
        let mut places = self.places.lock();
        let place = &mut places[key as usize % PLACES];
        let last = place
            .as_mut()
            .filter(|reported| reported.of == of && attempt > 1);
        let repeats = match last {
            Some(reported) if now.saturating_duration_since(reported.at) < QUIET => {
                reported.since = reported.since.saturating_add(1);
                return None;
            }
            Some(reported) => reported.since,
            None => 0,
        };
        *place = Some(Reported {
            of,
            at: now,
            since: 0,
        });
        Some(repeats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_failures_of_a_key_have_one_line_in_a_while_with_their_count() {
        let (repeats, start) = (Repeats::default(), Instant::now());
        let fold = |seconds: u64, key: &str, attempt: u32, message: &str| {
            let now = start + Duration::from_secs(seconds);
            repeats.fold(now, key, attempt, &Failure::retry(message))
        };
        assert_eq!(fold(0, "a", 1, "refused"), Some(0));
        for attempt in 2..8 {
            assert_eq!(fold(1, "a", attempt, "refused"), None);
        }
        assert_eq!(fold(1, "a", 8, "not found"), Some(0), "another failure");
        assert_eq!(fold(2, "a", 9, "not found"), None);
        assert_eq!(fold(11, "a", 10, "not found"), Some(1));
        assert_eq!(fold(12, "a", 1, "not found"), Some(0), "after a success");
        assert_eq!(fold(100, "a", 2, "not found"), Some(0));
    }

    #[test]
    fn any_number_of_keys_takes_the_same_memory_and_each_is_reported() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        for key in 0..10 * PLACES {
            assert_eq!(repeats.fold(now, key, 1, &Failure::retry("x")), Some(0));
        }
        assert_eq!(repeats.places.lock().len(), PLACES);
    }
}
