//! Slots for the calls in flight of one cluster, the host's own apart. Entry point: [`Slots::take`].
//!
//! [`fair`] decides, without I/O, which owner's call is next; calls wait here. A call whose future is dropped stops waiting.

mod fair;

use super::Owner;
use fair::FairSlots;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The slots of one cluster. Clones share them.
#[derive(Clone)]
pub(super) struct Slots {
    fair: Arc<Mutex<FairSlots<oneshot::Sender<Slot>>>>,
}

/// A slot for one call. Dropping it frees the slot.
pub(super) struct Slot {
    slots: Slots,
    owner: Owner,
}

impl Slots {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            fair: Arc::new(Mutex::new(FairSlots::new(slots))),
        }
    }

    /// Waits for a slot. The caller bounds the wait.
    pub(super) async fn take(&self, owner: &Owner) -> Slot {
        loop {
            let mut waiting = {
                let mut fair = self.fair.lock();
                if fair.try_take(owner) {
                    return self.slot(owner.clone());
                }
                let (give, given) = oneshot::channel();
                Waiting {
                    slots: self,
                    owner,
                    ticket: fair.wait(owner, give),
                    given,
                }
            };
            // A sender is used or kept, never dropped unused, so this does not loop.
            if let Ok(slot) = (&mut waiting.given).await {
                return slot;
            }
        }
    }

    fn slot(&self, owner: Owner) -> Slot {
        let slots = self.clone();
        Slot { slots, owner }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut next = Vec::new();
        let mut fair = self.slots.fair.lock();
        fair.release(&self.owner);
        while let Some(given) = fair.next() {
            next.push(given);
        }
        // After the lock: if the call has stopped waiting, its slot is dropped here, which takes the lock again.
        drop(fair);
        for (owner, give) in next {
            let _ = give.send(self.slots.slot(owner));
        }
    }
}

/// A waiting call. Dropping it ends the wait.
struct Waiting<'a> {
    slots: &'a Slots,
    owner: &'a Owner,
    ticket: u64,
    given: oneshot::Receiver<Slot>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.slots.fair.lock().give_up(self.owner, self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn a_slot_goes_to_the_next_call_that_still_waits() {
        let (slots, owner) = (Slots::new(1), Owner::Program);
        let held = slots.take(&owner).await;
        let mut first = Box::pin(slots.take(&owner));
        let mut second = Box::pin(slots.take(&owner));
        let mut third = Box::pin(slots.take(&owner));
        for waits in [&mut first, &mut second, &mut third] {
            assert!(waits.now_or_never().is_none());
        }
        drop(first);
        drop(held);
        // Given, and never picked up: the slot goes on.
        drop(second);
        let held = third.await;
        assert!(slots.take(&owner).now_or_never().is_none());
        drop(held);
        assert!(slots.take(&owner).now_or_never().is_some());
    }
}
