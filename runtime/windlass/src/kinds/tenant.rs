//! Kind `Tenant`: an owner of reconcilers. Entry point: [`TenantSpec`].

use crate::kinds::{Bytes, Refusal, RuleSpec, at_least_one, rules};
use serde::{Deserialize, Serialize};

/// A tenant's share and bounds. The tenant `default` exists without a document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct TenantSpec {
    /// Its share of the queue beside other tenants. Default: 1; at most 1000.
    pub(crate) weight: Option<u32>,
    /// What its reconcilers may use together.
    pub(crate) limits: TenantLimits,
    /// A ceiling for the rules of its reconcilers. Default: none, what a reconciler's rules grant is granted.
    pub(crate) rules: Option<Vec<RuleSpec>>,
}

/// What a tenant's reconcilers may use together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct TenantLimits {
    /// Memory of all of its guests' instances together. Default: 512Mi.
    pub(crate) memory: Option<Bytes>,
    /// Calls that run at once. Default: what the manager allows.
    pub(crate) concurrency: Option<usize>,
}

impl TenantSpec {
    /// Memory of all instances when nothing else is said.
    pub(crate) const DEFAULT_MEMORY: Bytes = Bytes::mebibytes(512);

    /// Its share, the default filled in.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.unwrap_or(1)
    }

    /// Memory of all instances, the default filled in.
    pub(crate) fn memory(&self) -> Bytes {
        self.limits.memory.unwrap_or(Self::DEFAULT_MEMORY)
    }

    /// Refuses what cannot be honoured.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if let Some(weight) = self.weight
            && !(1..=1000).contains(&weight)
        {
            return Err(Refusal::new(
                "spec.weight",
                format!("expected 1 to 1000, found {weight}"),
            ));
        }
        if self.memory() < Bytes::mebibytes(1) {
            return Err(Refusal::new(
                "spec.limits.memory",
                format!("expected 1Mi or more, found {}", self.memory()),
            ));
        }
        at_least_one("spec.limits.concurrency", self.limits.concurrency)?;
        rules::check(self.rules.as_deref().unwrap_or_default())
    }
}
