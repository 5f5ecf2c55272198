//! Slots for the calls of one cluster that are made for tenants and for the program. Entry point: [`Slots::take`].
//!
//! How they are shared is decided in [`shares`], without I/O; here calls wait. A call that is given up gives up its place in line.

mod shares;

use super::Owner;
use parking_lot::Mutex;
use shares::Shares;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The slots of one cluster. Clones share them.
#[derive(Clone)]
pub(super) struct Slots {
    shares: Arc<Mutex<Shares<oneshot::Sender<Slot>>>>,
}

/// A slot for one call. It is free again once this is dropped.
pub(super) struct Slot {
    slots: Slots,
    owner: Owner,
}

impl Slots {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            shares: Arc::new(Mutex::new(Shares::new(slots))),
        }
    }

    /// Waits for a slot. The caller bounds the wait.
    pub(super) async fn take(&self, owner: &Owner) -> Slot {
        loop {
            let mut waiting = {
                let mut shares = self.shares.lock();
                if shares.try_take(owner) {
                    return self.slot(owner.clone());
                }
                let (give, given) = oneshot::channel();
                Waiting {
                    slots: self,
                    owner,
                    ticket: shares.wait(owner, give),
                    given,
                }
            };
            // A sender goes only with a slot: this does not loop.
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
        let mut shares = self.slots.shares.lock();
        shares.release(&self.owner);
        while let Some(given) = shares.next() {
            next.push(given);
        }
        // A slot whose call has gone meanwhile is dropped here, and takes the lock for itself.
        drop(shares);
        for (owner, give) in next {
            let _ = give.send(self.slots.slot(owner));
        }
    }
}

/// A call that waits. Dropped, it leaves the line.
struct Waiting<'a> {
    slots: &'a Slots,
    owner: &'a Owner,
    ticket: u64,
    given: oneshot::Receiver<Slot>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.slots.shares.lock().give_up(self.owner, self.ticket);
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
