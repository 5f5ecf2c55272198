//! The clock that guests read. Entry point: [`GuestClock`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wasmtime_wasi::HostWallClock;

/// The clock that guests read, by the contract's function and by that of WASI: the machine's, or for tests one that is ahead of it. Clones are
/// the same clock. It decides about nothing in the host.
#[derive(Debug, Clone, Default)]
pub struct GuestClock {
    /// Milliseconds. It only grows.
    ahead: Arc<AtomicU64>,
}

impl GuestClock {
    /// Moves it forward, in whole milliseconds, for running calls too.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        // The closure always returns a value.
        let _ = self
            .ahead
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |ahead| {
                Some(ahead.saturating_add(by))
            });
    }

    fn ahead(&self) -> Duration {
        Duration::from_millis(self.ahead.load(Ordering::SeqCst))
    }

    /// The time; if it is later than all timestamps, the latest of these.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        let ahead = self.ahead();
        let now = jiff::Timestamp::now();
        now.checked_add(ahead).unwrap_or(jiff::Timestamp::MAX)
    }

    /// The same for WASI.
    pub(crate) fn for_wasi(&self) -> impl HostWallClock + use<> {
        Ahead(self.clone())
    }
}

/// How far it is ahead is no part of options.
impl PartialEq for GuestClock {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for GuestClock {}

struct Ahead(GuestClock);

impl HostWallClock for Ahead {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.unwrap_or_default().saturating_add(self.0.ahead())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_of_a_guest_move_together() {
        let clock = GuestClock::default();
        // An instance that is used again keeps the one that it began with.
        let wasi = clock.for_wasi();
        clock.clone().advance(Duration::from_secs(3600));
        let real = jiff::Timestamp::now();
        let ahead = clock.now().duration_since(real).as_secs();
        assert!((3600..3610).contains(&ahead), "{ahead}");
        let by_wasi = wasi.now().as_secs() as i64 - real.as_second();
        assert!((3599..3610).contains(&by_wasi), "{by_wasi}");
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), jiff::Timestamp::MAX);
    }
}
