//! What goes wrong in a simulated world. Entry point: [`Weather`].

use std::time::Duration;

/// What goes wrong.
#[derive(Clone, Copy)]
pub(in crate::shard) struct Weather {
    /// Of a hundred calls, so many are lost on the way, and so many answers on the way back.
    pub(in crate::shard) lost: u8,
    /// Longest delay of a call that is not lost.
    pub(in crate::shard) delay: Duration,
    /// Of a hundred polls, so many stop the process, for at most so long.
    pub(in crate::shard) stops: u8,
    pub(in crate::shard) stop: Duration,
    /// Of a hundred polls, so many cut the process off from the Leases, for at most so long.
    pub(in crate::shard) cuts: u8,
    pub(in crate::shard) cut: Duration,
    /// Of a thousand polls, so many kill the process, so many drain it, and so many delete the assignment.
    pub(in crate::shard) deaths: u16,
    pub(in crate::shard) leaves: u16,
    pub(in crate::shard) wipes: u16,
    /// Of ten thousand polls, so many take the server away for a minute.
    pub(in crate::shard) outages: u16,
}

pub(in crate::shard) const CALM: Weather = Weather {
    lost: 0,
    delay: Duration::from_millis(50),
    stops: 0,
    stop: Duration::ZERO,
    cuts: 0,
    cut: Duration::ZERO,
    deaths: 0,
    leaves: 0,
    wipes: 0,
    outages: 0,
};
pub(in crate::shard) const STORM: Weather = Weather {
    lost: 12,
    delay: Duration::from_secs(12),
    stops: 1,
    stop: Duration::from_secs(60),
    cuts: 1,
    cut: Duration::from_secs(40),
    deaths: 3,
    leaves: 3,
    wipes: 0,
    outages: 5,
};
pub(in crate::shard) const GUSTS: Weather = Weather {
    lost: 4,
    delay: Duration::from_secs(2),
    stops: 1,
    stop: Duration::from_secs(20),
    cuts: 2,
    cut: Duration::from_secs(25),
    deaths: 2,
    leaves: 4,
    wipes: 0,
    outages: 0,
};
