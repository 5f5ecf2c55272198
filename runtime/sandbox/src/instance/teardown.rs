//! The thread that frees the memory of large instances, one at a time and with the lowest priority of this process. Freeing takes
//! milliseconds that cannot be interrupted. Entry point: [`Teardown`].

use crate::scheduler::priority::{Priority, lower_priority};
use tokio::sync::{mpsc, oneshot};

/// An instance, and the sender of the message that it is gone.
struct Order {
    instance: Box<dyn Send>,
    gone: oneshot::Sender<()>,
}

/// The thread's queue. The thread ends once this is dropped and the queue is empty.
pub(crate) struct Teardown {
    orders: mpsc::Sender<Order>,
}

impl Teardown {
    /// Starts the thread. `most`: instances that can exist at once.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(most: usize) -> std::io::Result<Self> {
        let (orders, mut work) = mpsc::channel::<Order>(most.max(1));
        let run = move || {
            lower_priority(Priority::Last);
            while let Some(Order { instance, gone }) = work.blocking_recv() {
                drop(instance);
                let _ = gone.send(()); // a cancelled call does not wait
            }
        };
        std::thread::Builder::new()
            .name("windlass-teardown".to_owned())
            .spawn(run)?;
        Ok(Self { orders })
    }

    /// Queues an instance. The future ends once the instance is gone and its memory and slot are free. Dropping the future cancels
    /// nothing.
    pub(crate) fn take_down(&self, instance: Box<dyn Send>) -> impl Future<Output = ()> + use<> {
        let (gone, done) = oneshot::channel();
        // The queue has room for every instance that can exist. If it were full, the instance would be dropped here.
        let _ = self.orders.try_send(Order { instance, gone });
        async move {
            let _ = done.await;
        }
    }
}
