//! What the kubeconfigs of a Provider may do, by where they stand. Entry points: [`ProviderSpec::file_policy`] and
//! [`ProviderSpec::object_policy`].

use super::{ProviderSpec, Source};
use crate::config::kinds::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::cluster::{AllowServers, ExecPolicy, KubeconfigPolicy};

/// Whether kubeconfigs in files may run credential plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum Exec {
    /// They may.
    #[default]
    Allow,
    /// They may not.
    Deny,
}

impl ProviderSpec {
    /// What a kubeconfig in a file may do. The operator names the file.
    pub(crate) fn file_policy(&self) -> KubeconfigPolicy {
        let exec = match self.exec.unwrap_or_default() {
            Exec::Allow => ExecPolicy::Allow,
            Exec::Deny => ExecPolicy::Deny,
        };
        KubeconfigPolicy {
            exec,
            ..KubeconfigPolicy::file()
        }
    }

    /// What a kubeconfig in an object may do. Any user who may write the object is its author.
    ///
    /// # Errors
    /// A [`Refusal`] when a pattern of `allowServers` cannot be read, which a checked document excludes.
    pub(crate) fn object_policy(&self) -> Result<KubeconfigPolicy, Refusal> {
        let allow_servers = match &self.allow_servers {
            None => AllowServers::default(),
            Some(patterns) => AllowServers::parse(patterns)
                .map_err(|error| Refusal::new("spec.allowServers", error.to_string()))?,
        };
        Ok(KubeconfigPolicy {
            allow_servers,
            allow_insecure: self.allow_insecure,
            ..KubeconfigPolicy::object()
        })
    }

    /// Refuses fields for kubeconfigs in objects where the source reads none.
    pub(super) fn check_trust(&self) -> Result<(), Refusal> {
        self.object_policy()?;
        let source = self.source()?;
        if let Source::ClusterProfiles(profiles) = source
            && profiles.access_providers.is_some()
            && self.exec == Some(Exec::Deny)
        {
            let message = "accessProviders are programs: leave it out, or use secrets";
            return Err(Refusal::new("spec.exec", message));
        }
        if source.reads_objects() {
            return Ok(());
        }
        let given = [
            ("spec.allowServers", self.allow_servers.is_some()),
            ("spec.allowInsecure", self.allow_insecure),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((path, _)) => {
                let message = format!(
                    "it is for kubeconfigs in objects, and {} reads none: leave it out",
                    source.name()
                );
                Err(Refusal::new(path, message))
            }
        }
    }
}
