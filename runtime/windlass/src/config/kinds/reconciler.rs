//! Kind `Reconciler`: a guest at work. Entry point: [`ReconcilerSpec`].

use crate::config::kinds::bounded::SECOND;
use crate::config::kinds::guest::GuestSpec;
use crate::config::kinds::{
    Class, HttpRuleSpec, Interval, IsolationSpec, Items, Origin, ReconcilerLimits, RecordSpec,
    Refusal, RuleSpec, Within, http, rules,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use windlass_fleet::name::NamePattern;
use windlass_fleet::selector::{LabelSelector, SelectorError};
use windlass_fleet::source::ClusterFilter;

/// A guest, where it works, what it may touch and use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ReconcilerSpec {
    /// Its owner; in a cluster the Tenant of its namespace, and not to be given. Default: default.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// The component: exactly one of `path`, `name` and `image`.
    pub(crate) guest: GuestSpec,
    /// Where its watches engage. Default: the provider's clusters, or the local cluster when there is no provider.
    #[serde(default)]
    pub(crate) clusters: ClustersSpec,
    /// Its rights; a call that no rule grants is denied. Default: nothing.
    #[serde(default)]
    pub(crate) rules: Vec<RuleSpec>,
    /// Servers that it may call besides API servers, and how; a call that no rule allows is denied. Default: none.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) http: Items<HttpRuleSpec, 0, 32>,
    /// Passed to the guest as JSON. Default: an empty mapping.
    #[serde(default)]
    pub(crate) config: Option<Json>,
    /// Values of Secrets and ConfigMaps of its namespace: mappings that are merged into `config`. Only in a cluster. Default: none.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) config_from: Items<ConfigSource, 0, 16>,
    /// Limits of its calls.
    #[serde(default)]
    pub(crate) limits: ReconcilerLimits,
    /// `fresh`: each call has its own instance; `reuse`: calls share instances, within the default or the given bounds. Default: fresh.
    #[serde(default)]
    pub(crate) isolation: IsolationSpec,
    /// The class of the processes that handle it, by `spec.class` of their Manager. Only in a cluster. Default: that of processes without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<Class>,
    /// How often every object is reconciled without a change; a tenth more or less. Default: never.
    #[serde(default)]
    pub(crate) resync: Option<Within<Interval, { 10 * SECOND }>>,
    /// Records runs, for `windlass get recordings`: failures and a sample. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) record: Option<RecordSpec>,
    /// Texts in `config` that are of Secrets. Not written in a document.
    #[serde(skip)]
    pub(crate) secrets: Vec<String>,
}

/// A value of `configFrom`: of exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ConfigSource {
    /// The name of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    /// The name of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config_map: Option<String>,
    /// The key of its data. The value is a mapping in YAML or JSON.
    pub(crate) key: String,
}

/// Where watches engage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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

impl ClustersSpec {
    /// The providers' clusters among them.
    ///
    /// # Errors
    /// When the selector cannot be read, which a checked document excludes.
    pub(crate) fn filter(&self) -> Result<ClusterFilter, SelectorError> {
        let names = self.names.as_ref();
        let names = names.map(|names| names.iter().map(NamePattern::new).collect());
        let selector = self.selector.as_deref().map(LabelSelector::parse);
        Ok(ClusterFilter {
            names: names.unwrap_or_else(|| vec![NamePattern::any()]),
            selector: selector.transpose()?,
        })
    }
}

impl ConfigSource {
    fn check(&self, path: &str) -> Result<(), Refusal> {
        let name = match (&self.secret, &self.config_map) {
            (Some(name), None) | (None, Some(name)) => name,
            _ => {
                let message = "give exactly one of secret and configMap";
                return Err(Refusal::new(path, message));
            }
        };
        for (field, text) in [("name", name), ("key", &self.key)] {
            if text.is_empty() || text.contains('/') {
                let message = format!(
                    "the {field} {text:?} cannot be used: name an object and a key of its data"
                );
                return Err(Refusal::new(path, message));
            }
        }
        Ok(())
    }

    fn check_all(sources: &[Self], origin: Origin) -> Result<(), Refusal> {
        let path = "spec.configFrom";
        if origin == Origin::File && !sources.is_empty() {
            let message = "it is for Reconcilers in a cluster: write the values into config";
            return Err(Refusal::new(path, message));
        }
        let mut sources = sources.iter().enumerate();
        sources.try_for_each(|(index, source)| source.check(&format!("{path}[{index}]")))
    }
}

impl ReconcilerSpec {
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
    pub(crate) fn check(&self, origin: Origin) -> Result<(), Refusal> {
        if origin == Origin::Cluster && self.tenant.is_some() {
            return Err(Refusal::new(
                "spec.tenant",
                "a Reconciler in a cluster belongs to the Tenant that claims its namespace: leave it out",
            ));
        }
        Class::check_in(self.class.as_ref(), origin)?;
        self.guest.check(origin)?;
        ConfigSource::check_all(&self.config_from, origin)?;
        rules::check(&self.rules)?;
        http::check(&self.http, origin, false)?;
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
        if let Err(error) = self.clusters.filter() {
            return Err(Refusal::new("spec.clusters.selector", error.to_string()));
        }
        Ok(())
    }
}
