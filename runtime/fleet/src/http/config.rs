//! How to reach one API server and as whom. Entry point: [`ClusterConfig`].

mod files;
#[cfg(test)]
mod tests;

pub(crate) use files::MAX_REFERENCED;

use crate::file::FileError;
use files::{Files, digest_files, inline_authority, resolve_cluster, resolve_user};
use http::Uri;
use kube_client::Config;
use kube_client::config::{
    AuthInfo, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a kubeconfig came from, which decides what it may make this process do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provenance {
    /// A file that the operator named: may run credential plugins and refer to files.
    File,
    /// A Secret that somebody could write to an API server: plugins and file references are refused.
    Secret,
    /// As [`Provenance::Secret`], but the operator told the provider to trust whoever writes such Secrets as if with a shell of this
    /// process: plugins and file references are allowed.
    TrustedSecret,
    /// Built by the program.
    Program,
}

/// Why a kubeconfig cannot be used. No message quotes the kubeconfig's contents.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not a kubeconfig.
    #[error("not a kubeconfig: {0}")]
    Parse(String),
    /// The context is not there.
    #[error("context {context:?} is not in the kubeconfig: it has {present}")]
    NoContext {
        /// The context asked for.
        context: String,
        /// What there is, for people.
        present: String,
    },
    /// A credential plugin from a place that may not bring one.
    #[error(
        "user of context {0:?} runs a credential plugin, which a kubeconfig from a Secret may not"
    )]
    Exec(String),
    /// A file reference from a place that may not bring one.
    #[error(
        "context {context:?} refers to a file in {field}, which a kubeconfig from a Secret may not: inline the data"
    )]
    FileReference {
        /// The context.
        context: String,
        /// The kubeconfig field.
        field: &'static str,
    },
    /// The context cannot be turned into a connection.
    #[error("context {context:?} cannot be used: {reason}")]
    Unusable {
        /// The context.
        context: String,
        /// What is wrong, without values.
        reason: String,
    },
    /// A file that it refers to could not be read for lack of descriptors: it may have changed or not.
    #[error("{path:?}, which it refers to, cannot be read: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: FileError,
    },
    /// The URL of a server is not one.
    #[error("server url {0:?} is not valid: write http(s)://host:port[/path]")]
    Url(String),
    /// This process does not run in a cluster, or its service account is not mounted.
    #[error("in-cluster configuration is not available: {0}")]
    InCluster(String),
}

/// Address, TLS and credentials of one API server. Cheap to clone; prints its server only.
#[derive(Clone)]
pub struct ClusterConfig {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    digest: [u8; 32],
    referenced_files: Vec<PathBuf>,
    /// Of what these files held.
    files_digest: [u8; 32],
}

impl ClusterConfig {
    /// Reads one context (`None`: the current one) of a kubeconfig. Relative file references are taken from `base_dir`.
    ///
    /// # Errors
    /// [`ConfigError`]; with [`Provenance::Secret`] also for credential plugins and references to files.
    pub fn from_kubeconfig_text(
        yaml: &str,
        context: Option<&str>,
        base_dir: Option<&Path>,
        provenance: Provenance,
    ) -> Result<Self, ConfigError> {
        let kubeconfig =
            Kubeconfig::from_yaml(yaml).map_err(|error| ConfigError::Parse(first_line(&error)))?;
        Self::from_kubeconfig(kubeconfig, context, base_dir, provenance)
    }

