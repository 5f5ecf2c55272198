//! The threads that guests run on, apart from those of watches, transport, leases and admin, so that busy guests never delay
//! these. Entry point: [`GuestRuntime`].

mod lane;

use crate::thread::{Standing, all_but_one};
use lane::Lane;
use tokio::runtime::Handle;

/// A tokio runtime for guests alone, and the sideline: a second one, behind all others where processors are short, for guests that
/// compute for long in what cannot be interrupted. Hand its [`handle`](Self::handle) to the manager as its reconcile runtime.
///
/// Dropped, it abandons what still runs; it may be dropped anywhere, also inside another runtime.
#[derive(Debug)]
pub struct GuestRuntime {
    lane: Lane,
    _sideline: Lane,
}

impl GuestRuntime {
    /// Starts the threads; `None`: one for each processor but one, at least one, as [`crate::Options::processors`] has calls compute. For
    /// the sideline there is one for every four of these. As many more, at least four of each, wait to take the place of one that a guest
    /// does not give back.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(threads: Option<usize>) -> std::io::Result<Self> {
        let threads = threads.unwrap_or_else(all_but_one).max(1);
        let behind = sideline(threads);
        let sideline = Lane::start("windlass-sideline", behind, Standing::Last, None)?;
        let aside = Some(sideline.handle());
        let lane = Lane::start("windlass-guest", threads, Standing::Guest, aside)?;
        Ok(Self {
            lane,
            _sideline: sideline,
        })
    }

    /// Where guests' calls are to be spawned.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        self.lane.handle()
    }
}

/// Threads of the sideline, of so many that guests compute on.
pub(crate) fn sideline(threads: usize) -> usize {
    threads.div_ceil(4)
}
