//! The clusters that a tenant's reconcilers may work in. Entry point: [`ClusterBound`].

use super::rule::Granting;
use super::{ClusterFacts, Denied};
use crate::name::{ClusterName, NamePattern};
use crate::selector::LabelSelector;
use std::sync::Arc;

/// Clusters that something stays within, whatever rules grant. Default: none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterBound {
    /// Whether the local (hub) cluster is one.
    pub local: bool,
    /// Patterns over the names of the other clusters. Empty: any name, if there is a selector or a provider.
    pub names: Vec<NamePattern>,
    /// The labels that the other clusters must have.
    pub selector: Option<LabelSelector>,
    /// The providers of the other clusters. Empty: any provider, if there are names or a selector.
    pub providers: Vec<Arc<str>>,
}

impl ClusterBound {
    /// Whether a cluster is one of them. Labels that the owner of a workspace writes do not count.
    #[must_use]
    pub fn admits(&self, cluster: &ClusterFacts<'_>) -> bool {
        if cluster.name.is_local() {
            return self.local;
        }
        let labels = Granting(cluster.labels);
        let selected = |selector: &LabelSelector| selector.matches(&labels);
        let of = |provider: &Arc<str>| Some(&**provider) == cluster.provider;
        self.has_others()
            && self.has_name(cluster.name)
            && self.selector.as_ref().is_none_or(selected)
            && (self.providers.is_empty() || self.providers.iter().any(of))
    }

    /// Whether it can have another cluster than the local one.
    fn has_others(&self) -> bool {
        !self.names.is_empty() || self.selector.is_some() || !self.providers.is_empty()
    }

    fn has_name(&self, name: &ClusterName) -> bool {
        let matches = |pattern: &NamePattern| pattern.matches(name.as_str());
        self.names.is_empty() || self.names.iter().any(matches)
    }

    pub(super) fn matches_any(&self) -> bool {
        self.local || self.has_others()
    }

    /// Whether it has a cluster of this name, whatever its labels and its provider are.
    pub(super) fn has_any_of(&self, name: &ClusterName) -> bool {
        if name.is_local() {
            return self.local;
        }
        let by_name = self.selector.is_none() && self.providers.is_empty();
        by_name && !self.names.is_empty() && self.has_name(name)
    }

    pub(super) fn check(&self, access: &super::Access<'_>) -> Result<(), Denied> {
        if self.admits(&access.cluster) {
            Ok(())
        } else {
            Err(Denied::outside(access))
        }
    }
}
