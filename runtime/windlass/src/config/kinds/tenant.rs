//! Kind `Tenant`: an owner of reconcilers. Entry point: [`TenantSpec`].

use crate::config::kinds::guests::GuestsSpec;
use crate::config::kinds::{
    Class, HttpRuleSpec, Items, Origin, Refusal, RuleSpec, TenantLimits, Within, http, rules,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_fleet::grant::{ClusterBound, Identity, IdentityError};
use windlass_fleet::name::NamePattern;
use windlass_fleet::selector::{LabelSelector, SelectorError};

/// A tenant's share and bounds. The tenant `default` exists without a document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct TenantSpec {
    /// Its share of the queue and of the processors beside other tenants. Default: 1.
    pub(crate) weight: Option<Within<u32, 1, 1000>>,
    /// Limits of its reconcilers together.
    pub(crate) limits: TenantLimits,
    /// A ceiling for the rules of its reconcilers. Default: none for Reconcilers in files; those in a cluster are granted nothing.
    pub(crate) rules: Option<Vec<RuleSpec>>,
    /// A ceiling for the http of its reconcilers. Default: none for Reconcilers in files; those in a cluster may call no server.
    pub(crate) http: Option<Items<HttpRuleSpec, 0, 64>>,
    /// The user in whose name its reconcilers call servers. Default: the user of the cluster's credentials.
    pub(crate) impersonate: Option<Impersonate>,
    /// Where the guests of its reconcilers may come from, and who must have signed them. Default: anywhere, and nobody.
    pub(crate) guests: Option<GuestsSpec>,
    /// The namespaces of the local cluster whose Reconcilers are its own. No other Tenant may claim them. Default: none.
    pub(crate) namespaces: Option<NamespaceClaim>,
    /// The class of the processes that handle it, by `spec.class` of their Manager. Only in a cluster. Default: that of processes without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<Class>,
    /// The clusters that its reconcilers may watch, read and write. Default: all for Reconcilers in files; none for those in a cluster.
    pub(crate) clusters: Option<TenantClusters>,
}

/// Namespaces of the local cluster: by exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct NamespaceClaim {
    /// Their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) names: Option<Vec<String>>,
    /// Their labels, as `kubectl -l` takes them. Who may label a namespace may then choose its Tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<String>,
}

/// Clusters that reconcilers stay within. Without names, selector and providers only the local one can be one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct TenantClusters {
    /// Whether the local cluster is one. Default: false.
    pub(crate) local: bool,
    /// Names of the others; `*` matches any characters. Default: any, if there is a selector or a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) names: Option<Vec<String>>,
    /// Labels that the others have, as `kubectl -l` takes them. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<String>,
    /// Providers that the others come from. Default: any, if there are names or a selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) providers: Option<Vec<String>>,
}

impl NamespaceClaim {
    /// Whether it claims a namespace that has these labels. A selector that cannot be read claims nothing.
    pub(crate) fn has(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        match (&self.names, &self.selector) {
            (Some(names), None) => names.iter().any(|name| name == namespace),
            (None, Some(selector)) => {
                LabelSelector::parse(selector).is_ok_and(|selector| selector.matches(labels))
            }
            _ => false,
        }
    }

    fn check(&self) -> Result<(), Refusal> {
        let path = "spec.namespaces";
        match (&self.names, &self.selector) {
            (Some(names), None) => match names
                .iter()
                .find(|name| name.is_empty() || name.contains('*'))
            {
                Some(name) => Err(Refusal::new(
                    format!("{path}.names"),
                    format!(
                        "{name:?} is not the name of a namespace: write whole names, or give a selector"
                    ),
                )),
                None => Ok(()),
            },
            (None, Some(selector)) => {
                let parsed = LabelSelector::parse(selector);
                let empty = || "it selects every namespace: name at least one label".to_owned();
                let problem = match parsed {
                    Ok(selector) => (selector == LabelSelector::default()).then(empty),
                    Err(error) => Some(error.to_string()),
                };
                let refusal = |problem| Err(Refusal::new(format!("{path}.selector"), problem));
                problem.map_or(Ok(()), refusal)
            }
            _ => Err(Refusal::new(path, "give exactly one of names and selector")),
        }
    }
}

