//! A cluster's labels and properties, as its provider gives them. Entry point: [`Cluster::describe`].
//!
//! They are exchanged in place: a provider may report new ones with every heartbeat, and the cluster's caches, keys and runs stay.

use super::Cluster;
use crate::grant::ClusterFacts;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Cluster {
    /// Its labels, from its provider, as they are now.
    #[must_use]
    pub fn labels(&self) -> Arc<BTreeMap<String, String>> {
        self.labels.load_full()
    }

    /// Its properties, from its provider, as they are now.
    #[must_use]
    pub fn properties(&self) -> Arc<BTreeMap<String, String>> {
        self.properties.load_full()
    }

    /// Exchanges its labels and properties. Returns whether the labels have changed: then the watches that select clusters by label
    /// must be brought in step.
    pub(crate) fn describe(
        &self,
        labels: &Arc<BTreeMap<String, String>>,
        properties: &Arc<BTreeMap<String, String>>,
    ) -> bool {
        self.properties.store(properties.clone());
        let is_new = **self.labels.load() != **labels;
        self.labels.store(labels.clone());
        is_new
    }

    /// What rules match of it. `labels` are [`Self::labels`].
    pub(crate) fn facts<'a>(
        &'a self,
        labels: &'a BTreeMap<String, String>,
        own: bool,
    ) -> ClusterFacts<'a> {
        ClusterFacts {
            name: &self.name,
            labels,
            own,
        }
    }
}
