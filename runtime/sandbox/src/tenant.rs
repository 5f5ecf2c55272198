//! A tenant: the limits and the usage that all of its guests share. Entry point: [`Tenant`].

pub(crate) mod context;
pub(crate) mod denials;
pub(crate) mod outside;
pub(crate) mod recordings;
pub(crate) mod usage;

use crate::admission::evictable::EvictableInstances;
use crate::admission::memory::{Memory, Reservation, Reservations};
use crate::options::{Rate, TenantLimits};
use crate::tape::SpareMemory;
use crate::tenant::recordings::Recordings;
use crate::tenant::usage::nanoseconds;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_fleet::TenantName;
use windlass_fleet::cluster::Bucket;
use windlass_fleet::portion::LivePortion;

/// The share of a tenant's memory that recordings leave to its guests: one of so many parts.
const SPARE: usize = 4;

/// A tenant: its name, its limits, and the usage of all of its guests.
#[derive(Debug)]
pub struct Tenant {
    name: TenantName,
    limits: ArcSwap<TenantLimits>,
    /// Memory of all live instances, in bytes.
    memory: AtomicUsize,
    /// Memory reserved for instances before they are made.
    reservations: Arc<Reservations>,
    /// Processor time of its guests, in nanoseconds.
    computed: AtomicU64,
    /// Permits for API calls. Replaced when the limit changes; permits of the old one end with their calls.
    requests: ArcSwap<Semaphore>,
    rate: Mutex<Option<Bucket>>,
    /// Of the rates.
    portion: LivePortion,
    /// Idle instances of its guests.
    evictable: EvictableInstances,
    /// Of its guests. They are dropped when their memory is needed.
    recordings: Mutex<Vec<Weak<Recordings>>>,
}

impl Tenant {
    /// A tenant without instances.
    #[must_use]
    pub fn new(name: TenantName, limits: &TenantLimits) -> Arc<Self> {
        Self::sharing(name, limits, LivePortion::default())
    }

