//! Revokes what the documents no longer grant to a revision that serves. Entry point: [`Reconcilers::revoke`].
//!
//! A change of rights has two halves. Removed rights are revoked before anything is loaded, so a load that fails cannot keep them.
//! Additional rights wait for the reload.

use super::reconciler::{Inputs, Reconciler};
use super::{Reconcilers, policy};
use crate::config::kinds::{Origin, ReconcilerSpec, TenantSpec, Within};
use crate::config::load::{Configuration, Document};
use crate::guests::{self, Bounds, Guests, LoadFailure, Shape, TenantPolicy};
use std::sync::Arc;
use windlass_fleet::Grant;
use windlass_fleet::controller::Controller;
use windlass_fleet::source::ClusterSelection;
use windlass_sandbox::Rights;

/// What was revoked from the controller of a revision since it was loaded. Its guest keeps its own rights.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Revocation {
    /// A bound on the clusters where its watches engage; none: no bound.
    within: Option<ClusterSelection>,
    /// Fewer calls at once; none: unchanged.
    concurrency: Option<usize>,
    /// Fewer calls at once in one cluster; none: unchanged.
    per_cluster: Option<usize>,
}

impl Reconcilers {
    /// Bounds everything that serves by the current documents. A right that was revoked and is granted again returns without a reload.
    /// The guests are bounded when this returns. Replace their controllers by the ones that it returns.
    pub(crate) fn revoke(&mut self, configuration: &Configuration) -> Vec<Controller> {
        let mut controllers = Vec::new();
        for (document, spec) in configuration.reconcilers() {
            let name = &document.identity.name;
            let Some(reconciler) = self.by_name.get_mut(name) else {
                continue;
            };
            let policy = policy(configuration, document.origin, spec);
            if let Some(controller) =
                reconciler.revoke(&self.guests, document, spec, &policy, configuration)
            {
                tracing::info!(
                    reconciler = name,
                    "rights or limits revoked or granted again, what serves keeps serving"
                );
                controllers.push(controller);
            }
        }
        controllers
    }
}

impl Reconciler {
    fn revoke(
        &mut self,
        guests: &Guests,
        document: &Document,
        spec: &ReconcilerSpec,
        policy: &TenantPolicy,
        configuration: &Configuration,
    ) -> Option<Controller> {
        let (applied, name) = (self.applied.as_ref()?, &document.identity.name);
        let guest = guests.of(name)?;
        let (rights, revocation) = Revocation::of(
            applied,
            spec,
            policy,
            former_policy(configuration, document.origin, applied.spec.tenant()),
        );
        let changes = guest.keep_within(&rights);
        if !changes && revocation == self.revocation {
            return None;
        }
        self.has_less = guest.is_kept_within_less() || revocation != Revocation::default();
        self.revocation = revocation;
        let shape = self.revocation.shape(applied);
        let controller = shape.and_then(|shape| guests::controller_of(guest, name, shape));
        // Cannot fail: the controller that serves was made in the same way.
        controller
            .inspect_err(|error| tracing::error!(reconciler = name, %error, "the controller is not replaced"))
            .ok()
    }

    /// The problem, and a line about revoked rights if the last good revision serves without them.
    pub(super) fn describe_problem(&self, problem: &str) -> String {
        match self.has_less && self.applied.is_some() {
            true => format!(
                "{problem}\nuntil then the last good revision serves, with no more than the documents grant now"
            ),
            false => problem.to_owned(),
        }
    }
}

impl Revocation {
    /// The rights that the current documents leave to a guest, and what they revoke from its controller.
    fn of(
        applied: &Inputs,
        spec: &ReconcilerSpec,
        policy: &TenantPolicy,
        former: TenantPolicy,
    ) -> (Rights, Self) {
        let asked = Bounds::of(spec, policy);
        let mut rights = asked.rights.clone();
        // Until the reconciler has moved, its former tenant bounds it too.
        if applied.spec.tenant() != spec.tenant() {
            rights = Bounds::of(spec, &former).rights.and(&rights);
        }
        let had = Bounds::of(&applied.spec, &applied.policy);
        let mut revocation = Self {
            within: None,
            concurrency: fewer(had.concurrency_bound(), asked.concurrency_bound()),
            per_cluster: fewer(Some(had.per_cluster), Some(asked.per_cluster)),
        };
        if (&spec.clusters, &policy.clusters) != (&applied.spec.clusters, &applied.policy.clusters)
        {
            match guests::selection(spec, policy) {
                Ok(now) => revocation.within = Some(now),
                // Cannot happen: the document is checked. Without known clusters the guest may do nothing.
                Err(_) => rights.grant = Arc::new(Grant::none()),
            }
        }
        (rights, revocation)
    }

    /// The options of the controller that serves, as they are now bounded.
    fn shape(&self, applied: &Inputs) -> Result<Shape, LoadFailure> {
        let had = Bounds::of(&applied.spec, &applied.policy);
        let before = guests::selection(&applied.spec, &applied.policy)?;
        Ok(Shape {
            selection: ClusterSelection {
                within: self.within.clone().map(Box::new),
                ..before
            },
            concurrency: had.concurrency,
            most_concurrency: self.concurrency.or(had.most_concurrency),
            per_cluster: self.per_cluster.unwrap_or(had.per_cluster),
            resync: applied.spec.resync.map(Within::get),
        })
    }
}

/// The second limit, if it is the smaller one. None is no limit.
fn fewer(had: Option<usize>, asked: Option<usize>) -> Option<usize> {
    asked.filter(|asked| had.is_none_or(|had| *asked < had))
}

/// The policy of a tenant that a reconciler leaves. A tenant whose document is gone grants nothing.
fn former_policy(configuration: &Configuration, origin: Origin, tenant: &str) -> TenantPolicy {
    match configuration.tenant(tenant) {
        Some((_, spec)) => TenantPolicy::of(spec, origin),
        None if tenant == "default" => TenantPolicy::of(&TenantSpec::default(), origin),
        None => TenantPolicy {
            ceiling: Some(Vec::new()),
            ..TenantPolicy::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_calls_at_once_are_in_effect_and_more_are_not() {
        assert_eq!(fewer(Some(8), Some(2)), Some(2));
        assert_eq!(fewer(Some(2), Some(8)), None);
        assert_eq!(fewer(None, Some(1)), Some(1));
        assert_eq!(fewer(Some(8), None), None);
        assert_eq!(fewer(None, None), None);
    }
}