    fn from_kubeconfig(
        mut kubeconfig: Kubeconfig,
        context: Option<&str>,
        base_dir: Option<&Path>,
        provenance: Provenance,
    ) -> Result<Self, ConfigError> {
        let context = match context.or(kubeconfig.current_context.as_deref()) {
            Some(context) => context.to_owned(),
            None => {
                return Err(ConfigError::NoContext {
                    context: "(current)".into(),
                    present: present(&kubeconfig),
                });
            }
        };
        let named = kubeconfig
            .contexts
            .iter()
            .find(|c| c.name == context)
            .and_then(|c| c.context.clone());
        let Some(named) = named else {
            let present = present(&kubeconfig);
            return Err(ConfigError::NoContext { context, present });
        };
        let mut files = Vec::new();
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter(|c| c.name == named.cluster)
        {
            resolve_cluster(cluster, base_dir, &mut files);
        }
        let user = named.user.clone().unwrap_or_default();
        for auth in kubeconfig.auth_infos.iter_mut().filter(|a| a.name == user) {
            resolve_user(auth, base_dir, &mut files);
        }
        let proxy = kubeconfig
            .clusters
            .iter()
            .find(|c| c.name == named.cluster)
            .and_then(|c| c.cluster.as_ref()?.proxy_url.clone());
        if provenance == Provenance::Secret {
            refuse_foreign(&kubeconfig, &context, &user, &files)?;
        }
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter(|c| c.name == named.cluster)
        {
            inline_authority(cluster, &context)?;
        }
        let options = KubeConfigOptions {
            context: Some(context.clone()),
            ..KubeConfigOptions::default()
        };
        // The function is async in kube but awaits nothing.
        let config =
            futures::FutureExt::now_or_never(Config::from_custom_kubeconfig(kubeconfig, &options));
        let mut config = match config {
            Some(Ok(config)) => config,
            Some(Err(error)) => {
                return Err(ConfigError::Unusable {
                    context,
                    reason: chain(&error),
                });
            }
            None => {
                return Err(ConfigError::Unusable {
                    context,
                    reason: "its credentials are not ready".into(),
                });
            }
        };
        // kube takes one from the environment where the kubeconfig names none; only the program reads that.
        if proxy.is_none_or(|proxy| proxy.is_empty()) {
            config.proxy_url = None;
        }
        Self::new(config, files.into_iter().map(|(_, path)| path).collect())
    }

    /// A server without TLS or credentials of its own, such as one on loopback.
    ///
    /// # Errors
    /// [`ConfigError::Url`].
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let uri: Uri = url.parse().map_err(|_| ConfigError::Url(url.to_owned()))?;
        Self::new(Config::new(uri), Vec::new())
    }

    /// The service account of the pod that this process runs in.
    ///
    /// # Errors
    /// [`ConfigError::InCluster`] when there is none.
    pub fn in_cluster() -> Result<Self, ConfigError> {
        let config = Config::incluster().map_err(|error| ConfigError::InCluster(chain(&error)))?;
        Self::new(config, Vec::new())
    }

    fn new(config: Config, referenced_files: Vec<PathBuf>) -> Result<Self, ConfigError> {
        let absolute =
            config.cluster_url.scheme().is_some() && config.cluster_url.authority().is_some();
        if !absolute {
            return Err(ConfigError::Url(config.cluster_url.to_string()));
        }
        let files_digest = digest_files(&referenced_files)?;
        let digest = digest_all(&config, &files_digest);
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                digest,
                referenced_files,
                files_digest,
            }),
        })
    }

    /// The server's URL, for people.
    #[must_use]
    pub fn server(&self) -> String {
        self.inner.config.cluster_url.to_string()
    }

    /// The namespace that a kubeconfig's context names, or that of the service account; else `default`.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.inner.config.default_namespace
    }

    /// The server's authority: host and port.
    pub(crate) fn host(&self) -> String {
        let authority = self.inner.config.cluster_url.authority();
        authority.map(ToString::to_string).unwrap_or_default()
    }

    /// Files that the credentials or the CA come from; a change of one changes the configuration.
    #[must_use]
    pub fn referenced_files(&self) -> &[PathBuf] {
        &self.inner.referenced_files
    }

    /// Whether both reach the same server with the same credentials.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.inner.digest == other.inner.digest
    }

    /// Whether both reach the same address, be it with other credentials or another certificate authority.
    #[must_use]
    pub fn same_server(&self, other: &Self) -> bool {
        self.inner.config.cluster_url == other.inner.config.cluster_url
    }

    /// Whether both trust the same certificate authorities.
    pub(crate) fn same_authority(&self, other: &Self) -> bool {
        let (this, other) = (&self.inner.config, &other.inner.config);
        this.root_cert == other.root_cert && this.accept_invalid_certs == other.accept_invalid_certs
    }

    pub(crate) fn kube(&self) -> &Config {
        &self.inner.config
    }

    /// What connections are shared by: everything but the path of the server's URL.
    pub(crate) fn connection_digest(&self) -> [u8; 32] {
        let config = &self.inner.config;
        let mut hash = Sha256::new();
        hash.update(config.cluster_url.scheme_str().unwrap_or_default());
        hash.update([0]);
        hash.update(
            config
                .cluster_url
                .authority()
                .map(|a| a.as_str())
                .unwrap_or_default(),
        );
        hash.update([0]);
        hash_transport(config, &mut hash, &self.inner.files_digest);
        hash.finalize().into()
    }
}

impl fmt::Debug for ClusterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConfig")
            .field("server", &self.server())
            .finish_non_exhaustive()
    }
}