impl TenantClusters {
    /// The same in the engine's words.
    ///
    /// # Errors
    /// When the selector cannot be read, which a checked document excludes.
    pub(crate) fn bound(&self) -> Result<ClusterBound, SelectorError> {
        let selector = self.selector.as_deref().map(LabelSelector::parse);
        Ok(ClusterBound {
            local: self.local,
            names: self.names.iter().flatten().map(NamePattern::new).collect(),
            selector: selector.transpose()?,
            providers: self
                .providers
                .iter()
                .flatten()
                .map(|name| name.as_str().into())
                .collect(),
        })
    }

    fn check(&self) -> Result<(), Refusal> {
        let path = "spec.clusters";
        for (field, list) in [("names", &self.names), ("providers", &self.providers)] {
            if list.as_ref().is_some_and(Vec::is_empty) {
                let message = "the list is empty: leave it out";
                return Err(Refusal::new(format!("{path}.{field}"), message));
            }
        }
        let refused =
            |error: SelectorError| Refusal::new(format!("{path}.selector"), error.to_string());
        self.bound().map(drop).map_err(refused)
    }
}

/// A user of the clusters, by the header that kubectl's `--as` sends. What a cache answers, and the watches that fill caches, are
/// not subject to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Impersonate {
    /// The user's name.
    pub(crate) user: String,
    /// Groups, besides system:authenticated. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<String>,
}

impl Impersonate {
    /// The same in the engine's words.
    ///
    /// # Errors
    /// When a name cannot be sent, which a checked document excludes.
    pub(crate) fn identity(&self) -> Result<Identity, IdentityError> {
        Identity::new(&self.user, &self.groups)
    }

    fn check(&self) -> Result<(), Refusal> {
        let refused = |error: IdentityError| Refusal::new("spec.impersonate", error.to_string());
        self.identity().map(drop).map_err(refused)
    }
}

impl TenantSpec {
    /// Its share, the default filled in.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.map_or(1, Within::get)
    }

    /// What its guests may use together, the defaults filled in.
    pub(crate) fn guests(&self) -> windlass_sandbox::TenantLimits {
        self.limits.guests(self.weight())
    }

    /// Refuses what cannot be honoured.
    pub(crate) fn check(&self, origin: Origin) -> Result<(), Refusal> {
        Class::check_in(self.class.as_ref(), origin)?;
        self.impersonate
            .as_ref()
            .map_or(Ok(()), Impersonate::check)?;
        self.guests.as_ref().map_or(Ok(()), GuestsSpec::check)?;
        self.namespaces
            .as_ref()
            .map_or(Ok(()), NamespaceClaim::check)?;
        self.clusters
            .as_ref()
            .map_or(Ok(()), TenantClusters::check)?;
        let http = self.http.as_deref().unwrap_or_default();
        http::check(http, origin, true)?;
        rules::check(self.rules.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(user: &str, groups: &[&str]) -> Result<(), Refusal> {
        let impersonate = Impersonate {
            user: user.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        };
        let spec = TenantSpec {
            impersonate: Some(impersonate),
            ..TenantSpec::default()
        };
        spec.check(Origin::File)
    }

    #[test]
    fn whom_no_server_could_be_told_of_is_refused() {
        assert_eq!(check("system:serviceaccount:a:b", &["team:a"]), Ok(()));
        for (user, groups) in [("", &[][..]), ("a", &["b\r\nImpersonate-Group: c"][..])] {
            assert_eq!(check(user, groups).unwrap_err().path, "spec.impersonate");
        }
    }
}
