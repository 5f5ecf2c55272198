//! The engine that all guests run in. Entry point: [`Sandbox`].

mod config;

pub(crate) use config::compiling;

use crate::admission::compilations::{Compilations, CompilePermit};
use crate::admission::evictable::EvictableInstances;
use crate::admission::semaphore::FairSemaphore;
use crate::admission::slots::{Slot, Slots};
use crate::cache::{Cache, CacheError};
use crate::contract::windlass::runtime::{client, clock, config as config_import, fleet, log};
use crate::instance::call::Call;
use crate::instance::pooled::PooledInstance;
use crate::instance::teardown::Teardown;
use crate::options::Options;
use crate::scheduler::Scheduler;
use crate::scheduler::priority::all_but_one;
use crate::tenant::Tenant;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};
use windlass_fleet::TenantName;

/// How often idle instances are looked at.
const SWEEP: Duration = Duration::from_secs(1);

/// The engine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Not even with the smallest pool.
    #[error("cannot make an engine for guests on this machine")]
    Engine(#[source] wasmtime::Error),
    /// A host function does not fit the contract that it was generated from.
    #[error("cannot link the host's functions")]
    Link(#[source] wasmtime::Error),
    /// A thread cannot be started: one that runs guests, or the one that takes large instances down.
    #[error("cannot start a thread for guests: raise the limit on threads")]
    Thread(#[source] std::io::Error),
    /// What was compiled cannot be kept where it should.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// One engine: compiles components, gives instances their memory and makes busy guests yield. Cheap to clone; several can live
/// in a process.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    engine: Engine,
    /// Every capability but `fleet`.
    plain: Linker<Call>,
    /// Every capability.
    with_fleet: Linker<Call>,
    /// Polls the calls of all guests.
    scheduler: Scheduler,
    /// For the instances that the engine has room for: a call beyond waits here instead of failing.
    slots: Arc<FairSemaphore<Slots>>,
    teardown: Arc<Teardown>,
    /// Idle instances of all guests.
    evictable: EvictableInstances,
    /// Whether a task looks after idle instances.
    sweeping: AtomicBool,
    /// What was compiled before.
    cache: Option<Cache>,
    /// Where components are compiled, few at a time.
    compilations: Arc<FairSemaphore<Compilations>>,
}

impl Sandbox {
    /// Makes an engine. Where the machine has not enough address space for [`Options::instances`] it takes fewer, and says so
    /// in the log.
    ///
    /// # Errors
    /// [`SandboxError`] when none can be made at all, or when [`Options::cache`] cannot be used.
    pub fn new(options: Options) -> Result<Self, SandboxError> {
        Self::linked(options, linker)
    }

    /// As [`Self::new`], with the functions that `link` gives to guests, those of `fleet` among them or not.
    fn linked(
        options: Options,
        link: fn(&Engine, bool) -> wasmtime::Result<Linker<Call>>,
    ) -> Result<Self, SandboxError> {
        let (engine, instances) = config::engine(&options).map_err(SandboxError::Engine)?;
        let open = |cache| Cache::open(cache, &config::fingerprint(&engine));
        let cache = options.cache.as_ref().map(open).transpose()?;
        let plain = link(&engine, false).map_err(SandboxError::Link)?;
        let with_fleet = link(&engine, true).map_err(SandboxError::Link)?;
        let count = options.processors.unwrap_or_else(all_but_one);
        let scheduler = Scheduler::start(&engine, count).map_err(SandboxError::Thread)?;
        let teardown = Teardown::start(instances as usize).map_err(SandboxError::Thread)?;
        Ok(Self {
            inner: Arc::new(Inner {
                options,
                engine,
                plain,
                with_fleet,
                scheduler,
                slots: FairSemaphore::<Slots>::new(instances as usize),
                teardown: Arc::new(teardown),
                evictable: EvictableInstances::default(),
                sweeping: AtomicBool::new(false),
                cache,
                compilations: FairSemaphore::<Compilations>::new(),
            }),
        })
    }

    /// What it was made with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.inner.cache.as_ref()
    }

    /// Waits until a component of a tenant may be compiled, which it may be until the permit is dropped.
    pub(crate) async fn compile_permit(&self, tenant: &TenantName) -> CompilePermit {
        self.inner.compilations.acquire(tenant, false, ()).await
    }

    pub(crate) fn linker(&self, fleet: bool) -> &Linker<Call> {
        if fleet {
            &self.inner.with_fleet
        } else {
            &self.inner.plain
        }
    }

    /// How many slices of guests' calls have begun so far, while calls are ready and wait for theirs. `None`: no call waits.
    #[must_use]
    pub fn backlog(&self) -> Option<u64> {
        self.inner.scheduler.backlog()
    }

    /// What polls the calls of all guests.
    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.inner.scheduler
    }

    /// Waits for room for an instance; idle ones make room. `loading`: of a guest that is loaded, which comes before calls.
    pub(crate) async fn slot(&self, tenant: &Tenant, loading: bool) -> Slot {
        let slots = &self.inner.slots;
        if let Some(slot) = slots.try_acquire(tenant.name(), loading, ()) {
            return slot;
        }
        if slots.is_at_ceiling(tenant.name()) {
            tenant.evictable().evict_one();
        } else {
            self.inner.evictable.evict_one();
        }
        slots.acquire(tenant.name(), loading, ()).await
    }

    /// What takes large instances down.
    pub(crate) fn teardown(&self) -> Arc<Teardown> {
        self.inner.teardown.clone()
    }

    /// Gives an instance up. A large one is taken down elsewhere; returns once its tenant has the memory again, or at the deadline:
    /// an answer does not come too late for it.
    pub(crate) async fn discard(&self, session: PooledInstance, deadline: tokio::time::Instant) {
        if let Ok(gone) = session.take_down() {
            let _ = tokio::time::timeout_at(deadline, gone).await;
        }
    }

    /// Has an idle instance leave its place to who waits for one, if somebody does.
    pub(crate) fn make_room(&self) {
        if self.inner.slots.is_wanted() {
            self.inner.evictable.evict_one();
        }
    }

    /// Whether there is room for idle instances.
    pub(crate) fn has_room(&self) -> bool {
        !self.inner.slots.is_wanted()
    }

    /// The idle instances of all guests.
    pub(crate) fn evictable(&self) -> &EvictableInstances {
        &self.inner.evictable
    }

    /// Looks after idle instances from now on until there are none, in one task for all of them. Call it on a tokio runtime.
    pub(crate) fn sweep(&self) {
        if self.inner.sweeping.swap(true, Ordering::SeqCst) {
            return;
        }
        let sweeper = Sweeper(Arc::downgrade(&self.inner));
        tokio::spawn(async move {
            while sweeper.0.upgrade().is_some_and(|inner| inner.sweep()) {
                tokio::time::sleep(SWEEP).await;
            }
        });
    }
}

