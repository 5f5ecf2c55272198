//! The clusters that kubectl would use. Entry points: [`cluster`] and [`every_context`].
//!
//! The only file of this crate that reads the environment: a program asks for it by calling it.

use crate::cluster::{ClusterConfig, ConfigError, KubeconfigPolicy};
use crate::provider::kubeconfig_files::{
    KubeconfigFiles, KubeconfigFilesOptions, UnusableFile, read_merged,
};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Why there is no cluster that kubectl would use.
#[derive(Debug, thiserror::Error)]
pub enum KubectlError {
    /// There is no kubeconfig and no service account.
    #[error("there is no kubeconfig, looked for {looked_for:?}: name one with KUBECONFIG")]
    NoKubeconfig {
        /// The paths, separated by commas.
        looked_for: String,
    },
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] UnusableFile),
    /// This is a pod, and its service account cannot be used.
    #[error("there is no kubeconfig, and the service account of this pod cannot be used")]
    Pod(#[from] ConfigError),
    /// The context cannot be used.
    #[error("{files} cannot be used")]
    Context {
        /// The paths, separated by commas.
        files: String,
        /// The reason.
        source: ConfigError,
    },
}

/// The cluster that kubectl would use: a context, or the current one, of a kubeconfig, or of [`files`]; without these files the cluster of
/// this pod. Blocks on the file system.
///
/// # Errors
/// [`KubectlError`].
pub fn cluster(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<ClusterConfig, KubectlError> {
    let files = kubeconfig.map_or_else(files, |file| vec![file.to_owned()]);
    let shown = files.iter().map(|path| path.display().to_string());
    let shown = shown.collect::<Vec<_>>().join(", ");
    let Some(merged) = read_merged(&files)? else {
        let may_be_pod = kubeconfig.is_none() && context.is_none();
        if may_be_pod && env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
            return Ok(in_cluster()?);
        }
        return Err(KubectlError::NoKubeconfig { looked_for: shown });
    };
    let config = merged.context(context, &KubeconfigPolicy::file());
    config.map_err(|source| KubectlError::Context {
        files: shown,
        source,
    })
}

/// Provides each context of [`files`] as a cluster, under the name of the context, and follows changes of the files.
#[must_use]
pub fn every_context() -> KubeconfigFiles {
    KubeconfigFiles::new(KubeconfigFilesOptions {
        paths: files(),
        merged: true,
        ..KubeconfigFilesOptions::default()
    })
}

/// The cluster of the pod that this process runs in, by its service account.
///
/// # Errors
/// [`ConfigError::InCluster`] outside a pod.
pub fn in_cluster() -> Result<ClusterConfig, ConfigError> {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    ClusterConfig::in_cluster(
        &variable("KUBERNETES_SERVICE_HOST"),
        &variable("KUBERNETES_SERVICE_PORT"),
    )
}

/// The kubeconfig files that kubectl reads and merges: the list in `$KUBECONFIG`, else `~/.kube/config`.
#[must_use]
pub fn files() -> Vec<PathBuf> {
    listed(env::var_os("KUBECONFIG"), env::home_dir())
}

fn listed(variable: Option<OsString>, home: Option<PathBuf>) -> Vec<PathBuf> {
    let listed = variable.unwrap_or_default();
    if !listed.is_empty() {
        let paths = env::split_paths(&listed);
        return paths.filter(|path| !path.as_os_str().is_empty()).collect();
    }
    home.into_iter()
        .map(|home| home.join(".kube/config"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_listed_or_in_the_home_folder() {
        let home = || Some(PathBuf::from("/me"));
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(listed(Some("/a:/b".into()), home()), paths(&["/a", "/b"]));
        assert_eq!(
            listed(Some("".into()), home()),
            paths(&["/me/.kube/config"])
        );
        assert_eq!(listed(Some(":".into()), home()), paths(&[]));
        assert_eq!(listed(None, home()), paths(&["/me/.kube/config"]));
        assert_eq!(listed(None, None), paths(&[]));
    }

    #[test]
    fn the_current_context_counts_and_a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let missing = cluster(Some(&file), None).unwrap_err().to_string();
        assert!(missing.contains("config\": name one"), "{missing}");
        let text = "clusters: [{name: a, cluster: {server: 'https://a'}}, {name: b, cluster: {server: 'https://b'}}]\n\
            contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]\ncurrent-context: b\n";
        std::fs::write(&file, text).unwrap();
        let server = |context| cluster(Some(&file), context).unwrap().server();
        assert_eq!(server(None), "https://b/");
        assert_eq!(server(Some("a")), "https://a/");
        assert!(matches!(
            cluster(Some(&file), Some("c")),
            Err(KubectlError::Context { .. })
        ));
    }
}
