//! What the documents say of a reconciler. Entry point: [`Desired::of`].

use super::TenantPolicy;
use crate::config::kinds::ReconcilerSpec;
use crate::config::load::{Configuration, Document};

/// A Reconciler's document and the policy of its tenant.
#[derive(Clone)]
pub(crate) struct Desired {
    /// The document.
    pub(crate) document: Document,
    /// Its spec.
    pub(crate) spec: ReconcilerSpec,
    /// The policy of its tenant.
    pub(crate) policy: TenantPolicy,
}

impl PartialEq for Desired {
    /// Equal ones make the same controller of a component. Where the component is found does not count.
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec && self.policy == other.policy
    }
}

impl Desired {
    /// What a configuration says of a Reconciler.
    pub(crate) fn of(
        configuration: &Configuration,
        document: &Document,
        spec: &ReconcilerSpec,
    ) -> Self {
        Self {
            document: document.clone(),
            spec: spec.clone(),
            policy: TenantPolicy::in_effect(configuration, spec.tenant(), document.origin),
        }
    }

    /// The reconciler's name.
    pub(crate) fn name(&self) -> &str {
        &self.document.identity.name
    }

    /// The name of its tenant.
    pub(crate) fn tenant(&self) -> &str {
        self.spec.tenant()
    }
}
