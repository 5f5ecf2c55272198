//! The engine that all guests run in, and the thread that makes them yield. Entry point: [`Sandbox`].

mod config;
mod ticker;

pub(crate) use config::compiling;
pub(crate) use ticker::{Running, TICK};

use crate::bindings::windlass::runtime::{client, clock, config as config_import, fleet, log};
use crate::cache::{Cache, CacheError};
use crate::call::Call;
use crate::options::Options;
use std::sync::Arc;
use ticker::Ticker;
use tokio::sync::{Semaphore, SemaphorePermit};
use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};

/// The engine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Not even with the smallest pool.
    #[error("cannot make an engine for guests on this machine")]
    Engine(#[source] wasmtime::Error),
    /// A host function does not fit the contract that it was generated from.
    #[error("cannot link the host's functions")]
    Link(#[source] wasmtime::Error),
    /// The thread that makes guests yield cannot be started.
    #[error("cannot start the thread that interrupts guests")]
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
    ticker: Ticker,
    /// A permit for each instance that the pool has room for: a call beyond waits here instead of failing.
    instances: Semaphore,
    /// What was compiled before.
    cache: Option<Cache>,
    /// Held while a component is compiled: one at a time, so that the limits of one are those of all.
    compiling: Semaphore,
}

impl Sandbox {
    /// Makes an engine. Where the machine has not enough address space for [`Options::instances`] it takes fewer, and says so
    /// in the log.
    ///
    /// # Errors
    /// [`SandboxError`] when none can be made at all, or when [`Options::cache`] cannot be used.
    pub fn new(options: Options) -> Result<Self, SandboxError> {
        let (engine, instances) = config::engine(&options).map_err(SandboxError::Engine)?;
        let open = |cache| Cache::open(cache, &config::fingerprint(&engine));
        let cache = options.cache.as_ref().map(open).transpose()?;
        let plain = linker(&engine, false).map_err(SandboxError::Link)?;
        let with_fleet = linker(&engine, true).map_err(SandboxError::Link)?;
        let ticker = Ticker::start(&engine).map_err(SandboxError::Thread)?;
        let instances = Semaphore::new(instances as usize);
        Ok(Self {
            inner: Arc::new(Inner {
                options,
                engine,
                plain,
                with_fleet,
                ticker,
                instances,
                cache,
                compiling: Semaphore::new(1),
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

    /// Waits until nothing else is compiled, and keeps it so.
    pub(crate) async fn compiling(&self) -> Option<SemaphorePermit<'_>> {
        self.inner.compiling.acquire().await.ok()
    }

    pub(crate) fn linker(&self, fleet: bool) -> &Linker<Call> {
        if fleet {
            &self.inner.with_fleet
        } else {
            &self.inner.plain
        }
    }

    /// Waits for room in the pool, and keeps the ticker awake while the slot is held.
    pub(crate) async fn slot(&self) -> Slot<'_> {
        // The semaphore is never closed; were it, the pool itself would still refuse what does not fit.
        let permit = self.inner.instances.acquire().await.ok();
        Slot {
            _permit: permit,
            _running: self.inner.ticker.running(),
        }
    }
}

/// Room for one instance. Dropped after the instance.
pub(crate) struct Slot<'a> {
    _permit: Option<SemaphorePermit<'a>>,
    _running: Running<'a>,
}

fn linker(engine: &Engine, with_fleet: bool) -> wasmtime::Result<Linker<Call>> {
    let mut linker = Linker::new(engine);
    // WASI with an empty context: no files, no environment, no sockets. Its context is made when a guest first uses it.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    log::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    config_import::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    clock::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    client::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    if with_fleet {
        fleet::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    }
    Ok(linker)
}
