//! Kind `Reconciler`: a guest at work. Entry point: [`ReconcilerSpec`].

use crate::kinds::{Bytes, Interval, Refusal, RuleSpec, at_least_one, rules};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::path::PathBuf;
use std::time::Duration;
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
    /// What it may touch; what no rule grants is denied. Default: nothing.
    #[serde(default)]
    pub(crate) rules: Vec<RuleSpec>,
    /// Handed to the guest as JSON. Default: an empty mapping.
    #[serde(default)]
    pub(crate) config: Option<Json>,
    /// What a call may use.
    #[serde(default)]
    pub(crate) limits: ReconcilerLimits,
    /// What calls share. Default: fresh.
    #[serde(default)]
    pub(crate) isolation: Isolation,
    /// How often every object is reconciled though nothing has changed, at least 10s; a tenth more or less. Default: never.
    #[serde(default)]
    pub(crate) resync: Option<Interval>,
}

/// Where the component is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct GuestSpec {
    /// A .wasm file, or a source folder that `dev` and `build` build; relative to the document's folder.
    pub(crate) path: PathBuf,
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

/// What one reconciler may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ReconcilerLimits {
    /// Memory of one call, 1Mi to 256Mi. Default: 64Mi.
    pub(crate) memory: Option<Bytes>,
    /// Time of one call, 100ms to 1h. Default: 10s.
    pub(crate) timeout: Option<Interval>,
    /// Calls that run at once. Default: what the Manager's `spec.concurrency.kinds` says for its primary kind, else 4.
    pub(crate) concurrency: Option<usize>,
}

/// What calls of one reconciler share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Isolation {
    /// Nothing: every call has an instance of its own.
    #[default]
    Fresh,
    /// An instance serves several calls. Not supported yet.
    Reuse,
}

impl ReconcilerSpec {
    /// Memory of one call when nothing else is said.
    pub(crate) const DEFAULT_MEMORY: Bytes = Bytes::mebibytes(64);
    /// Most memory of one call.
    pub(crate) const MAX_MEMORY: Bytes = Bytes::mebibytes(256);
    /// Time of one call when nothing else is said.
    pub(crate) const DEFAULT_TIMEOUT: Interval = Interval::seconds(10);
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

    /// Memory of one call, the default filled in.
    pub(crate) fn memory(&self) -> Bytes {
        self.limits.memory.unwrap_or(Self::DEFAULT_MEMORY)
    }

    /// Time of one call, the default filled in.
    pub(crate) fn timeout(&self) -> Interval {
        self.limits.timeout.unwrap_or(Self::DEFAULT_TIMEOUT)
    }

    /// Refuses what cannot be honoured.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        rules::check(&self.rules)?;
        at_least_one("spec.limits.concurrency", self.limits.concurrency)?;
        if !(Bytes::mebibytes(1)..=Self::MAX_MEMORY).contains(&self.memory()) {
            return Err(Refusal::new(
                "spec.limits.memory",
                format!("expected 1Mi to 256Mi, found {}", self.memory()),
            ));
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&self.timeout().0) {
            return Err(Refusal::new(
                "spec.limits.timeout",
                format!("expected 100ms to 1h, found {}", self.timeout()),
            ));
        }
        if let Some(resync) = self.resync
            && resync < Self::LEAST_RESYNC
        {
            return Err(Refusal::new(
                "spec.resync",
                format!("expected {} or more, found {resync}", Self::LEAST_RESYNC),
            ));
        }
        if self.isolation == Isolation::Reuse {
            return Err(Refusal::new(
                "spec.isolation",
                "reuse is not supported yet: use fresh",
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
