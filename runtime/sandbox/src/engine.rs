//! The engine of all guests. Entry point: [`Sandbox`].

mod config;

pub(crate) use config::compiling;

use crate::admission::compilations::{Compilations, CompilePermit};
use crate::admission::evictable::EvictableInstances;
use crate::admission::slots::{Slot, Slots};
use crate::cache::{Cache, CacheError};
use crate::capability::taped::{HasTape, Taped};
use crate::capability::wasi_http;
use crate::contract::windlass::runtime::{
    client, clock, config as config_import, fleet, http, log,
};
use crate::instance::call::Call;
use crate::instance::pooled::PooledInstance;
use crate::instance::teardown::Teardown;
use crate::native::NativeGuests;
use crate::options::Options;
use crate::scheduler::Scheduler;
use crate::scheduler::priority::all_but_one;
use crate::tenant::Tenant;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};
use windlass_fleet::TenantName;
use windlass_fleet::fair::FairSemaphore;

/// How often idle instances are checked for their age.
const SWEEP: Duration = Duration::from_secs(1);

/// The engine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// It could not even be made without a pool.
    #[error("cannot make an engine for guests on this machine")]
    Engine(#[source] wasmtime::Error),
    /// A host function does not fit the contract that it was generated from.
    #[error("cannot link the host's functions")]
    Link(#[source] wasmtime::Error),
    /// A thread cannot be started, or its timer made: a worker, the ticker, or the one that tears down large instances.
    #[error("cannot start a thread for guests: raise the limits on threads and open files")]
    Thread(#[source] std::io::Error),
    /// The cache of compiled components cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// One engine: compiles components, gives instances their memory, and runs guests' calls. Cheap to clone. A process may have several.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
    /// Guests that are processes of their own.
    natives: NativeGuests,
}

struct Inner {
    options: Options,
    engine: Engine,
    /// Every capability but `fleet`.
    plain: Linker<Call>,
    /// Every capability.
    with_fleet: Linker<Call>,
    /// Every capability, for calls that have a tape. Made for the first one.
    taped: OnceLock<Linker<Call>>,
    /// Runs the calls of all guests.
    scheduler: Scheduler,
    /// A slot for each instance that the engine has room for. Further calls wait.
    slots: Arc<FairSemaphore<Slots>>,
    teardown: Arc<Teardown>,
    /// Idle instances of all guests.
    evictable: EvictableInstances,
    /// Whether a task evicts old idle instances.
    sweeping: AtomicBool,
    /// Compiled components.
    cache: Option<Cache>,
    /// Permits to compile components.
    compilations: Arc<FairSemaphore<Compilations>>,
}

impl Sandbox {
    /// Makes an engine. If the machine has too little address space for [`Options::instances`], the engine has fewer, and logs that.
    ///
    /// # Errors
    /// [`SandboxError`] when none can be made at all, or when [`Options::cache`] cannot be used.
    pub fn new(options: Options) -> Result<Self, SandboxError> {
        Self::linked(options, linker)
    }

    /// The same engine, with guests that run as processes of their own in place of components.
    #[must_use]
    pub fn with_natives(self, natives: NativeGuests) -> Self {
        Self { natives, ..self }
    }

    pub(crate) fn natives(&self) -> &NativeGuests {
        &self.natives
    }

    /// As [`Self::new`], with the host functions of `link`, whose second argument says whether `fleet` is among them.
    fn linked(
        options: Options,
        link: fn(&Engine, bool) -> wasmtime::Result<Linker<Call>>,
    ) -> Result<Self, SandboxError> {
        let (engine, instances) = config::engine(&options).map_err(SandboxError::Engine)?;
        let open = |cache| Cache::open(cache, &config::fingerprint(&engine));
        let cache = options.cache.as_ref().map(open).transpose()?;
        let plain = link(&engine, false).map_err(SandboxError::Link)?;
        let with_fleet = link(&engine, true).map_err(SandboxError::Link)?;
        let scheduler = if options.in_place {
            Scheduler::in_place(&engine)
        } else {
            let count = options.processors.unwrap_or_else(all_but_one);
            Scheduler::start(&engine, count, options.slice)
        };
        let scheduler = scheduler.map_err(SandboxError::Thread)?;
        let teardown = Teardown::start(instances as usize).map_err(SandboxError::Thread)?;
        Ok(Self {
            inner: Arc::new(Inner {
                options,
                engine,
                plain,
                with_fleet,
                taped: OnceLock::new(),
                scheduler,
                slots: FairSemaphore::new(Slots::new(instances as usize)),
                teardown: Arc::new(teardown),
                evictable: EvictableInstances::default(),
                sweeping: AtomicBool::new(false),
                cache,
                compilations: FairSemaphore::new(Compilations::default()),
            }),
            natives: NativeGuests::default(),
        })
    }

    /// Its options.
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

    /// Waits for the permit to compile one component of a tenant.
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

    /// For calls that have a tape.
    pub(crate) fn taped_linker(&self) -> wasmtime::Result<&Linker<Call>> {
        if let Some(linker) = self.inner.taped.get() {
            return Ok(linker);
        }
        let linker = taped_linker(&self.inner.engine)?;
        Ok(self.inner.taped.get_or_init(|| linker))
    }

    /// Slices that have begun so far, if calls wait for a slice. `None`: no call waits.
    #[must_use]
    pub fn backlog(&self) -> Option<u64> {
        self.inner.scheduler.backlog()
    }

    /// The scheduler of all guests' calls.
    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.inner.scheduler
    }

    /// Waits for a slot. An idle instance is evicted if none is free. `loading`: for a guest that is being loaded, before calls.
    pub(crate) async fn slot(&self, tenant: &Tenant, loading: bool) -> Slot {
        let slots = &self.inner.slots;
        if let Some(slot) = slots.try_acquire(tenant.name(), loading, ()) {
            return slot;
        }
        if slots.read(|slots| slots.is_at_ceiling(tenant.name())) {
            tenant.evictable().evict_one();
        } else {
            self.inner.evictable.evict_one();
        }
        slots.acquire(tenant.name(), loading, ()).await
    }

    /// Tears large instances down.
    pub(crate) fn teardown(&self) -> Arc<Teardown> {
        self.inner.teardown.clone()
    }

    /// Drops an instance. A large one is torn down on another thread: returns once its memory is free, or at the deadline, so that the
    /// call's result is not late.
    pub(crate) async fn discard(&self, pooled: PooledInstance, deadline: tokio::time::Instant) {
        if let Ok(gone) = pooled.take_down() {
            let _ = tokio::time::timeout_at(deadline, gone).await;
        }
    }

    /// Evicts an idle instance if a call waits for a slot.
    pub(crate) fn evict_if_short_of_slots(&self) {
        if self.inner.slots.is_wanted() {
            self.inner.evictable.evict_one();
        }
    }

    /// Whether a call waits for a slot. No instance is kept idle then.
    pub(crate) fn is_short_of_slots(&self) -> bool {
        self.inner.slots.is_wanted()
    }

    /// The idle instances of all guests.
    pub(crate) fn evictable(&self) -> &EvictableInstances {
        &self.inner.evictable
    }

    /// Starts the task that evicts old idle instances, unless it runs. It ends when there are none, or with the tokio runtime
    /// that this is called on.
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
    /// Evicts old idle instances. Returns whether to do it again.
    fn sweep(&self) -> bool {
        if self.slots.is_wanted() {
            self.evictable.evict_one();
        }
        if self.evictable.evict_old(Instant::now()) {
            return true;
        }
        self.sweeping.store(false, Ordering::SeqCst);
        // An instance that was kept just before the store is still this task's.
        self.evictable.evict_old(Instant::now()) && !self.sweeping.swap(true, Ordering::SeqCst)
    }
}

/// The host functions of a call that has a tape.
fn taped_linker(engine: &Engine) -> wasmtime::Result<Linker<Call>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasi_http::link(&mut linker)?;
    log::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    config_import::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    client::add_to_linker::<_, HasTape>(&mut linker, |call| Taped(call))?;
    fleet::add_to_linker::<_, HasTape>(&mut linker, |call| Taped(call))?;
    http::add_to_linker::<_, HasTape>(&mut linker, |call| Taped(call))?;
    clock::add_to_linker::<_, HasTape>(&mut linker, |call| Taped(call))?;
    Ok(linker)
}

/// Clears `sweeping` when the task is dropped, even at the end of the runtime.
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
    // WASI has no files, no environment and no sockets: see `Call`.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasi_http::link(&mut linker)?;
    log::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    config_import::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    client::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    http::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    if with_fleet {
        fleet::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    }
    Ok(linker)
}

#[cfg(test)]
mod upgrade_tests;
