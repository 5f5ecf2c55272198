//! Permits for a resource that tenants share fairly. Entry point: [`FairSemaphore`].
//!
//! A [`Resource`] says how much there is, what a tenant may take, and who is next. What is shared in this way: slots for calls to an API
//! server, and in the sandbox slots for instances, memory, and permits to compile. [`Held`] counts what each tenant has. The memory of
//! answers uses it alone: its waiters also wait for a tenant's account, which cannot wake a line.
//!
//! The semaphore's mutex is held while one waiter after the other is chosen, and never while a permit is sent or dropped: a dropped
//! permit locks it again.

mod held;
mod wait_list;

pub use held::Held;
pub use wait_list::{First, Resource, Ticket, WaitList};

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use tokio::sync::oneshot;

type Waiters<R> = WaitList<R, oneshot::Sender<Permit<R>>>;

/// A resource, and those who wait for it.
#[derive(Debug)]
pub struct FairSemaphore<R: Resource> {
    waiters: Mutex<Waiters<R>>,
}

/// What has been taken at once. Dropping it gives it back.
#[derive(Debug)]
pub struct Permit<R: Resource> {
    semaphore: Arc<FairSemaphore<R>>,
    tenant: R::Tenant,
    amount: R::Amount,
}

impl<R: Resource> FairSemaphore<R> {
    /// A resource of which nothing is taken yet.
    #[must_use]
    pub fn new(resource: R) -> Arc<Self> {
        Arc::new(Self {
            waiters: Mutex::new(WaitList::new(resource)),
        })
    }

    /// Takes an amount if there is enough and nobody of the tenant waits. `urgent`: before those of the tenant that are not.
    #[must_use]
    pub fn try_acquire(
        self: &Arc<Self>,
        tenant: &R::Tenant,
        urgent: bool,
        amount: R::Amount,
    ) -> Option<Permit<R>> {
        let amount = self.waiters.lock().try_take(tenant, urgent, amount)?;
        Some(self.permit(tenant.clone(), amount))
    }

    /// Waits until an amount can be taken.
    ///
    /// # Cancellation
    /// Dropping the future leaves the line.
    pub async fn acquire(
        self: &Arc<Self>,
        tenant: &R::Tenant,
        urgent: bool,
        amount: R::Amount,
    ) -> Permit<R> {
        loop {
            let (sender, receiver) = oneshot::channel();
            let ticket = {
                let mut waiters = self.waiters.lock();
                if let Some(amount) = waiters.try_take(tenant, urgent, amount) {
                    drop(waiters);
                    return self.permit(tenant.clone(), amount);
                }
                waiters.wait(tenant, urgent, amount, sender)
            };
            let _leaves = Leaves {
                semaphore: self,
                tenant,
                ticket,
            };
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }

    /// Whether anybody waits.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.waiters.lock().is_empty()
    }

    /// Looks at the resource.
    pub fn read<T>(&self, read: impl FnOnce(&R) -> T) -> T {
        read(&self.waiters.lock().resource)
    }

    /// Changes the resource, and serves those for whom there is enough now.
    pub fn update<T>(self: &Arc<Self>, update: impl FnOnce(&mut R) -> T) -> T {
        let mut waiters = self.waiters.lock();
        let result = update(&mut waiters.resource);
        self.serve(waiters);
        result
    }

    fn permit(self: &Arc<Self>, tenant: R::Tenant, amount: R::Amount) -> Permit<R> {
        Permit {
            semaphore: self.clone(),
            tenant,
            amount,
        }
    }

    fn serve(self: &Arc<Self>, mut waiters: MutexGuard<'_, Waiters<R>>) {
        let mut due = Vec::new();
        while let Some((tenant, amount, sender)) = waiters.serve_next() {
            if sender.is_closed() {
                // The call has just left. A permit sent to it would be dropped, and end up here again, once for each such call.
                waiters.give_back(&tenant, amount);
            } else {
                due.push((sender, self.permit(tenant, amount)));
            }
        }
        drop(waiters);
        for (sender, permit) in due {
            // If the call has left in the meantime, its permit is dropped here.
            drop(sender.send(permit));
        }
    }
}

