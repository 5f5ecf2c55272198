//! A reconciler's rights, limits and clusters, by its document and its tenant's policy. Entry points: [`TenantPolicy::of`],
//! [`Bounds::of`] and [`selection`].

use super::LoadFailure;
use crate::config::kinds::{
    Ceiling, Effective, GuestsSpec, Impersonate, Origin, ReconcilerSpec, RuleSpec, TenantClusters,
    TenantSpec,
};
use std::sync::Arc;
use windlass_fleet::grant::ClusterBound;
use windlass_fleet::name::NamePattern;
use windlass_fleet::selector::LabelSelector;
use windlass_fleet::source::{ClusterFilter, ClusterSelection};
use windlass_fleet::{Grant, Rule};
use windlass_registry::GuestPolicy;
use windlass_sandbox::Rights;

/// A tenant's bounds on the grants and limits of its reconcilers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TenantPolicy {
    /// The rules that bound their grants; none: no bound.
    pub(crate) ceiling: Option<Vec<RuleSpec>>,
    /// The identity that their calls impersonate.
    pub(crate) impersonate: Option<Impersonate>,
    /// The bounds of their limits.
    pub(crate) limits: Ceiling,
    /// Where their guests may come from, and who must have signed them.
    pub(crate) guests: GuestPolicy,
    /// The clusters that they stay within; none: no bound.
    pub(crate) clusters: Option<TenantClusters>,
}

impl TenantPolicy {
    /// The policy of a tenant's document for reconcilers in files or in the cluster. What the document does not say is unbounded for files, and
    /// nothing for objects, whose authors do not run the process.
    pub(crate) fn of(spec: &TenantSpec, origin: Origin) -> Self {
        let guests = spec.guests.as_ref();
        let guests = guests.map_or_else(GuestPolicy::default, GuestsSpec::policy);
        let (ceiling, clusters) = (spec.rules.clone(), spec.clusters.clone());
        let (ceiling, clusters) = match origin {
            Origin::File => (ceiling, clusters),
            Origin::Cluster => (
                Some(ceiling.unwrap_or_default()),
                Some(clusters.unwrap_or_default()),
            ),
        };
        Self {
            ceiling,
            impersonate: spec.impersonate.clone(),
            limits: spec.limits.per_reconciler.clone(),
            guests: GuestPolicy {
                // Who writes a file for this process is trusted with any registry.
                registries: match origin {
                    Origin::File => guests.registries,
                    Origin::Cluster => Some(guests.registries.unwrap_or_default()),
                },
                ..guests
            },
            clusters,
        }
    }

    /// The clusters of the policy in the engine's words.
    fn bound(&self) -> Result<Option<ClusterBound>, LoadFailure> {
        let bound = self.clusters.as_ref().map(TenantClusters::bound);
        bound.transpose().map_err(LoadFailure::permanent)
    }

    /// The grant of a reconciler with these rules, within the policy.
    ///
    /// # Errors
    /// When a rule cannot be read.
    pub(super) fn grant(&self, rules: &[RuleSpec]) -> Result<Grant, LoadFailure> {
        let convert = |rules: &[RuleSpec]| {
            let rules = rules.iter().map(RuleSpec::to_rule);
            rules
                .collect::<Result<Vec<Rule>, _>>()
                .map_err(LoadFailure::permanent)
        };
        let grant = Grant::new(convert(rules)?);
        let grant = match &self.ceiling {
            Some(ceiling) => grant.with_ceiling(convert(ceiling)?),
            None => grant,
        };
        let grant = match self.bound()? {
            Some(bound) => grant.within_clusters(bound),
            None => grant,
        };
        let identity = self.impersonate.as_ref().map(Impersonate::identity);
        let identity = identity.transpose().map_err(LoadFailure::permanent)?;
        Ok(grant.impersonate(identity))
    }
}

/// A reconciler's rights and limits, by its document and its tenant's policy.
pub(crate) struct Bounds {
    /// The rights of its guest.
    pub(crate) rights: Rights,
    /// Calls at once; none: the manager's default.
    pub(crate) concurrency: Option<usize>,
    /// The most calls at once, also of the manager's default; none: no bound.
    pub(crate) most_concurrency: Option<usize>,
    /// Calls at once in one cluster.
    pub(crate) per_cluster: usize,
}

impl Bounds {
    /// The bounds that these documents set. Rules that cannot be read grant nothing.
    pub(crate) fn of(spec: &ReconcilerSpec, policy: &TenantPolicy) -> Self {
        let Effective {
            limits,
            concurrency,
            most_concurrency,
            per_cluster,
        } = spec.limits.under(&policy.limits);
        let grant = policy.grant(&spec.rules).unwrap_or_else(|failure| {
            tracing::error!(problem = %failure, "the rules cannot be read: they grant nothing");
            Grant::none()
        });
        Self {
            rights: Rights {
                grant: Arc::new(grant),
                limits,
                isolation: spec.isolation.guests(),
            },
            concurrency,
            most_concurrency,
            per_cluster,
        }
    }

    /// What these documents bound calls at once to, beside what the manager has for the kind.
    pub(crate) fn concurrency_bound(&self) -> Option<usize> {
        let both = [self.concurrency, self.most_concurrency];
        both.into_iter().flatten().min()
    }
}

/// The clusters where a reconciler's watches engage.
///
/// # Errors
/// When the selector cannot be parsed. This cannot happen with a checked document.
pub(crate) fn selection(
    spec: &ReconcilerSpec,
    policy: &TenantPolicy,
) -> Result<ClusterSelection, LoadFailure> {
    let clusters = &spec.clusters;
    Ok(ClusterSelection {
        local: clusters.local,
        provider: clusters.provider,
        only: ClusterFilter {
            names: clusters.names.as_ref().map_or_else(
                || vec![NamePattern::any()],
                |names| names.iter().map(NamePattern::new).collect(),
            ),
            selector: clusters
                .selector
                .as_deref()
                .map(LabelSelector::parse)
                .transpose()
                .map_err(LoadFailure::permanent)?,
        },
        within: None,
        bound: policy.bound()?,
    })
}
