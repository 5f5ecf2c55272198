//! The functions of libc that a simulated process replaces. Entry point: [`begin`].
//!
//! The linker takes these in place of libc's for every call of the program, and libraries that look a function up by its name find them too.
//! Until [`begin`] they ask the kernel, as libc's do.

#![allow(
    unsafe_code,
    reason = "these are functions of libc, by its names and with its pointers"
)]

use libc::{c_int, c_uint, c_void, clockid_t, size_t, ssize_t, timespec};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What every clock shows when a simulation begins, after the epoch: a day in 2026.
const BEGINNING: Duration = Duration::from_secs(1_780_000_000);

/// The state of the random numbers; unset: the process is not simulated.
static RANDOM: OnceLock<AtomicU64> = OnceLock::new();
static BEGUN: OnceLock<Instant> = OnceLock::new();

thread_local! {
    /// Whether this thread asks tokio for the time right now, which asks for the time itself while it starts.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Begins to simulate this process. Returns false if it is simulated already.
pub(crate) fn begin(seed: u64) -> bool {
    let begins = RANDOM.set(AtomicU64::new(seed)).is_ok();
    BEGUN.get_or_init(Instant::now);
    begins
}

/// The time since the beginning, by tokio's clock. Zero outside of a runtime.
pub(crate) fn elapsed() -> Duration {
    let (Some(begun), Ok(_)) = (BEGUN.get(), tokio::runtime::Handle::try_current()) else {
        return Duration::ZERO;
    };
    let now = tokio::time::Instant::now().into_std();
    now.saturating_duration_since(*begun)
}

fn simulated_time() -> Duration {
    if ASKING.replace(true) {
        return BEGINNING;
    }
    let now = BEGINNING + elapsed();
    ASKING.set(false);
    now
}

/// The next number: splitmix64.
fn draw(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mixed = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// `clock_gettime(2)`.
///
/// # Safety
/// As libc's: `time` points to a `timespec` that may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if RANDOM.get().is_none() {
        // SAFETY: the caller's pointer goes to the kernel, which checks it.
        let outcome = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
        return c_int::try_from(outcome).unwrap_or(-1);
    }
    let now = simulated_time();
    let shown = timespec {
        tv_sec: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(now.subsec_nanos()),
    };
    // SAFETY: the caller promises that the pointer can be written.
    unsafe { time.write(shown) };
    0
}

/// `getrandom(2)`.
///
/// # Safety
/// As libc's: `length` bytes from `bytes` on may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(bytes: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    let Some(state) = RANDOM.get() else {
        // SAFETY: the caller's pointer goes to the kernel, which checks it.
        let outcome = unsafe { libc::syscall(libc::SYS_getrandom, bytes, length, flags) };
        return ssize_t::try_from(outcome).unwrap_or(-1);
    };
    for at in 0..length {
        let [byte, ..] = draw(state).to_le_bytes();
        // SAFETY: the caller promises that all of these bytes can be written.
        unsafe { bytes.cast::<u8>().add(at).write(byte) };
    }
    ssize_t::try_from(length).unwrap_or(-1)
}