impl Inner {
    /// Gives up what is too old. Returns whether somebody has to look again.
    fn sweep(&self) -> bool {
        if self.slots.is_wanted() {
            self.evictable.evict_one();
        }
        if self.evictable.evict_old(Instant::now()) {
            return true;
        }
        self.sweeping.store(false, Ordering::SeqCst);
        // One that was kept just before that is still this task's.
        self.evictable.evict_old(Instant::now()) && !self.sweeping.swap(true, Ordering::SeqCst)
    }
}

/// Says that nobody looks after idle instances any more, also when the runtime ends.
struct Sweeper(Weak<Inner>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.sweeping.store(false, Ordering::SeqCst);
        }
    }
}

fn linker(engine: &Engine, with_fleet: bool) -> wasmtime::Result<Linker<Call>> {
    let mut linker = without_clock(engine, with_fleet)?;
    clock::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    Ok(linker)
}

fn without_clock(engine: &Engine, with_fleet: bool) -> wasmtime::Result<Linker<Call>> {
    let mut linker = Linker::new(engine);
    // WASI with an empty context: no files, no environment, no sockets. Its context is made when a guest first uses it.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    log::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    config_import::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    client::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    if with_fleet {
        fleet::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    }
    Ok(linker)
}

#[cfg(test)]
mod upgrade_tests;
