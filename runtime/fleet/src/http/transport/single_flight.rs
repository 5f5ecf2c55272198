//! Runs one piece of work at a time, for all who need its outcome. Entry point: [`SingleFlight::join`].

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::runtime::Handle;

/// The work in flight, if any. All who join while it runs get the same outcome. The work goes on when they stop waiting.
pub(super) struct SingleFlight<T: Clone> {
    running: Mutex<Option<Shared<BoxFuture<'static, Option<T>>>>>,
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    pub(super) fn new() -> Self {
        Self {
            running: Mutex::new(None),
        }
    }

    /// The outcome of the work in flight; `begin` starts it on `host` if there is none. `None`: the work panicked or the runtime ended.
    pub(super) fn join<F>(
        &self,
        host: &Handle,
        begin: impl FnOnce() -> F,
    ) -> Shared<BoxFuture<'static, Option<T>>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut running = self.running.lock();
        if let Some(there) = running.as_ref().filter(|there| there.peek().is_none()) {
            return there.clone();
        }
        let task = host.spawn(begin());
        let shared = task.map(Result::ok).boxed().shared();
        // A second task polls the shared future, so that `peek` sees the end even if nobody waits.
        host.spawn(shared.clone().map(drop));
        *running = Some(shared.clone());
        shared
    }
}
