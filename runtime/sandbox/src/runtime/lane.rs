//! Threads that guests compute on, with others that wait to take their place. Entry point: [`Lane`].

use crate::share::{Aside, Reserve, Seat};
use crate::thread::{Standing, stand_back};
use std::sync::Arc;
use tokio::runtime::{Builder, Handle, Runtime};

/// Fewest threads in reserve. Otherwise there are as many as guests compute on.
const FEWEST_IN_RESERVE: usize = 4;

/// A tokio runtime for guests alone. Dropped, it abandons what still runs.
#[derive(Debug)]
pub(super) struct Lane {
    /// Present until dropped.
    runtime: Option<Runtime>,
    /// Threads beyond those that guests compute on.
    reserve: Arc<Reserve>,
}

impl Lane {
    /// Starts the threads. `sideline`: where guests are sent that keep these from others; `None` for the sideline itself.
    pub(super) fn start(
        name: &'static str,
        threads: usize,
        standing: Standing,
        sideline: Option<&Handle>,
    ) -> std::io::Result<Self> {
        let in_reserve = threads.max(FEWEST_IN_RESERVE);
        let reserve = Arc::new(Reserve::default());
        let (of_threads, sideline) = (reserve.clone(), sideline.cloned());
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads + in_reserve)
            .thread_name(name)
            .on_thread_start(move || {
                stand_back(standing);
                Aside::begin();
                Seat::take(of_threads.clone(), sideline.clone());
            })
            .on_thread_park(Aside::rest)
            // A guest computes for a millisecond between two looks: by the defaults a new call would wait for dozens of them.
            .global_queue_interval(1)
            .event_interval(4)
            .enable_all()
            .build()?;
        for _ in 0..in_reserve {
            let reserve = reserve.clone();
            // Each keeps its thread, on purpose.
            runtime.spawn(async move { reserve.wait() });
        }
        Ok(Self {
            runtime: Some(runtime),
            reserve,
        })
    }

    #[expect(clippy::expect_used, reason = "taken only by drop")]
    pub(super) fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("there until dropped").handle()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.reserve.close();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
