//! Kind `Tenant`: an owner of reconcilers. Entry point: [`TenantSpec`].

use crate::config::kinds::guests::GuestsSpec;
use crate::config::kinds::{Refusal, RuleSpec, TenantLimits, rules};
use serde::{Deserialize, Serialize};
use windlass_fleet::grant::{Identity, IdentityError};

/// A tenant's share and bounds. The tenant `default` exists without a document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct TenantSpec {
    /// Its share of the queue and of the processors beside other tenants. Default: 1; at most 1000.
    pub(crate) weight: Option<u32>,
    /// Limits of its reconcilers together.
    pub(crate) limits: TenantLimits,
    /// A ceiling for the rules of its reconcilers. Default: none.
    pub(crate) rules: Option<Vec<RuleSpec>>,
    /// The user in whose name its reconcilers call servers. Default: the user of the cluster's credentials.
    pub(crate) impersonate: Option<Impersonate>,
    /// Where the guests of its reconcilers may come from, and who must have signed them. Default: anywhere, and nobody.
    pub(crate) guests: Option<GuestsSpec>,
}

/// A user of the clusters, by the header that kubectl's `--as` sends. What a cache answers, and the watches that fill caches, are
/// not subject to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
        self.weight.unwrap_or(1)
    }

    /// What its guests may use together, the defaults filled in.
    pub(crate) fn guests(&self) -> windlass_sandbox::TenantLimits {
        self.limits.guests(self.weight())
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
        self.impersonate
            .as_ref()
            .map_or(Ok(()), Impersonate::check)?;
        self.guests.as_ref().map_or(Ok(()), GuestsSpec::check)?;
        self.limits.check()?;
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
        spec.check()
    }

    #[test]
    fn whom_no_server_could_be_told_of_is_refused() {
        assert_eq!(check("system:serviceaccount:a:b", &["team:a"]), Ok(()));
        for (user, groups) in [("", &[][..]), ("a", &["b\r\nImpersonate-Group: c"][..])] {
            assert_eq!(check(user, groups).unwrap_err().path, "spec.impersonate");
        }
    }
}
