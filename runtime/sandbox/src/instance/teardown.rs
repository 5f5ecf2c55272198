//! The thread that gives large instances' memory back to the system, which takes milliseconds that nobody can interrupt: one instance
//! at a time, behind everything else in this process. Entry point: [`Teardown`].

use crate::scheduler::priority::{Standing, stand_back};
use tokio::sync::{mpsc, oneshot};

/// An instance, and who waits until it is gone.
struct Order {
    instance: Box<dyn Send>,
    gone: oneshot::Sender<()>,
}

/// Takes instances down. The thread ends after its last user.
pub(crate) struct Teardown {
    orders: mpsc::Sender<Order>,
}

impl Teardown {
    /// Starts the thread. `most`: instances that there can be.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(most: usize) -> std::io::Result<Self> {
        let (orders, mut work) = mpsc::channel::<Order>(most.max(1));
        let run = move || {
            stand_back(Standing::Last);
            while let Some(Order { instance, gone }) = work.blocking_recv() {
                drop(instance);
                let _ = gone.send(()); // nobody waits for a call that was cancelled
            }
        };
        std::thread::Builder::new()
            .name("windlass-teardown".to_owned())
            .spawn(run)?;
        Ok(Self { orders })
    }

    /// The instance is on its way when this returns. The future ends once it is gone and its memory and place are free; dropped, the
    /// instance is gone soon.
    pub(crate) fn take_down(&self, instance: Box<dyn Send>) -> impl Future<Output = ()> + use<> {
        let (gone, done) = oneshot::channel();
        // There is room for every instance there can be. Were there none, it would be taken down here and now.
        let _ = self.orders.try_send(Order { instance, gone });
        async move {
            let _ = done.await;
        }
    }
}
