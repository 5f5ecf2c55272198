//! The thread that lets time pass for guests: every tick a running guest yields, and those that wait for their turn are looked at.
//! Entry point: [`Ticker`].

use crate::share::{Processors, TICK};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;
use wasmtime::Engine;

/// Time between two ticks while calls run beside each other: one that comes among those that compute waits for the end of a turn, and
/// again each time that it comes back from a server.
const CROWDED: Duration = Duration::from_micros(300);

/// Ticks without a call after which the thread sleeps until there is one, so that an idle process is idle. To wake it costs as much as some
/// ticks: a guest with many short calls is not to pay for both.
const IDLE_TICKS: u32 = 4;

/// Owns the thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    /// Calls that run now.
    running: AtomicUsize,
    /// Set by the thread just before it looks at `running` for the last time and parks; whoever clears it unparks.
    parked: AtomicBool,
    stopped: AtomicBool,
}

impl Ticker {
    pub(super) fn start(
        engine: &Engine,
        processors: [Arc<Processors>; 2],
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (of_thread, engine) = (shared.clone(), engine.clone());
        let handle = thread::Builder::new()
            .name("windlass-ticker".to_owned())
            .spawn(move || of_thread.tick(&engine, &processors))?;
        Ok(Self {
            shared,
            thread: handle.thread().clone(),
        })
    }

    /// Keeps the thread ticking until what it returns is dropped.
    pub(super) fn running(&self) -> Running<'_> {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.parked.load(Ordering::SeqCst)
            && self.shared.parked.swap(false, Ordering::SeqCst)
        {
            self.thread.unpark();
        }
        Running {
            shared: &self.shared,
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Shared {
    fn tick(&self, engine: &Engine, processors: &[Arc<Processors>]) {
        let mut idle = 0;
        while !self.stopped.load(Ordering::SeqCst) {
            thread::sleep(self.pace());
            engine.increment_epoch();
            processors.iter().for_each(|some| some.tick());
            idle = if self.running.load(Ordering::SeqCst) == 0 {
                idle + 1
            } else {
                0
            };
            if idle >= IDLE_TICKS {
                self.park();
                idle = 0;
            }
        }
    }

    /// Time until the next tick.
    fn pace(&self) -> Duration {
        match self.running.load(Ordering::SeqCst) {
            0 | 1 => TICK,
            _ => CROWDED,
        }
    }

    fn park(&self) {
        self.parked.store(true, Ordering::SeqCst);
        // A call that began before the store above is seen here; one that begins after it sees the store and unparks.
        while self.parked.load(Ordering::SeqCst)
            && self.running.load(Ordering::SeqCst) == 0
            && !self.stopped.load(Ordering::SeqCst)
        {
            thread::park();
        }
        self.parked.store(false, Ordering::SeqCst);
    }
}

/// A call that runs.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    shared: &'a Shared,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.shared.running.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn eventually(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            thread::yield_now();
        }
    }

    fn ticker() -> Ticker {
        let processors = [(); 2].map(|()| Arc::new(Processors::new(1)));
        Ticker::start(&Engine::default(), processors).unwrap()
    }

    #[test]
    fn ticks_come_sooner_for_calls_beside_each_other() {
        let ticker = ticker();
        let _one = ticker.running();
        assert_eq!(ticker.shared.pace(), TICK);
        let other = ticker.running();
        assert_eq!(ticker.shared.pace(), CROWDED);
        drop(other);
        assert_eq!(ticker.shared.pace(), TICK);
    }

    #[test]
    fn it_parks_when_idle_and_wakes_for_a_call() {
        let ticker = ticker();
        let parked = || ticker.shared.parked.load(Ordering::SeqCst);
        eventually("an idle ticker parks", parked);
        let running = ticker.running();
        assert!(!parked());
        drop(running);
        eventually("and parks again", parked);
    }
}
