//! What a cluster's provider says of it: labels, properties and more. Entry point: [`Cluster::describe`].
//!
//! They are exchanged in place: a provider may report new ones with every heartbeat, and the cluster's caches, keys and runs stay.

use super::{Cluster, RefusedClaims};
use crate::grant::ClusterFacts;
use crate::kind::GroupVersionKind;
use crate::name::ClusterName;
use crate::pairs::Pairs;
use std::sync::Arc;

/// What a provider says of a cluster, beside how it is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) labels: Pairs,
    pub(crate) properties: Pairs,
    pub(crate) alias: Option<ClusterName>,
    pub(crate) refused_claims: Arc<RefusedClaims>,
    pub(crate) has_left_endpoint: bool,
}

impl Cluster {
    /// Its labels, from its provider, as they are now.
    #[must_use]
    pub fn labels(&self) -> Pairs {
        self.description.load().labels.clone()
    }

    /// Its properties, from its provider, as they are now.
    #[must_use]
    pub fn properties(&self) -> Pairs {
        self.description.load().properties.clone()
    }

    /// Another name under which it is found now.
    pub(super) fn alias(&self) -> Option<ClusterName> {
        self.description.load().alias.clone()
    }

    /// Kinds of its export that the owner of the workspace does not let clients use; empty outside of kcp.
    #[must_use]
    pub fn refused_claims(&self) -> Arc<RefusedClaims> {
        self.description.load().refused_claims.clone()
    }

    /// Whether the host may keep the metadata of a kind without a rule for `watch`: the bindings of a workspace that has left its endpoint.
    pub(super) fn keeps_metadata_of(&self, kind: &GroupVersionKind) -> bool {
        let is_binding = &*kind.group == "apis.kcp.io" && &*kind.kind == "APIBinding";
        is_binding && self.description.load().has_left_endpoint
    }

    /// Exchanges its description. Returns whether the labels have changed: then the watches that select clusters by label must be
    /// brought in step.
    pub(crate) fn describe(&self, description: Description) -> bool {
        let is_new = self.description.load().labels != description.labels;
        self.description.store(Arc::new(description));
        is_new
    }

    /// What rules match of it. `labels` are [`Self::labels`].
    #[must_use]
    pub fn facts<'a>(&'a self, labels: &'a Pairs, own: bool) -> ClusterFacts<'a> {
        ClusterFacts {
            name: &self.name,
            labels,
            provider: self.provider(),
            own,
        }
    }
}
