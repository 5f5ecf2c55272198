//! What a guest draws from clocks and random numbers. Entry point: [`Drawn`].
//!
//! A played run that draws more than was recorded gets the last time again, and random numbers that are always the same.

use super::{State, Tape};
use crate::recording::{Draws, Recording};
use rand_core::TryRng;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

/// Draws, in order: recorded ones, or ones that are still to be played.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    now: Times<String>,
    wall: Times<u64>,
    monotonic: Times<u64>,
    random: VecDeque<u8>,
    /// Of the random numbers beyond the recorded ones.
    beyond: u64,
}

/// Times, and the last one that was played.
#[derive(Debug, Default)]
struct Times<T> {
    list: VecDeque<T>,
    last: T,
}

impl<T: Clone + Default> Times<T> {
    /// `begin`: what a run gets that draws although the recorded one did not.
    fn of(list: &[T], begin: T) -> Self {
        Self {
            list: list.iter().cloned().collect(),
            last: begin,
        }
    }

    fn next(&mut self) -> T {
        if let Some(next) = self.list.pop_front() {
            self.last = next;
        }
        self.last.clone()
    }

    fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.list).into()
    }
}

impl Drawn {
    pub(super) fn of(recording: &Recording) -> Self {
        let (draws, time) = (&recording.draws, recording.time.clone());
        let began = time.parse::<jiff::Timestamp>().unwrap_or_default();
        let began = u64::try_from(began.as_nanosecond()).unwrap_or_default();
        let digits = draws.random.as_bytes().chunks_exact(2);
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        };
        Self {
            now: Times::of(&draws.now, time),
            wall: Times::of(&draws.wall_clock, began),
            monotonic: Times::of(&draws.monotonic_clock, 0),
            random: digits.map_while(byte).collect(),
            beyond: 0,
        }
    }

    pub(super) fn take(&mut self) -> Draws {
        let mut random = String::with_capacity(2 * self.random.len());
        for byte in self.random.drain(..) {
            let written = write!(random, "{byte:02x}");
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
        Draws {
            now: self.now.take(),
            wall_clock: self.wall.take(),
            monotonic_clock: self.monotonic.take(),
            random,
        }
    }

    fn random_byte(&mut self) -> u8 {
        self.random.pop_front().unwrap_or_else(|| {
            self.beyond = self.beyond.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.beyond ^ (self.beyond >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed >> 56) as u8
        })
    }
}

/// Bytes that a drawn time takes.
const TIME: usize = 24;

impl Tape {
    /// The contract's clock.
    pub(crate) fn now(&self, real: impl FnOnce() -> String) -> String {
        self.draw(TIME, real, |drawn| &mut drawn.now)
    }

    fn draw<T: Clone + Default>(
        &self,
        bytes: usize,
        real: impl FnOnce() -> T,
        of: impl FnOnce(&mut Drawn) -> &mut Times<T>,
    ) -> T {
        match &mut *self.0.lock() {
            State::Playing(player) => of(&mut player.drawn).next(),
            State::Recording(recorder) => {
                let value = real();
                if recorder.takes(bytes) {
                    of(&mut recorder.drawn).list.push_back(value.clone());
                }
                value
            }
        }
    }

    /// Fills bytes with random numbers: with these, or with those that were recorded.
    fn random(&self, bytes: &mut [u8], real: impl FnOnce(&mut [u8])) {
        match &mut *self.0.lock() {
            State::Playing(player) => {
                for byte in bytes {
                    *byte = player.drawn.random_byte();
                }
            }
            State::Recording(recorder) => {
                real(bytes);
                if recorder.takes(2 * bytes.len()) {
                    recorder.drawn.random.extend(&*bytes);
                }
            }
        }
    }
}

/// WASI's wall clock with a tape.
pub(crate) struct TapedWall<C> {
    pub(crate) tape: Arc<Tape>,
    pub(crate) clock: C,
}

impl<C: HostWallClock> HostWallClock for TapedWall<C> {
    fn resolution(&self) -> Duration {
        self.clock.resolution()
    }

    fn now(&self) -> Duration {
        let real = || u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.tape.draw(TIME, real, |drawn| &mut drawn.wall))
    }
}

/// WASI's monotonic clock with a tape.
pub(crate) struct TapedMonotonic {
    pub(crate) tape: Arc<Tape>,
    pub(crate) clock: Box<dyn HostMonotonicClock + Send>,
}

impl HostMonotonicClock for TapedMonotonic {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        let real = || self.clock.now();
        self.tape.draw(TIME, real, |drawn| &mut drawn.monotonic)
    }
}

/// WASI's random numbers with a tape.
pub(crate) struct TapedRandom(pub(crate) Arc<Tape>);

impl TryRng for TapedRandom {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.random(bytes, fresh);
        Ok(())
    }
}

impl TapedRandom {
    /// A seed for numbers that need not be secret.
    pub(crate) fn seed(&mut self) -> u128 {
        let mut bytes = [0; 16];
        self.0.random(&mut bytes, fresh);
        u128::from_le_bytes(bytes)
    }
}

/// Random numbers of the machine.
fn fresh(bytes: &mut [u8]) {
    let filled = SystemRandom::new().fill(bytes);
    // The generator of the operating system fails only where the program could not have started.
    debug_assert!(filled.is_ok(), "the machine has random numbers");
}
