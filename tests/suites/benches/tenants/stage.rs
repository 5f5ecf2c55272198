//! Guests, and reconcilers that watch over them. Entry points: [`Stage::new`] and [`Watched`].

use crate::compiler::engine;
use crate::fleet::simulated::now;
use crate::fleet::subject::{Sent, read};
use crate::latency::Latency;
use anyhow::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use windlass_fleet::{Action, Context, ControllerName, Failure, Grant, Reconciler, TenantName};
use windlass_sandbox::{
    Guest, GuestOptions, Isolation, Limits, Revision, Sandbox, Source, Tenant, TenantLimits,
};

/// An engine that compiles as the program's does.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) sandbox: Sandbox,
}

impl Stage {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            sandbox: engine(None)?,
        })
    }

    /// A revision of the component in a file.
    pub(crate) async fn load(&self, component: PathBuf) -> Result<Revision> {
        Ok(self.sandbox.load(component).await?)
    }

    /// The same code as another revision: a component may carry sections that mean nothing.
    pub(crate) async fn disguised(&self, component: PathBuf, as_what: u8) -> Result<Revision> {
        let mut bytes = std::fs::read(component)?;
        bytes.extend([0, 3, 1, b'v', as_what]);
        self.made("disguised", bytes).await
    }

    /// A revision of a component that is in no file.
    pub(crate) async fn made(&self, name: &str, bytes: Vec<u8>) -> Result<Revision> {
        let name = name.to_owned();
        Ok(self.sandbox.load(Source::Bytes { name, bytes }).await?)
    }

    /// A guest that may do everything.
    pub(crate) async fn guest(&self, revision: Revision, setup: Setup<'_>) -> Result<Arc<Guest>> {
        self.granted(Grant::all(), revision, setup).await
    }

    /// A guest that may do what it is granted.
    pub(crate) async fn granted(
        &self,
        grant: Grant,
        revision: Revision,
        setup: Setup<'_>,
    ) -> Result<Arc<Guest>> {
        let tenant = TenantName::new(setup.tenant)?;
        let options = GuestOptions {
            tenant: Tenant::new(tenant, &TenantLimits::default()),
            name: ControllerName::new("guest")?,
            grant: Arc::new(grant),
            http: Arc::default(),
            config: setup.config.to_owned(),
            limits: setup.limits,
            isolation: setup.isolation,
            record: None,
            secrets: Vec::new(),
        };
        Ok(Guest::new(&self.sandbox, options, revision).await?)
    }
}

/// What a guest is given here.
pub(crate) struct Setup<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) config: &'a str,
    pub(crate) limits: Limits,
    pub(crate) isolation: Isolation,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            tenant: "bench",
            config: "{}",
            limits: Limits::default(),
            isolation: Isolation::Fresh,
        }
    }
}

/// The component built from a folder of `guests/`; those of `guests/js/` are named `js/<name>`.
pub(crate) fn component(name: &str) -> PathBuf {
    match name.strip_prefix("js/") {
        Some(name) => windlass_harness::guests::javascript(name),
        None => windlass_harness::guests::guest(name),
    }
}

/// A guest at work, and what came of it.
pub(crate) struct Watched {
    guest: Arc<Guest>,
    /// From when an update was due to the end of the reconcile that saw it.
    pub(crate) done: Latency,
    /// Updates from before are none of what is measured, though a run may see them.
    since: AtomicU64,
    /// Updates that were seen, by object and time.
    seen: Mutex<HashSet<(String, u64)>>,
    /// Runs that failed.
    pub(crate) failed: AtomicUsize,
}

impl Watched {
    pub(crate) fn new(guest: Arc<Guest>) -> Arc<Self> {
        Arc::new(Self {
            guest,
            done: Latency::default(),
            since: AtomicU64::new(0),
            seen: Mutex::default(),
            failed: AtomicUsize::new(0),
        })
    }

    pub(crate) fn clear(&self) {
        self.since.store(now(), Ordering::Relaxed);
        self.done.clear();
        self.seen.lock().clear();
    }

    async fn run(&self, context: Context) -> Result<Action, Failure> {
        let name = context.request.key.name.to_string();
        let (_, object) = read(&context).await?;
        let sent = match &object {
            Some(object) => Sent::of(object)?.at(),
            None => 0,
        };
        let outcome = self.guest.reconcile(context).await;
        if outcome.is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        } else if sent > 0
            && self.seen.lock().insert((name, sent))
            && sent > self.since.load(Ordering::Relaxed)
        {
            let took = Duration::from_nanos(now().saturating_sub(sent));
            self.done.record(took);
        }
        outcome
    }
}

impl Reconciler for Watched {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        self.run(context).boxed()
    }
}

/// A guest that is called again and again for every key once it is let loose, whatever it does.
pub(crate) struct Loose {
    pub(crate) guest: Arc<Guest>,
    pub(crate) on: AtomicBool,
    /// How its calls ended: in a failure's reason, or `done`.
    ended: Mutex<HashMap<&'static str, usize>>,
}

impl Loose {
    pub(crate) fn new(guest: Arc<Guest>) -> Arc<Self> {
        Arc::new(Self {
            guest,
            on: AtomicBool::new(false),
            ended: Mutex::default(),
        })
    }

    pub(crate) fn calls(&self) -> usize {
        self.ended.lock().values().sum()
    }

    /// What most calls ended in, and what part of all that is.
    pub(crate) fn ended_mostly(&self) -> (&'static str, f64) {
        let ended = self.ended.lock();
        let all: usize = ended.values().sum();
        let most = ended.iter().max_by_key(|(_, count)| **count);
        most.map_or(("nothing", 0.0), |(reason, count)| {
            (*reason, *count as f64 / all as f64)
        })
    }
}

impl Reconciler for Loose {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        async move {
            if !self.on.load(Ordering::Relaxed) {
                return Ok(Action::Done);
            }
            let outcome = self.guest.reconcile(context).await;
            let reason = outcome.map_or_else(|failure| failure.reason, |_| "done");
            *self.ended.lock().entry(reason).or_default() += 1;
            Ok(Action::RequeueAfter(Duration::from_millis(100)))
        }
        .boxed()
    }
}
