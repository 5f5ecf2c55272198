//! Kind `Reconciler`: a guest at work. Entry point: [`ReconcilerSpec`].

use crate::config::kinds::guest::GuestSpec;
use crate::config::kinds::{Interval, IsolationSpec, ReconcilerLimits, Refusal, RuleSpec, rules};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use windlass_fleet::selector::LabelSelector;

/// A guest, where it works, what it may touch and use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ReconcilerSpec {
    /// Its owner. Default: default.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// The component.
    pub(crate) guest: GuestSpec,
    /// Where its watches engage. Default: the provider's clusters, or the local cluster when there is no provider.
    #[serde(default)]
    pub(crate) clusters: ClustersSpec,
    /// Its rights; a call that no rule grants is denied. Default: nothing.
    #[serde(default)]
    pub(crate) rules: Vec<RuleSpec>,
    /// Passed to the guest as JSON. Default: an empty mapping.
    #[serde(default)]
    pub(crate) config: Option<Json>,
    /// Limits of its calls.
    #[serde(default)]
    pub(crate) limits: ReconcilerLimits,
    /// `fresh`: each call has its own instance; `reuse`: calls share instances, within the default or the given bounds. Default: fresh.
    #[serde(default)]
    pub(crate) isolation: IsolationSpec,
    /// How often every object is reconciled without a change, 10s or more; a tenth more or less. Default: never.
    #[serde(default)]
    pub(crate) resync: Option<Interval>,
}

/// Where watches engage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ClustersSpec {
    /// In the local cluster. Default: only when there is no provider.
    pub(crate) local: Option<bool>,
    /// In the providers' clusters. Default: true.
    pub(crate) provider: Option<bool>,
    /// Names of clusters; `*` matches any characters. Default: all.
    pub(crate) names: Option<Vec<String>>,
    /// Labels of clusters, as `kubectl -l` takes them. Default: all.
    pub(crate) selector: Option<String>,
}

impl ReconcilerSpec {
    /// The shortest time between two looks at everything.
    pub(crate) const LEAST_RESYNC: Interval = Interval::seconds(10);

    /// The tenant's name, the default filled in.
    pub(crate) fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or("default")
    }

    /// The guest's config as JSON text.
    pub(crate) fn config_text(&self) -> String {
        self.config
            .as_ref()
            .map_or_else(|| "{}".to_owned(), ToString::to_string)
    }

    /// Refuses what cannot be honoured.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.guest.check()?;
        rules::check(&self.rules)?;
        self.limits.check("spec.limits")?;
        self.isolation.check()?;
        if let Some(resync) = self.resync
            && resync < Self::LEAST_RESYNC
        {
            return Err(Refusal::new(
                "spec.resync",
                format!("expected {} or more, found {resync}", Self::LEAST_RESYNC),
            ));
        }
        if self.clusters.local == Some(false) && self.clusters.provider == Some(false) {
            return Err(Refusal::new(
                "spec.clusters",
                "local and provider are both false: this reconciler would watch nothing",
            ));
        }
        if self.clusters.names.as_ref().is_some_and(Vec::is_empty) {
            return Err(Refusal::new(
                "spec.clusters.names",
                "the list is empty: leave it out for all clusters",
            ));
        }
        if let Some(selector) = &self.clusters.selector
            && let Err(error) = LabelSelector::parse(selector)
        {
            return Err(Refusal::new("spec.clusters.selector", error.to_string()));
        }
        Ok(())
    }
}
