//! Tasks that end with a token. Entry point: [`spawn`].

use std::future::Future;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Runs a task on a runtime until it returns or the token is cancelled.
///
/// The task is in a box of its own. Each wrapper around a future holds it twice, as its argument and as what it awaits, so that a task
/// of a thousand clusters would take four times its size.
pub(crate) fn spawn(
    tasks: &TaskTracker,
    host: &Handle,
    token: CancellationToken,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let task = Box::pin(task);
    let until = async move {
        // Either way it ends.
        let _ = token.run_until_cancelled(task).await;
    };
    tasks.spawn_on(until, host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn a_task_ends_with_its_token_and_none_begins_after_it() {
        let (tasks, token) = (TaskTracker::new(), CancellationToken::new());
        let (host, guard) = (Handle::current(), token.clone().drop_guard());
        let busy = spawn(&tasks, &host, token.clone(), pending());
        tokio::task::yield_now().await;
        drop(guard);
        busy.await.unwrap();
        let late = async { unreachable!("the token is cancelled") };
        spawn(&tasks, &host, token, late).await.unwrap();
    }
}
