//! A reconciler's rights, limits and clusters, by its document and its tenant's policy. Entry points: [`TenantPolicy::of`] and
//! [`ControllerPolicy::of`].

use super::LoadFailure;
use crate::config::kinds::{
    Ceiling, GuestsSpec, HttpRuleSpec, Impersonate, Origin, ReconcilerSpec, RuleSpec,
    TenantClusters, TenantSpec, http_rules,
};
use crate::config::load::Configuration;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::grant::ClusterBound;
use windlass_fleet::outbound::HttpGrant;
use windlass_fleet::source::ClusterSelection;
use windlass_fleet::{Grant, Rule};
use windlass_registry::GuestPolicy;
use windlass_sandbox::Rights;

/// How long a run of a guest may take that is a process of its own: somebody may be debugging it.
const LONGEST_NATIVE_RUN: Duration = Duration::from_secs(86_400);

/// A tenant's bounds on the grants and limits of its reconcilers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TenantPolicy {
    /// The rules that bound their grants; none: no bound.
    pub(crate) ceiling: Option<Vec<RuleSpec>>,
    /// The rules that bound what they call besides API servers; none: no bound.
    pub(crate) http: Option<Vec<HttpRuleSpec>>,
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
        let http = spec.http.as_ref().map(|http| http.to_vec());
        let (ceiling, clusters, http) = match origin {
            Origin::File => (ceiling, clusters, http),
            Origin::Cluster => (
                Some(ceiling.unwrap_or_default()),
                Some(clusters.unwrap_or_default()),
                Some(http.unwrap_or_default()),
            ),
        };
        Self {
            ceiling,
            http,
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

    /// The policy of a tenant in a configuration. The tenant `default` needs no document. Another one without a document grants nothing.
    pub(crate) fn in_effect(configuration: &Configuration, tenant: &str, origin: Origin) -> Self {
        match configuration.tenant(tenant) {
            Some((_, spec)) => Self::of(spec, origin),
            None if tenant == "default" => Self::of(&TenantSpec::default(), origin),
            None => Self {
                ceiling: Some(Vec::new()),
                http: Some(Vec::new()),
                ..Self::default()
            },
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
    fn grant(&self, rules: &[RuleSpec]) -> Result<Grant, LoadFailure> {
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

    /// What a reconciler with these rules may call besides API servers, within the policy.
    fn http(&self, rules: &[HttpRuleSpec]) -> Result<HttpGrant, LoadFailure> {
        let bound = self.http.as_deref().map(http_rules).transpose();
        let bound = bound.map_err(LoadFailure::permanent)?;
        let rules = http_rules(rules).map_err(LoadFailure::permanent)?;
        Ok(HttpGrant::new(rules, bound))
    }
}

/// What a reconciler may do and use, by its document and its tenant's policy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ControllerPolicy {
    /// The rights of its guest.
    pub(crate) rights: Rights,
    /// Where its watches engage.
    pub(crate) clusters: ClusterSelection,
    /// The options of its controller.
    pub(crate) options: ControllerOptions,
}

impl ControllerPolicy {
    /// The policy that these documents set.
    ///
    /// # Errors
    /// When a rule or a selector cannot be read. This cannot happen with checked documents.
    pub(crate) fn of(spec: &ReconcilerSpec, tenant: &TenantPolicy) -> Result<Self, LoadFailure> {
        let (limits, options) = spec.limits.under(&tenant.limits);
        Ok(Self {
            rights: Rights {
                grant: Arc::new(tenant.grant(&spec.rules)?),
                http: Arc::new(tenant.http(&spec.http)?),
                limits,
                isolation: spec.isolation.guests(),
            },
            clusters: selection(spec, tenant)?,
            options: ControllerOptions {
                resync: spec.resync.map(|resync| resync.get().0),
                ..options
            },
        })
    }

    /// What is left of a policy once the documents ask for another one: nothing that either of them does not allow. A guest has the rights of
    /// both; here are those that bound its own.
    pub(crate) fn left_by(&self, asked: Self) -> Self {
        let (had, options) = (&self.options, &asked.options);
        let most = fewer(calls(had), calls(options)).or(had.most_concurrency);
        let per_cluster = options.concurrency_per_cluster;
        let other = Some(asked.clusters).filter(|asked| *asked != self.clusters);
        Self {
            rights: asked.rights,
            clusters: ClusterSelection {
                within: other.map(Box::new),
                ..self.clusters.clone()
            },
            options: ControllerOptions {
                most_concurrency: most,
                concurrency_per_cluster: per_cluster.min(had.concurrency_per_cluster),
                timeout: options.timeout.min(had.timeout),
                ..had.clone()
            },
        }
    }

    /// Lets a run take as long as a guest needs that is a process of its own.
    pub(crate) fn lift_timeout(&mut self) {
        self.rights.limits.timeout = LONGEST_NATIVE_RUN;
        self.options.timeout = LONGEST_NATIVE_RUN;
    }

    /// Whether a controller of another policy is the same, but for the rights of its guest.
    pub(crate) fn has_controller_of(&self, other: &Self) -> bool {
        (&self.clusters, &self.options) == (&other.clusters, &other.options)
    }
}

/// What documents bound calls at once to, beside what the manager has for the kind.
fn calls(options: &ControllerOptions) -> Option<usize> {
    let both = [options.concurrency, options.most_concurrency];
    both.into_iter().flatten().min()
}

/// The second limit, if it is the smaller one. None is no limit.
fn fewer(had: Option<usize>, asked: Option<usize>) -> Option<usize> {
    asked.filter(|asked| had.is_none_or(|had| *asked < had))
}

/// The clusters where a reconciler's watches engage.
fn selection(
    spec: &ReconcilerSpec,
    tenant: &TenantPolicy,
) -> Result<ClusterSelection, LoadFailure> {
    let clusters = &spec.clusters;
    Ok(ClusterSelection {
        local: clusters.local,
        provider: clusters.provider,
        only: clusters.filter().map_err(LoadFailure::permanent)?,
        within: None,
        bound: tenant.bound()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn policy(fields: Json) -> ControllerPolicy {
        let mut spec = json!({"guest": {"path": "x.wasm"}});
        for (field, value) in fields.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let spec: ReconcilerSpec = serde_json::from_value(spec).unwrap();
        ControllerPolicy::of(&spec, &TenantPolicy::default()).unwrap()
    }

    #[test]
    fn the_resync_period_of_a_document_is_that_of_its_controller() {
        let resync = |fields| policy(fields).options.resync;
        let period = resync(json!({"resync": "10m"}));
        assert_eq!(period, Some(Duration::from_secs(600)));
        assert_eq!(resync(json!({})), None);
    }

    #[test]
    fn less_is_in_effect_and_more_is_not() {
        let limits = |limits: Json| policy(json!({"limits": limits}));
        let had = limits(json!({"concurrency": 8, "timeout": "5s"}));
        let left = had.left_by(limits(json!({"concurrencyPerCluster": 2, "timeout": "9s"})));
        assert_eq!(left.options.concurrency_per_cluster, 2);
        assert_eq!(left.options.most_concurrency, None);
        assert_eq!(left.options.timeout, Duration::from_secs(5));
        assert!(!left.has_controller_of(&had));
        let left = had.left_by(limits(json!({"concurrency": 2, "timeout": "1s"})));
        assert_eq!(left.options.most_concurrency, Some(2));
        assert_eq!(left.options.timeout, Duration::from_secs(1));
        let more = limits(json!({"concurrency": 9, "concurrencyPerCluster": 9, "timeout": "5s"}));
        assert!(had.left_by(more).has_controller_of(&had));
        // Without a limit of its own, a first one is less.
        let left = limits(json!({})).left_by(limits(json!({"concurrency": 1})));
        assert_eq!(left.options.most_concurrency, Some(1));
    }

    #[test]
    fn other_clusters_are_those_of_both() {
        let named = |name: &str| policy(json!({"clusters": {"names": [name]}}));
        let (had, asked) = (named("a"), named("b"));
        let left = had.left_by(asked.clone()).clusters;
        assert_eq!(left.within, Some(Box::new(asked.clusters)));
        assert_eq!(left.only, had.clusters.only);
        assert!(had.left_by(named("a")).has_controller_of(&had));
    }
}