/// Contexts of a kubeconfig, for an error.
fn present(kubeconfig: &Kubeconfig) -> String {
    let names: Vec<&str> = kubeconfig
        .contexts
        .iter()
        .take(10)
        .map(|c| c.name.as_str())
        .collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Names of all contexts of a kubeconfig, in file order.
///
/// # Errors
/// [`ConfigError::Parse`].
pub fn contexts(yaml: &str) -> Result<Vec<String>, ConfigError> {
    let kubeconfig =
        Kubeconfig::from_yaml(yaml).map_err(|error| ConfigError::Parse(first_line(&error)))?;
    Ok(kubeconfig.contexts.into_iter().map(|c| c.name).collect())
}

/// Every context of a kubeconfig by itself, in file order: one that cannot be used takes no other with it.
///
/// # Errors
/// [`ConfigError::Parse`] when the whole cannot be read; else each context has its own.
#[expect(
    clippy::type_complexity,
    reason = "a list of names with results is just that"
)]
pub fn every_context(
    yaml: &str,
    base_dir: Option<&Path>,
    provenance: Provenance,
) -> Result<Vec<(String, Result<ClusterConfig, ConfigError>)>, ConfigError> {
    let all =
        Kubeconfig::from_yaml(yaml).map_err(|error| ConfigError::Parse(first_line(&error)))?;
    // Each context goes with its own cluster and user alone: a file of a thousand contexts is not copied a thousand times.
    let clusters: HashMap<&str, &NamedCluster> =
        all.clusters.iter().rev().map(|c| (&*c.name, c)).collect();
    let users: HashMap<&str, &NamedAuthInfo> =
        all.auth_infos.iter().rev().map(|u| (&*u.name, u)).collect();
    let read = |named: &NamedContext| {
        let context = named.context.as_ref();
        let cluster = context.and_then(|context| clusters.get(&*context.cluster));
        let user = context.and_then(|context| users.get(context.user.as_deref()?));
        let one = Kubeconfig {
            contexts: vec![named.clone()],
            clusters: cluster.into_iter().copied().cloned().collect(),
            auth_infos: user.into_iter().copied().cloned().collect(),
            ..Kubeconfig::default()
        };
        let config = ClusterConfig::from_kubeconfig(one, Some(&named.name), base_dir, provenance);
        (named.name.clone(), config)
    };
    Ok(all.contexts.iter().map(read).collect())
}

fn refuse_foreign(
    kubeconfig: &Kubeconfig,
    context: &str,
    user: &str,
    files: &Files,
) -> Result<(), ConfigError> {
    let auth = kubeconfig
        .auth_infos
        .iter()
        .find(|a| a.name == user)
        .and_then(|a| a.auth_info.as_ref());
    if auth.is_some_and(|a| a.exec.is_some() || a.auth_provider.is_some()) {
        return Err(ConfigError::Exec(context.to_owned()));
    }
    match files.first() {
        Some((field, _)) => Err(ConfigError::FileReference {
            context: context.to_owned(),
            field,
        }),
        None => Ok(()),
    }
}

fn digest_server(config: &Config) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(config.cluster_url.to_string());
    for cert in config.root_cert.iter().flatten() {
        hash.update([1]);
        hash.update(cert);
    }
    hash.finalize().into()
}

fn digest_all(config: &Config, files: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(digest_server(config));
    hash_transport(config, &mut hash, files);
    hash.finalize().into()
}

/// Everything that makes a connection what it is, but the address.
fn hash_transport(config: &Config, hash: &mut Sha256, files: &[u8; 32]) {
    for cert in config.root_cert.iter().flatten() {
        hash.update([1]);
        hash.update(cert);
    }
    hash.update([u8::from(config.accept_invalid_certs)]);
    hash.update(config.tls_server_name.as_deref().unwrap_or_default());
    hash.update(
        config
            .proxy_url
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
    );
    hash_auth(&config.auth_info, hash);
    hash.update([2]);
    hash.update(files);
}

/// Every field, secrets included; only the digest is kept. `Value` sorts the keys of maps.
fn hash_auth(auth: &AuthInfo, hash: &mut Sha256) {
    hash.update([3]);
    if let Ok(value) = serde_json::to_value(auth) {
        hash.update(value.to_string());
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The first line of an error, which for YAML tells the position and, unlike the rest, quotes no content.
fn first_line(error: &dyn std::error::Error) -> String {
    chain(error)
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}