    /// A tenant without instances in one of several processes: its guests may begin this portion of the calls that rates allow.
    #[must_use]
    pub fn sharing(name: TenantName, limits: &TenantLimits, portion: LivePortion) -> Arc<Self> {
        Arc::new(Self {
            name,
            portion,
            limits: ArcSwap::from_pointee(limits.clone()),
            memory: AtomicUsize::new(0),
            reservations: Reservations::new(Memory::new(limits.memory)),
            computed: AtomicU64::new(0),
            requests: ArcSwap::from_pointee(semaphore(limits)),
            rate: Mutex::new(bucket(limits.requests_per_second)),
            evictable: EvictableInstances::default(),
            recordings: Mutex::default(),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &TenantName {
        &self.name
    }

    /// Memory of its live instances, and of answers that are held for them, in bytes.
    #[must_use]
    pub fn memory_used(&self) -> usize {
        self.memory.load(Ordering::Relaxed) + self.reservations.read(Memory::answers)
    }

    /// Processor time of its guests.
    #[must_use]
    pub fn cpu_used(&self) -> Duration {
        Duration::from_nanos(self.computed.load(Ordering::Relaxed))
    }

    /// API calls of its guests under way.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        let most = self.limits.load().requests_in_flight.max(1);
        most.saturating_sub(self.requests.load().available_permits())
    }

    /// Changes its limits. Usage beyond a smaller limit stays until it ends by itself; nothing more is given until then.
    pub fn set_limits(&self, limits: &TenantLimits) {
        let old = self.limits.swap(Arc::new(limits.clone()));
        if old.memory != limits.memory {
            let limit = limits.memory;
            self.reservations.update(|memory| memory.set_limit(limit));
        }
        if old.requests_in_flight != limits.requests_in_flight {
            self.requests.store(Arc::new(semaphore(limits)));
        }
        if old.requests_per_second != limits.requests_per_second {
            *self.rate.lock() = bucket(limits.requests_per_second);
        }
    }

    pub(crate) fn weight(&self) -> u32 {
        self.limits.load().weight.max(1)
    }

    /// Most thousandths of a processor that its guests may use.
    pub(crate) fn processors(&self) -> Option<u32> {
        self.limits.load().cpu_millis
    }

    pub(crate) fn computed(&self, time: Duration) {
        self.computed
            .fetch_add(nanoseconds(time), Ordering::Relaxed);
    }

    pub(crate) fn evictable(&self) -> &EvictableInstances {
        &self.evictable
    }

    /// Reserves bytes for an instance if there are enough. Idle instances are evicted for it.
    pub(crate) fn try_reserve(&self, bytes: usize, loading: bool) -> Option<Reservation> {
        loop {
            let reservation = self.reservations.try_acquire(&(), loading, bytes);
            if reservation.is_some() || !self.evictable.evict_one() {
                return reservation;
            }
        }
    }

    /// Waits until bytes can be reserved.
    pub(crate) async fn reserve(&self, bytes: usize, loading: bool) -> Reservation {
        self.reservations.acquire(&(), loading, bytes).await
    }

    /// Whether a call waits for memory. No instance is kept idle then.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.reservations.is_wanted()
    }

    /// Charges memory of an instance. Idle instances are evicted for it. `false`: there is not enough.
    pub(crate) fn charge(&self, bytes: usize) -> bool {
        while !self.try_charge(bytes) {
            if !self.make_room() {
                return false;
            }
        }
        true
    }

    /// Has recordings dropped when the memory is needed.
    pub(crate) fn may_drop(&self, recordings: &Arc<Recordings>) {
        let mut all = self.recordings.lock();
        all.retain(|kept| kept.strong_count() > 0);
        if !all
            .iter()
            .any(|kept| std::ptr::eq(kept.as_ptr(), Arc::as_ptr(recordings)))
        {
            all.push(Arc::downgrade(recordings));
        }
    }

    /// Evicts an idle instance, or else drops a recording. `false`: there is none.
    fn make_room(&self) -> bool {
        if self.evictable.evict_one() {
            return true;
        }
        let recordings = self.recordings.lock().clone();
        let mut recordings = recordings.iter().filter_map(Weak::upgrade);
        recordings.any(|kept| kept.drop_one())
    }

    fn try_charge(&self, bytes: usize) -> bool {
        let limit = self.limits.load().memory;
        let answers = self.reservations.read(Memory::answers_beyond_reserve);
        let limit = limit.saturating_sub(answers);
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.memory
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .is_ok()
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.memory.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Charges memory for an answer. Idle instances are evicted for it. `false`: there is not enough.
    pub(crate) fn charge_answer(&self, bytes: usize) -> bool {
        let charge = || {
            self.reservations
                .update(|memory| memory.charge_answer(bytes))
        };
        while !charge() {
            if !self.evictable.evict_one() {
                return false;
            }
        }
        true
    }

    pub(crate) fn release_answer(&self, bytes: usize) {
        self.reservations
            .update(|memory| memory.release_answer(bytes));
    }

    /// Takes a token of the rate for one API call. Returns how long the call has to wait, `None` if that is longer than `patience`.
    pub(crate) fn take_token(&self, patience: Duration) -> Option<Duration> {
        let rate = self.limits.load().requests_per_second;
        self.take_from(&self.rate, rate, patience)
    }

    /// Takes a token of this process's portion of a rate.
    pub(crate) fn take_from(
        &self,
        bucket: &Mutex<Option<Bucket>>,
        rate: Option<Rate>,
        patience: Duration,
    ) -> Option<Duration> {
        let mut bucket = bucket.lock();
        let Some((bucket, rate)) = bucket.as_mut().zip(rate) else {
            return Some(Duration::ZERO);
        };
        bucket.set_limit(self.portion.get().of_rate(rate.limit()));
        bucket.take(Instant::now(), patience)
    }

    /// Gives back the token of an API call that does not begin.
    pub(crate) fn give_back_token(&self) {
        if let Some(bucket) = &mut *self.rate.lock() {
            bucket.give_back();
        }
    }

    /// A permit for one API call if one is free. Otherwise the semaphore to wait for.
    pub(crate) fn request(&self) -> Result<OwnedSemaphorePermit, Arc<Semaphore>> {
        let requests = self.requests.load_full();
        requests.clone().try_acquire_owned().map_err(|_| requests)
    }

    /// Most API calls that may be under way.
    pub(crate) fn most_requests(&self) -> usize {
        self.limits.load().requests_in_flight
    }
}

/// What is free after a share for guests. Nothing is evicted for it.
impl SpareMemory for Tenant {
    fn charge(&self, bytes: usize) -> bool {
        let limit = self.limits.load().memory;
        self.memory_used() + bytes <= limit - limit / SPARE && self.try_charge(bytes)
    }

    fn release(&self, bytes: usize) {
        Self::release(self, bytes);
    }
}

fn semaphore(limits: &TenantLimits) -> Semaphore {
    Semaphore::new(limits.requests_in_flight.clamp(1, Semaphore::MAX_PERMITS))
}

/// A bucket for a rate, full.
pub(crate) fn bucket(rate: Option<Rate>) -> Option<Bucket> {
    Some(Bucket::new(rate?.limit(), Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::portion::Portion;

    fn tenant(limits: TenantLimits) -> Arc<Tenant> {
        Tenant::new(TenantName::default(), &limits)
    }

    #[test]
    fn api_calls_beyond_the_limit_wait_and_a_new_limit_takes_effect_at_once() {
        let limits = TenantLimits {
            requests_in_flight: 2,
            ..TenantLimits::default()
        };
        let tenant = tenant(limits.clone());
        let held = [tenant.request().unwrap(), tenant.request().unwrap()];
        assert!(tenant.request().is_err());
        assert_eq!(tenant.requests_in_flight(), 2);
        tenant.set_limits(&limits);
        assert!(tenant.request().is_err(), "nothing has changed");
        tenant.set_limits(&TenantLimits {
            requests_in_flight: 3,
            ..limits
        });
        assert!(tenant.request().is_ok());
        drop(held);
    }

    #[test]
    fn a_rate_makes_calls_wait_and_none_longer_than_they_can() {
        let tenant = tenant(TenantLimits {
            requests_per_second: Some(Rate { per_second: 10 }),
            ..TenantLimits::default()
        });
        let waits: Vec<_> = (0..12)
            .map(|_| tenant.take_token(Duration::from_secs(5)).unwrap())
            .collect();
        assert!(waits[..10].iter().all(Duration::is_zero), "{waits:?}");
        assert!(waits[11] > Duration::from_millis(100), "{waits:?}");
        assert_eq!(tenant.take_token(Duration::from_millis(10)), None);
    }

    #[test]
    fn one_of_several_processes_begins_its_portion_of_a_rate() {
        let limits = TenantLimits {
            requests_per_second: Some(Rate { per_second: 20 }),
            ..TenantLimits::default()
        };
        let portion = LivePortion::default();
        portion.set(Portion::new(64, 256));
        let tenant = Tenant::sharing(TenantName::default(), &limits, portion);
        let waits = [(); 6].map(|()| tenant.take_token(Duration::from_secs(5)));
        let at_once = waits.iter().filter(|wait| **wait == Some(Duration::ZERO));
        assert_eq!(at_once.count(), 5, "{waits:?}");
        assert!(waits[5] > Some(Duration::from_millis(100)), "{waits:?}");
    }
}