impl<R: Resource> Permit<R> {
    /// How much has been taken.
    #[must_use]
    pub fn amount(&self) -> R::Amount {
        self.amount
    }

    /// Changes what has been taken, and the resource accordingly.
    pub fn set_amount(&mut self, amount: R::Amount, update: impl FnOnce(&mut R)) {
        self.amount = amount;
        self.semaphore.update(update);
    }
}

impl<R: Resource<Amount = usize>> Permit<R> {
    /// Moves all of it into another permit, and leaves nothing in this one.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let amount = std::mem::take(&mut self.amount);
        self.semaphore.permit(self.tenant.clone(), amount)
    }
}

impl<R: Resource> Drop for Permit<R> {
    fn drop(&mut self) {
        let mut waiters = self.semaphore.waiters.lock();
        waiters.give_back(&self.tenant, self.amount);
        self.semaphore.serve(waiters);
    }
}

/// Takes a call out of its line when it is dropped. The calls behind may need less.
struct Leaves<'a, R: Resource> {
    semaphore: &'a Arc<FairSemaphore<R>>,
    tenant: &'a R::Tenant,
    ticket: Ticket,
}

impl<R: Resource> Drop for Leaves<'_, R> {
    fn drop(&mut self) {
        let mut waiters = self.semaphore.waiters.lock();
        if waiters.leave(self.tenant, self.ticket).is_some() {
            self.semaphore.serve(waiters);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many units, all for one tenant.
    #[derive(Debug)]
    struct Units(usize);

    impl Resource for Units {
        type Tenant = ();
        type Amount = usize;
        type Rank = ();

        fn fits(&self, (): &(), _: bool, amount: usize) -> bool {
            amount <= self.0
        }

        fn rank(&self, _: &First<'_, ()>) {}

        fn take(&mut self, (): &(), amount: usize) -> usize {
            self.0 -= amount;
            amount
        }

        fn give_back(&mut self, (): &(), amount: usize) {
            self.0 += amount;
        }
    }

    #[tokio::test]
    async fn a_call_that_stops_waiting_leaves_the_line_to_those_behind() {
        let semaphore = FairSemaphore::new(Units(100));
        let held = semaphore.try_acquire(&(), false, 60);
        let small = semaphore.acquire(&(), false, 30);
        tokio::pin!(small);
        {
            let large = semaphore.acquire(&(), false, 50);
            tokio::pin!(large);
            assert!(futures::poll!(&mut large).is_pending());
            assert!(futures::poll!(&mut small).is_pending());
        }
        let small = small.await;
        assert!(!semaphore.is_wanted());
        drop((held, small));
        assert_eq!(semaphore.read(|units| units.0), 100);
    }

    #[tokio::test]
    async fn a_permit_that_is_sent_and_not_taken_comes_back() {
        let semaphore = FairSemaphore::new(Units(1));
        let held = semaphore.try_acquire(&(), false, 1);
        {
            let late = semaphore.acquire(&(), false, 1);
            tokio::pin!(late);
            assert!(futures::poll!(&mut late).is_pending());
            drop(held);
            assert!(semaphore.try_acquire(&(), false, 1).is_none());
        }
        assert!(semaphore.try_acquire(&(), false, 1).is_some());
    }

    #[test]
    fn many_calls_that_leave_at_once_do_not_delay_the_next() {
        let semaphore = FairSemaphore::new(Units(1));
        let held = semaphore.try_acquire(&(), false, 1);
        // Their receivers are closed, and they are in the line still.
        for _ in 0..100_000 {
            let (sender, _) = oneshot::channel();
            semaphore.waiters.lock().wait(&(), false, 1, sender);
        }
        drop(held);
        assert!(!semaphore.is_wanted());
        assert!(semaphore.try_acquire(&(), false, 1).is_some());
    }
}
