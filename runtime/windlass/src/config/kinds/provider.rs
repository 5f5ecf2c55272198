//! Kind `Provider`: a source of clusters. Entry point: [`ProviderSpec`].

use crate::config::kinds::Refusal;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use windlass_fleet::engage::ServerChange;

/// Where clusters come from: exactly one of `kubeconfigFiles` and `single`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ProviderSpec {
    /// Every context of kubeconfig files, which are watched.
    pub(crate) kubeconfig_files: Option<KubeconfigFilesSpec>,
    /// One cluster, named as the provider is.
    pub(crate) single: Option<SingleSpec>,
    /// When work on the old server ends if a context names a new one: `keep`, once the new caches are filled; `stop`, at once.
    /// Default: keep.
    pub(crate) on_server_change: OnServerChange,
}

/// What happens to a cluster whose context names another server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OnServerChange {
    /// The server before is kept until the new one can take over.
    #[default]
    Keep,
    /// Work on the server before ends at once.
    Stop,
}

impl OnServerChange {
    /// The same in the engine's words.
    pub(crate) fn engine(self) -> ServerChange {
        match self {
            Self::Keep => ServerChange::Keep,
            Self::Stop => ServerChange::Stop,
        }
    }
}

/// Kubeconfig files and folders of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct KubeconfigFilesSpec {
    /// Files, and folders in which `globs` choose; relative to the document's folder. Default: $KUBECONFIG, else ~/.kube/config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paths: Option<Vec<PathBuf>>,
    /// File names that count in folders. Default: kubeconfig.yaml, kubeconfig.yml, *.kubeconfig, *.kubeconfig.yaml,
    /// *.kubeconfig.yml.
    #[serde(default)]
    pub(crate) globs: Vec<String>,
}

/// One context of one kubeconfig file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SingleSpec {
    /// The file, relative to the document's folder.
    pub(crate) kubeconfig: PathBuf,
    /// The context. Default: the file's current context.
    #[serde(default)]
    pub(crate) context: Option<String>,
}

/// The one source of a checked provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Source<'a> {
    /// `kubeconfigFiles`.
    KubeconfigFiles(&'a KubeconfigFilesSpec),
    /// `single`.
    Single(&'a SingleSpec),
}

impl ProviderSpec {
    /// The one source.
    ///
    /// # Errors
    /// A [`Refusal`] when there is none or more than one.
    pub(crate) fn source(&self) -> Result<Source<'_>, Refusal> {
        match (&self.kubeconfig_files, &self.single) {
            (Some(files), None) => Ok(Source::KubeconfigFiles(files)),
            (None, Some(single)) => Ok(Source::Single(single)),
            (None, None) => Err(Refusal::new(
                "spec",
                "no source of clusters: give one of kubeconfigFiles, single",
            )),
            (Some(_), Some(_)) => {
                let message = "kubeconfigFiles and single are both given: a Provider has one source, make two documents of it";
                Err(Refusal::new("spec", message))
            }
        }
    }

    /// Refuses what cannot be honoured.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match self.source()? {
            Source::KubeconfigFiles(files) if files.paths.as_ref().is_some_and(Vec::is_empty) => {
                Err(Refusal::new(
                    "spec.kubeconfigFiles.paths",
                    "the list is empty: name at least one file or folder, or leave it out for the files of kubectl",
                ))
            }
            _ => Ok(()),
        }
    }
}
