//! One run of some work for all callers that need its result. Entry point: [`Single::join`].

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::runtime::Handle;

/// Work under way: who comes meanwhile waits for the same outcome. The work goes on when those who wait give up.
pub(super) struct Single<T: Clone> {
    running: Mutex<Option<Shared<BoxFuture<'static, Option<T>>>>>,
}

impl<T: Clone + Send + Sync + 'static> Single<T> {
    pub(super) fn new() -> Self {
        Self {
            running: Mutex::new(None),
        }
    }

    /// The outcome of the work under way, begun on `host` if there is none. `None`: it panicked or its runtime ended.
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
        // Driven by a task of its own too, so that its end shows even when nobody waits any more.
        let shared = task.map(Result::ok).boxed().shared();
        host.spawn(shared.clone().map(drop));
        *running = Some(shared.clone());
        shared
    }
}
