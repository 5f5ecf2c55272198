//! Instances that serve several calls of one guest, one after the other, within bounds. Entry points: [`PooledInstance`] and [`IdlePool`].

use crate::admission::evictable::Evictable;
use crate::admission::slots::Slot;
use crate::instance::call::Call;
use crate::instance::memory::Bill;
use crate::instance::teardown::Teardown;
use crate::options::Reuse;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;
use wasmtime::Store;
use wasmtime::component::Instance;

/// Memory that is given back in no time, in bytes.
const SMALL: usize = 4 << 20;

/// An instance in use, or kept. Wherever it is dropped, by a call that was cancelled too, a large one is taken down elsewhere.
pub(crate) struct PooledInstance {
    /// Present until it is given up.
    body: Option<Body>,
    teardown: Arc<Teardown>,
}

/// A store with its instance, and its place in the pool. Fields are dropped in their order: its tenant's memory and the place are free
/// once it is gone.
pub(crate) struct Body {
    pub(crate) store: Store<Call>,
    /// `None` before the first call.
    pub(crate) instance: Option<Instance>,
    /// Calls that it has served.
    calls: u32,
    born: Instant,
    /// `None` until it is dropped: a store drops what the host knows of a call before it gives back the instance's memory.
    bill: Option<Bill>,
    _place: Slot,
}

impl PooledInstance {
    pub(crate) fn new(store: Store<Call>, slot: Slot, teardown: Arc<Teardown>) -> Self {
        let body = Body {
            store,
            instance: None,
            calls: 0,
            born: Instant::now(),
            bill: None,
            _place: slot,
        };
        Self {
            body: Some(body),
            teardown,
        }
    }

    /// Has it taken down elsewhere if it is large: the future ends once it is gone and its tenant has the memory again. A small one
    /// comes back, to be dropped here and now.
    pub(crate) fn take_down(mut self) -> Result<impl Future<Output = ()> + use<>, Option<Body>> {
        match self.body.take() {
            Some(body) if body.is_large() => Ok(self.teardown.take_down(Box::new(body))),
            small => Err(small),
        }
    }

    /// Gives it up for who needs its memory now: the account has that at once, the system as soon as it is taken down.
    fn make_way(mut self) {
        let Some(mut body) = self.body.take() else {
            return;
        };
        let large = body.is_large();
        drop(body.store.data_mut().meter.take_bill());
        if large {
            drop(self.teardown.take_down(Box::new(body)));
        }
    }
}

impl Drop for PooledInstance {
    fn drop(&mut self) {
        if let Some(body) = self.body.take_if(|body| body.is_large()) {
            drop(self.teardown.take_down(Box::new(body)));
        }
    }
}

#[expect(clippy::expect_used, reason = "taken only by what consumes it")]
impl Deref for PooledInstance {
    type Target = Body;

    fn deref(&self) -> &Body {
        self.body.as_ref().expect("present until it is given up")
    }
}

#[expect(clippy::expect_used, reason = "taken only by what consumes it")]
impl DerefMut for PooledInstance {
    fn deref_mut(&mut self) -> &mut Body {
        self.body.as_mut().expect("present until it is given up")
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.store.data_mut().end_if_under_way();
        self.bill = Some(self.store.data_mut().meter.take_bill());
    }
}

impl Body {
    /// Whether it takes so long to give its memory back that it is not done where guests compute.
    fn is_large(&self) -> bool {
        self.store.data().meter.memory() > SMALL
    }

    fn is_old(&self, bounds: &Reuse, now: Instant) -> bool {
        now.saturating_duration_since(self.born) >= bounds.age
    }

    /// Whether it may serve another call.
    fn is_fit(&self, bounds: &Reuse, now: Instant) -> bool {
        let call = self.store.data();
        self.calls < bounds.calls
            && !self.is_old(bounds, now)
            && call.meter.memory() <= bounds.memory
            // A guest that keeps its handles gets a new instance before they add up.
            && call.kept_handles() <= call.guest.limits.handles
    }
}

/// The idle instances of one guest, as it is configured now: of one revision, one grant, one configuration. A changed guest has
/// another idle_pool, and this one goes with all that is on it.
pub(crate) struct IdlePool {
    bounds: Reuse,
    /// At most [`Reuse::idle`]; the one that was used last comes last.
    idle: Mutex<VecDeque<PooledInstance>>,
}

impl IdlePool {
    pub(crate) fn new(bounds: Reuse) -> Self {
        Self {
            bounds,
            idle: Mutex::default(),
        }
    }

    /// The instance that was used last, so that those that are not needed grow old.
    pub(crate) fn take(&self) -> Option<PooledInstance> {
        let now = Instant::now();
        loop {
            let session = self.idle.lock().pop_back()?;
            if !session.is_old(&self.bounds, now) {
                return Some(session);
            }
        }
    }

    /// Keeps an instance whose call has ended well, if it may serve another one; gives it back otherwise.
    pub(crate) fn keep(&self, mut session: PooledInstance) -> Result<(), PooledInstance> {
        session.calls += 1;
        if !session.is_fit(&self.bounds, Instant::now()) {
            return Err(session);
        }
        let mut idle = self.idle.lock();
        let over = if idle.len() >= self.bounds.idle as usize {
            idle.pop_front()
        } else {
            None
        };
        idle.push_back(session);
        drop(idle);
        drop(over); // not under the lock: an instance is torn down
        Ok(())
    }

    /// How many are idle.
    pub(crate) fn len(&self) -> usize {
        self.idle.lock().len()
    }
}

impl Evictable for IdlePool {
    fn evict_one(&self) -> bool {
        let session = self.idle.lock().pop_front();
        session.map(PooledInstance::make_way).is_some()
    }

    fn evict_old(&self, now: Instant) -> bool {
        let mut idle = self.idle.lock();
        let (old, fit): (VecDeque<_>, VecDeque<_>) = idle
            .drain(..)
            .partition(|session| session.is_old(&self.bounds, now));
        *idle = fit;
        let left = !idle.is_empty();
        drop(idle);
        drop(old);
        left
    }
}
