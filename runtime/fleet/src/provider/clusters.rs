//! Clusters that the program names. Entry points: [`Clusters::put`] and [`Clusters::remove`].

use super::engaged::Engaged;
use super::problems::Problems;
use super::{Problem, Provider, ProviderError};
use crate::engage::{ClusterSpec, Engage};
use crate::name::ClusterName;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Provides the clusters that are put into it, before and while it runs.
pub struct Clusters {
    name: String,
    wanted: Mutex<BTreeMap<ClusterName, ClusterSpec>>,
    changed: Notify,
    problems: Problems,
}

impl Clusters {
    /// A provider of no clusters yet.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            wanted: Mutex::default(),
            changed: Notify::new(),
            problems: Problems::default(),
        }
    }

    /// Adds a cluster, or replaces the one of its name.
    pub fn put(&self, spec: ClusterSpec) {
        self.wanted.lock().insert(spec.name.clone(), spec);
        self.changed.notify_one();
    }

    /// Takes a cluster out. Returns whether it was there.
    pub fn remove(&self, name: &ClusterName) -> bool {
        let was_there = self.wanted.lock().remove(name).is_some();
        self.changed.notify_one();
        was_there
    }

    /// Names of the clusters, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<ClusterName> {
        self.wanted.lock().keys().cloned().collect()
    }
}

impl Provider for Clusters {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        Box::pin(async move {
            let mut engaged = Engaged::default();
            loop {
                let (wanted, mut problems) = (self.wanted.lock().clone(), Vec::new());
                if !engaged.bring_in_line(wanted, &*engage, &mut problems) {
                    return Ok(());
                }
                self.problems.replace(&self.name, problems);
                engage.listed();
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    () = self.changed.notified() => {}
                    () = engage.freed() => {}
                }
            }
        })
    }

    fn problems(&self) -> Vec<Problem> {
        self.problems.all()
    }
}
