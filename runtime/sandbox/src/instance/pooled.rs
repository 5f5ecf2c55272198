//! Instances that serve several calls of one guest, one after the other, within limits. Entry points: [`PooledInstance`] and [`IdlePool`].
//!
//! * An idle instance keeps its slot and its memory charge. Both are free once the instance is gone.
//! * An idle instance is evicted when a call needs its slot or its memory, and when it is old.
//! * Only the charge of an evicted instance ends before its memory is free.

use crate::admission::evictable::Evictable;
use crate::admission::slots::Slot;
use crate::instance::call::Call;
use crate::instance::memory::MemoryCharge;
use crate::instance::teardown::Teardown;
use crate::options::Reuse;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;
use wasmtime::Store;
use wasmtime::component::Instance;

/// Up to this much memory is freed where guests compute, in bytes. A larger instance is torn down on another thread.
const SMALL: usize = 4 << 20;

/// An instance that is in use or idle. Wherever it is dropped, even by a cancelled call, a large one is torn down on another thread.
pub(crate) struct PooledInstance {
    /// Present until it is consumed.
    body: Option<Body>,
    teardown: Arc<Teardown>,
}

/// A store with its instance and its slot. Fields are dropped in their order: the memory charge and the slot are free once the store is
/// gone.
pub(crate) struct Body {
    pub(crate) store: Store<Call>,
    /// `None` before the first call.
    pub(crate) instance: Option<Instance>,
    /// Calls that it has served.
    calls: u32,
    born: Instant,
    /// `None` until this is dropped. A store drops its data before it frees the instance's memory, so the charge is moved here.
    charge: Option<MemoryCharge>,
    _slot: Slot,
}

impl PooledInstance {
    pub(crate) fn new(store: Store<Call>, slot: Slot, teardown: Arc<Teardown>) -> Self {
        let body = Body {
            store,
            instance: None,
            calls: 0,
            born: Instant::now(),
            charge: None,
            _slot: slot,
        };
        Self {
            body: Some(body),
            teardown,
        }
    }

    /// Has a large instance torn down on another thread. The future ends once it is gone and its memory and slot are free. A small one
    /// is returned, to be dropped at once.
    pub(crate) fn take_down(mut self) -> Result<impl Future<Output = ()> + use<>, Option<Body>> {
        match self.body.take() {
            Some(body) if body.is_large() => Ok(self.teardown.take_down(Box::new(body))),
            small => Err(small),
        }
    }

    /// Tears it down for a call that needs its memory. The charge ends at once, a little before the memory is free.
    fn evict(mut self) {
        let Some(mut body) = self.body.take() else {
            return;
        };
        let large = body.is_large();
        drop(body.store.data_mut().meter.take_charge());
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

#[expect(clippy::expect_used, reason = "taken only by methods that consume it")]
impl Deref for PooledInstance {
    type Target = Body;

    fn deref(&self) -> &Body {
        self.body.as_ref().expect("present until it is consumed")
    }
}

#[expect(clippy::expect_used, reason = "taken only by methods that consume it")]
impl DerefMut for PooledInstance {
    fn deref_mut(&mut self) -> &mut Body {
        self.body.as_mut().expect("present until it is consumed")
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.store.data_mut().end_if_under_way();
        self.charge = Some(self.store.data_mut().meter.take_charge());
    }
}

impl Body {
    /// Whether freeing its memory takes too long for a worker of the scheduler.
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

/// The idle instances of one guest with one revision, one grant and one configuration. A changed guest gets another pool, and this one
/// is dropped with its instances.
pub(crate) struct IdlePool {
    bounds: Reuse,
    /// At most [`Reuse::idle`]. The one that was used last comes last.
    idle: Mutex<VecDeque<PooledInstance>>,
}

impl IdlePool {
    pub(crate) fn new(bounds: Reuse) -> Self {
        Self {
            bounds,
            idle: Mutex::default(),
        }
    }

    /// Takes the instance that was used last, so that the others grow old when fewer are needed.
    pub(crate) fn take(&self) -> Option<PooledInstance> {
        let now = Instant::now();
        loop {
            let pooled = self.idle.lock().pop_back()?;
            if !pooled.is_old(&self.bounds, now) {
                return Some(pooled);
            }
        }
    }

    /// Keeps an instance whose call has succeeded, if it may serve another call. Returns it otherwise.
    pub(crate) fn keep(&self, mut pooled: PooledInstance) -> Result<(), PooledInstance> {
        pooled.calls += 1;
        if !pooled.is_fit(&self.bounds, Instant::now()) {
            return Err(pooled);
        }
        let mut idle = self.idle.lock();
        let over = if idle.len() >= self.bounds.idle as usize {
            idle.pop_front()
        } else {
            None
        };
        idle.push_back(pooled);
        drop(idle);
        drop(over); // not under the lock: dropping an instance takes long
        Ok(())
    }

    /// Idle instances.
    pub(crate) fn len(&self) -> usize {
        self.idle.lock().len()
    }
}

impl Evictable for IdlePool {
    fn evict_one(&self) -> bool {
        let pooled = self.idle.lock().pop_front();
        pooled.map(PooledInstance::evict).is_some()
    }

    fn evict_old(&self, now: Instant) -> bool {
        let mut idle = self.idle.lock();
        let (old, fit): (VecDeque<_>, VecDeque<_>) = idle
            .drain(..)
            .partition(|pooled| pooled.is_old(&self.bounds, now));
        *idle = fit;
        let left = !idle.is_empty();
        drop(idle);
        drop(old);
        left
    }
}
