//! Grants that note what their rules lack, and which of them are used, for finding a reconciler's rules in tests. Entry point: [`Grant::noting`].

#[cfg(test)]
mod tests;

use super::{Access, ClusterFacts, ClusterRule, Grant, Layer, Namespaces, Needs, Right, Rule};
use crate::kind::GroupVersionKind;
use std::sync::Arc;

impl Grant {
    /// As this grant, but what no rule grants is noted and allowed. A ceiling and bounds still deny. For tests of a guest.
    #[must_use]
    pub fn noting(self, needs: Arc<Needs>) -> Self {
        Self {
            needs: Some(needs),
            ..self
        }
    }

    /// Whether calls are noted that the rules do not grant.
    #[must_use]
    pub fn is_noting(&self) -> bool {
        self.needs.is_some()
    }

    /// Where calls are noted that a layer does not grant; none: they are denied.
    pub(super) fn needs_of(&self, layer: &Layer) -> Option<&Needs> {
        self.needs.as_deref().filter(|_| !layer.ceiling)
    }

    /// Whether a layer opens the local cluster, or all other ones, only because that is noted: none of its rules is about it, or about any
    /// of them. A rule that is keeps its meaning.
    pub(super) fn opens_noting(&self, layer: &Layer, local: bool) -> bool {
        let is_about = |clusters: &ClusterRule| {
            if local {
                return clusters.local;
            }
            clusters.matches_others()
        };
        let mut clusters = layer.rules.iter().filter_map(|rule| rule.clusters.as_ref());
        self.needs_of(layer).is_some() && !clusters.any(is_about)
    }

    /// Notes that a caller asks for another cluster than the request's, which this grant opens: then a rule has to. `right` is what that rule may
    /// grant if no call needs one there.
    pub fn note_cluster(&self, cluster: &ClusterFacts<'_>, right: impl Fn() -> Right) {
        if cluster.own {
            return;
        }
        for layer in &*self.layers {
            if let Some(needs) = self.needs_of(layer) {
                needs.note_cluster(cluster, &layer.rules, right());
            }
        }
    }

    /// Notes a kind in a call that the cluster does not serve, and the served kind that is most like it.
    pub(crate) fn note_unknown(&self, kind: &GroupVersionKind, like: Option<GroupVersionKind>) {
        if let Some(needs) = &self.needs {
            needs.note_unknown(kind, like);
        }
    }

    /// Notes a call that follows from another one, in tests perhaps not yet.
    pub(crate) fn note(&self, access: &Access<'_>) {
        if self.needs.is_some() {
            // What the ceiling denies is denied when it is called.
            let _ = self.check(access);
        }
    }

    /// Notes the rules that grant something.
    pub(super) fn note_uses(&self, grants: impl Fn(&Rule) -> bool) {
        let Some(needs) = &self.needs else { return };
        let layers = self.layers.iter().filter(|layer| !layer.ceiling);
        let rules = layers.flat_map(|layer| layer.rules.iter());
        rules
            .filter(|rule| grants(rule))
            .for_each(|rule| needs.note_use(rule));
    }

    /// As [`Self::namespaces`], for what cannot be without. If there is none, a grant that notes takes those that its ceiling leaves, and notes
    /// them.
    pub(crate) fn needed_namespaces(&self, access: &Access<'_>) -> Namespaces {
        let &Access {
            cluster,
            group,
            resource,
            verb,
            name,
            ..
        } = access;
        let granted = self.namespaces(&cluster, group, resource, verb, name);
        let Some(needs) = self
            .needs
            .as_deref()
            .filter(|_| granted == Namespaces::None)
        else {
            return granted;
        };
        if !self.has_cluster(&cluster) {
            return granted;
        }
        let ceilings = self.layers.iter().filter(|layer| layer.ceiling);
        let left = ceilings.fold(Namespaces::All, |namespaces, layer| {
            namespaces.and(layer.namespaces(&cluster, group, resource, verb, name))
        });
        match &left {
            Namespaces::All => needs.note(access),
            Namespaces::Only(names) => names.iter().for_each(|namespace| {
                needs.note(&Access {
                    namespace: Some(namespace),
                    ..*access
                });
            }),
            Namespaces::None => {}
        }
        left
    }
}
