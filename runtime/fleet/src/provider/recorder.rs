//! An engage for tests of providers, which writes down what it is asked. Entry point: [`Recorder::run`].

use crate::cluster::ClusterConfig;
use crate::engage::{ClusterSpec, Engage, EngageError};
use crate::name::ClusterName;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What a provider has engaged, and everything that it has asked for on the way.
#[derive(Default)]
pub(super) struct Recorder {
    engaged: Mutex<BTreeMap<String, ClusterConfig>>,
    log: Mutex<Vec<String>>,
    refused: Mutex<BTreeSet<String>>,
    freed: Notify,
    listed: CancellationToken,
}

/// The provider's handle for one run. It records the clusters and, as a manager does, drops those that only an earlier run reported.
struct Run {
    recorder: Arc<Recorder>,
    /// The clusters that this run has reported, until it has reported all.
    told: Mutex<Option<BTreeSet<String>>>,
}

impl Recorder {
    pub(super) fn run(self: &Arc<Self>) -> Arc<dyn Engage> {
        Arc::new(Run {
            recorder: self.clone(),
            told: Mutex::new(Some(BTreeSet::new())),
        })
    }

    /// Refuses a name from now on, as one of another provider.
    pub(super) fn refuse(&self, name: &str) {
        self.refused.lock().insert(name.to_owned());
    }

    /// Refuses no name any more.
    pub(super) fn free_all(&self) {
        self.refused.lock().clear();
        self.freed.notify_one();
    }

    /// What was asked: `+name` for an engaged cluster, `-name` for a disengaged one.
    pub(super) fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.engaged.lock().keys().cloned().collect()
    }

    pub(super) fn config(&self, name: &str) -> ClusterConfig {
        self.engaged.lock()[name].clone()
    }

    /// Waits until a run has listed.
    pub(super) async fn until_listed(&self) {
        self.listed.cancelled().await;
    }
}

impl Engage for Run {
    fn engage(&self, spec: ClusterSpec) -> Result<(), EngageError> {
        let name = spec.name.to_string();
        if self.recorder.refused.lock().contains(&name) {
            return Err(EngageError::Duplicate {
                name: spec.name,
                by: "other".to_owned(),
            });
        }
        if let Some(told) = &mut *self.told.lock() {
            told.insert(name.clone());
        }
        self.recorder.log.lock().push(format!("+{name}"));
        self.recorder.engaged.lock().insert(name, spec.config);
        Ok(())
    }

    fn disengage(&self, name: &ClusterName) {
        self.recorder.log.lock().push(format!("-{name}"));
        self.recorder.engaged.lock().remove(name.as_str());
    }

    fn keep(&self, name: &ClusterName) {
        if let Some(told) = &mut *self.told.lock() {
            told.insert(name.to_string());
        }
    }

    fn listed(&self) {
        if let Some(told) = self.told.lock().take() {
            let mut engaged = self.recorder.engaged.lock();
            engaged.retain(|name, _| told.contains(name));
        }
        self.recorder.listed.cancel();
    }

    fn freed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.recorder.freed.notified())
    }
}
