//! Makes the local cluster and the providers from documents. Entry points: [`local`] and [`provider`].

use crate::config::document::Problem;
use crate::config::kinds::{ManagerSpec, ProviderSpec, Source};
use crate::config::load::{Configuration, Document};
use futures::future::BoxFuture;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::{ClusterConfig, ConfigError, KubeconfigPolicy};
use windlass_fleet::engage::{ClusterSpec, Engage};
use windlass_fleet::file;
use windlass_fleet::provider::kubeconfig_files::{
    KubeconfigFiles, KubeconfigFilesOptions, LARGEST,
};
use windlass_fleet::provider::name_template::NameTemplate;
use windlass_fleet::provider::single::Single;
use windlass_fleet::provider::{Provider, ProviderError};

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
            Some(kubeconfig) => read_kubeconfig(document, kubeconfig, local.context.as_deref())?,
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

/// The cluster of this pod, by its service account. Fails outside a pod, where the variables are not set.
fn in_cluster() -> Result<ClusterConfig, ConfigError> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    ClusterConfig::in_cluster(
        &variable("KUBERNETES_SERVICE_HOST"),
        &variable("KUBERNETES_SERVICE_PORT"),
    )
}

/// Makes the provider of a document; none, if it says that it has no clusters.
///
/// # Errors
/// When the kubeconfig of a `single` cannot be used. The files of `kubeconfigFiles` are watched, and may be bad or absent.
pub(crate) fn provider(
    document: &Document,
    spec: &ProviderSpec,
) -> Result<Option<Arc<dyn Provider>>, Problem> {
    let source = spec
        .source()
        .map_err(|refusal| document.problem(refusal.message))?;
    let provider: Arc<dyn Provider> = match source {
        Source::KubeconfigFiles(files) => {
            let base = document.resolve(Path::new("."));
            let options = KubeconfigFilesOptions {
                base,
                paths: match &files.paths {
                    Some(paths) => paths.clone(),
                    None => files_of_kubectl(std::env::var_os("KUBECONFIG"), std::env::home_dir()),
                },
                globs: files.globs.clone(),
                name: NameTemplate::default(),
                on_server_change: spec.on_server_change.engine(),
            };
            Arc::new(KubeconfigFiles::new(options))
        }
        Source::Single(single) => {
            let config = read_kubeconfig(document, &single.kubeconfig, single.context.as_deref())?;
            let name = ClusterName::new(&document.identity.name)
                .map_err(|error| document.problem(error))?;
            let cluster = ClusterSpec {
                on_server_change: spec.on_server_change.engine(),
                ..ClusterSpec::new(name, config)
            };
            Arc::new(Single::new(cluster))
        }
        Source::None => return Ok(None),
    };
    Ok(Some(Named::wrap(document, provider)))
}

/// The kubeconfig files that kubectl uses: the list in $KUBECONFIG, else the file in the home folder.
fn files_of_kubectl(variable: Option<OsString>, home: Option<PathBuf>) -> Vec<PathBuf> {
    let listed = variable.unwrap_or_default();
    let listed = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty());
    let listed: Vec<PathBuf> = listed.collect();
    if !listed.is_empty() {
        return listed;
    }
    home.into_iter()
        .map(|home| home.join(".kube/config"))
        .collect()
}

/// A provider with the name of its document.
struct Named {
    name: String,
    provider: Arc<dyn Provider>,
}

impl Named {
    fn wrap(document: &Document, provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        Arc::new(Self {
            name: document.identity.name.clone(),
            provider,
        })
    }
}

impl Provider for Named {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        self.provider.clone().run(engage, stop)
    }

    fn problems(&self) -> Vec<windlass_fleet::provider::Problem> {
        self.provider.problems()
    }

    fn provides_clusters(&self) -> bool {
        self.provider.provides_clusters()
    }
}

fn read_kubeconfig(
    document: &Document,
    path: &Path,
    context: Option<&str>,
) -> Result<ClusterConfig, Problem> {
    let path = document.resolve(path);
    let problem = |message: String| document.problem(format!("{}: {message}", path.display()));
    let bytes = file::read(&path, LARGEST).map_err(|error| match error.is_not_found() {
        true => problem("no such file: check the path of the kubeconfig".to_owned()),
        false => problem(format!("the kubeconfig cannot be read: {error}")),
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| problem("the kubeconfig is not UTF-8 text: save it as such".to_owned()))?;
    ClusterConfig::from_kubeconfig_text(&text, context, path.parent(), &KubeconfigPolicy::file())
        .map_err(|error| problem(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_paths_the_files_are_those_of_kubectl() {
        let home = || Some(PathBuf::from("/me"));
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            files_of_kubectl(Some("/a:/b".into()), home()),
            paths(&["/a", "/b"])
        );
        assert_eq!(
            files_of_kubectl(Some("".into()), home()),
            paths(&["/me/.kube/config"])
        );
        assert_eq!(files_of_kubectl(None, home()), paths(&["/me/.kube/config"]));
        assert_eq!(files_of_kubectl(None, None), paths(&[]));
    }
}
