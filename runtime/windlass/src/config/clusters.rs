//! Makes the local cluster and the providers from documents. Entry points: [`local`] and [`provider`].

mod providers;

pub(crate) use providers::provider;

use crate::config::kinds::ManagerSpec;
use crate::config::load::{Configuration, Document};
use std::path::Path;
use windlass_files::Problem;
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::{ClusterConfig, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::file;
use windlass_fleet::kubectl::in_cluster;
use windlass_fleet::provider::kubeconfig_files::LARGEST;

/// The local cluster: the one that the Manager names, else the cluster of this pod, else none.
///
/// # Errors
/// When the named cluster cannot be used.
pub(crate) fn local(configuration: &Configuration) -> Result<Option<ClusterSpec>, Problem> {
    let named = configuration
        .manager()
        .and_then(|(document, spec): (&Document, &ManagerSpec)| {
            Some((document, spec.local.as_ref()?))
        });
    let config = match named {
        Some((document, local)) => match &local.kubeconfig {
            Some(kubeconfig) => {
                let policy = KubeconfigPolicy::file();
                read_kubeconfig(document, kubeconfig, local.context.as_deref(), &policy)?
            }
            None => in_cluster()
                .map_err(|error| document.problem(format!("spec.local.inCluster: {error}")))?,
        },
        // Without a service account there is no local cluster.
        None => match in_cluster() {
            Ok(config) => config,
            Err(_) => return Ok(None),
        },
    };
    Ok(Some(ClusterSpec::new(ClusterName::local(), config)))
}

/// What the local cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalCluster {
    /// There is none.
    None,
    /// That of this pod.
    OfPod,
    /// That of a kubeconfig.
    Named,
}

impl LocalCluster {
    /// What the Manager at the start of the process makes it.
    pub(crate) fn of(manager: &ManagerSpec) -> Self {
        match &manager.local {
            Some(local) if local.in_cluster => Self::OfPod,
            Some(_) => Self::Named,
            None if in_cluster().is_ok() => Self::OfPod,
            None => Self::None,
        }
    }
}

fn read_kubeconfig(
    document: &Document,
    path: &Path,
    context: Option<&str>,
    policy: &KubeconfigPolicy,
) -> Result<ClusterConfig, Problem> {
    let path = document.resolve(path);
    let problem = |message: String| document.problem(format!("{}: {message}", path.display()));
    let bytes = file::read(&path, LARGEST).map_err(|error| {
        if error.is_not_found() {
            problem("no such file: check the path of the kubeconfig".to_owned())
        } else {
            problem(format!("the kubeconfig cannot be read: {error}"))
        }
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| problem("the kubeconfig is not UTF-8 text: save it as such".to_owned()))?;
    ClusterConfig::from_kubeconfig_text(&text, context, path.parent(), policy)
        .map_err(|error| problem(error.to_string()))
}
