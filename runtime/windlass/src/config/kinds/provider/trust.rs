//! What the kubeconfigs of a Provider may do, by where they stand. Entry point: [`ProviderSpec::file_policy`].

use super::ProviderSpec;
use serde::{Deserialize, Serialize};
use windlass_fleet::cluster::{ExecPolicy, KubeconfigPolicy};

/// Whether kubeconfigs in files may run credential plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        let exec = match self.exec {
            Exec::Allow => ExecPolicy::Allow,
            Exec::Deny => ExecPolicy::Deny,
        };
        KubeconfigPolicy {
            exec,
            ..KubeconfigPolicy::file()
        }
    }
}
