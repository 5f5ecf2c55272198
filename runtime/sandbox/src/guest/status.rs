//! What a guest did, counted. Entry points: [`GuestStatus`] and [`Counters`].

use crate::call::Identity;
use crate::description::Description;
use crate::instance::Usage;
use crate::revision::{LoadError, Revision};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;
use windlass_fleet::{Action, Failure};

/// A guest as status pages show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct GuestStatus {
    /// Its owner.
    pub tenant: String,
    /// The reconciler's name.
    pub name: String,
    /// The guest's own title.
    pub title: String,
    /// The revision in use: `sha256:…`.
    pub digest: String,
    /// Bytes of its component.
    pub size: usize,
    /// Since when it is in use, in seconds since the epoch.
    pub loaded: u64,
    /// Why the last revision or configuration that was offered is not in use; `None` if it is.
    pub refused: Option<String>,
    /// Calls of `reconcile`.
    pub calls: u64,
    /// Failures by reason: `error` (the guest's own), `trap`, `timeout`, `memory`, `stack`, `handle`, `host-call`, `capacity`.
    pub failures: BTreeMap<&'static str, u64>,
    /// Most linear memory that a call had, in bytes.
    pub memory_peak: usize,
    /// Linear memory of all live instances of its tenant, in bytes.
    pub tenant_memory: usize,
    /// Requests of its mapper for clusters that it is not granted.
    pub requests_dropped: u64,
}

/// Counts over all revisions.
#[derive(Debug)]
pub(super) struct Counters {
    calls: AtomicU64,
    memory_peak: AtomicUsize,
    requests_dropped: AtomicU64,
    /// Keys are the reasons of failures, a closed set.
    failures: Mutex<BTreeMap<&'static str, u64>>,
    load: Mutex<Load>,
}

#[derive(Debug)]
struct Load {
    since: SystemTime,
    refused: Option<String>,
}

impl Counters {
    pub(super) fn new() -> Self {
        Self {
            calls: AtomicU64::new(0),
            memory_peak: AtomicUsize::new(0),
            requests_dropped: AtomicU64::new(0),
            failures: Mutex::default(),
            load: Mutex::new(Load {
                since: SystemTime::now(),
                refused: None,
            }),
        }
    }

    pub(super) fn called(&self, outcome: &Result<Action, Failure>, usage: Usage) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.memory_peak.fetch_max(usage.memory, Ordering::Relaxed);
        if let Err(failure) = outcome {
            *self.failures.lock().entry(failure.reason).or_default() += 1;
        }
    }

    pub(super) fn requests_dropped(&self, count: usize) {
        if count > 0 {
            tracing::warn!(
                count,
                "requests of a mapper for clusters that it is not granted are dropped"
            );
            self.requests_dropped
                .fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn loaded(&self) {
        *self.load.lock() = Load {
            since: SystemTime::now(),
            refused: None,
        };
    }

    pub(super) fn refused(&self, error: &LoadError) {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        self.load.lock().refused = Some(text);
    }

    pub(super) fn status(
        &self,
        revision: &Revision,
        description: &Description,
        identity: &Identity,
    ) -> GuestStatus {
        let load = self.load.lock();
        GuestStatus {
            tenant: identity.tenant.name().to_string(),
            name: identity.name.to_string(),
            title: description.title.clone(),
            digest: revision.digest().to_string(),
            size: revision.size(),
            loaded: load
                .since
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            refused: load.refused.clone(),
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.lock().clone(),
            memory_peak: self.memory_peak.load(Ordering::Relaxed),
            tenant_memory: identity.tenant.memory_used(),
            requests_dropped: self.requests_dropped.load(Ordering::Relaxed),
        }
    }
}
