//! The address, TLS and credentials of one API server. Entry point: [`ClusterConfig`].
//!
//! Made of one context of a [`Kubeconfig`], within a [`KubeconfigPolicy`]. File references become absolute. Credentials are not loaded here: a
//! configuration only says where they are.

mod access_provider;
mod allow_servers;
mod context;
mod error;
mod files;
mod in_cluster;
mod kubeconfig;
mod policy;
mod server_addresses;
#[cfg(test)]
mod tests;

pub use access_provider::CredentialPlugin;
pub(crate) use allow_servers::Host;
pub use allow_servers::{AllowServers, AllowServersError, ServerNotAllowed};
pub use context::ContextConfig;
pub use error::ConfigError;
pub(crate) use files::{MAX_REFERENCED, certificates};
pub use kubeconfig::Kubeconfig;
pub(crate) use kubeconfig::{Exec, InteractiveMode, Secret, User};
pub use policy::{ExecPolicy, KubeconfigPolicy};
pub(crate) use server_addresses::{NotedAddress, ServerAddresses};

use crate::http::proxy::Proxy;
use crate::workspace::{CLUSTERS, INITIALIZING, TERMINATING, WILDCARD};
use files::digest_files;
use http::Uri;
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Address, TLS and credentials of one API server. Cheap to clone; prints its server only.
#[derive(Clone)]
pub struct ClusterConfig {
    inner: Arc<Inner>,
}

struct Inner {
    access: Access,
    digest: [u8; 32],
    referenced_files: Vec<PathBuf>,
    /// Digest of the contents of these files.
    files_digest: [u8; 32],
}

/// One context of a kubeconfig, with its cluster and user.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) url: Uri,
    pub(crate) namespace: String,
    /// Certificates in DER of the authorities to trust; `None`: those of the system.
    pub(crate) authorities: Option<Vec<Vec<u8>>>,
    /// The file from which the authorities are read again for each load, as in a pod.
    pub(crate) authorities_file: Option<PathBuf>,
    pub(crate) accept_invalid_certs: bool,
    pub(crate) tls_server_name: Option<String>,
    /// The proxy that the kubeconfig names. It wins over the environment's.
    pub(crate) proxy: Option<Proxy>,
    /// The servers and proxies that may be connected to.
    pub(crate) allow_servers: AllowServers,
    pub(crate) user: User,
    /// The path of the server that this one is a copy of, by which endpoints of kcp are recognised; `None`: it is no copy.
    pub(crate) original_path: Option<String>,
    /// Whether no call but GET is sent.
    pub(crate) only_reads: bool,
}

impl Access {
    pub(crate) fn of_url(url: Uri) -> Self {
        Self {
            url,
            namespace: "default".to_owned(),
            authorities: None,
            authorities_file: None,
            accept_invalid_certs: false,
            tls_server_name: None,
            proxy: None,
            allow_servers: AllowServers::any(),
            user: User::default(),
            original_path: None,
            only_reads: false,
        }
    }

    /// The path that tells what sort of server it is.
    pub(crate) fn known_path(&self) -> &str {
        let copied = self.original_path.as_deref();
        copied.unwrap_or(self.url.path())
    }
}

impl ClusterConfig {
    /// Reads one context (`None`: the current one) of a kubeconfig. Relative file references are taken from `base_dir`.
    ///
    /// # Errors
    /// [`ConfigError`]; also if the context asks for more than the policy allows.
    pub fn from_kubeconfig_text(
        yaml: &str,
        context: Option<&str>,
        base_dir: Option<&Path>,
        policy: &KubeconfigPolicy,
    ) -> Result<Self, ConfigError> {
        Kubeconfig::parse(yaml, base_dir)?.context(context, policy)
    }

    /// A server without TLS or credentials of its own, such as one on loopback.
    ///
    /// # Errors
    /// [`ConfigError::Url`].
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let uri: Uri = url.parse().map_err(|_| ConfigError::Url(url.to_owned()))?;
        Self::new(Access::of_url(uri), Vec::new())
    }

    /// As [`Self::from_url`], with a bearer token, for a copy of another server: it has the namespace of `original`, and is used as an
    /// endpoint of kcp if that is one.
    ///
    /// # Errors
    /// [`ConfigError::Url`].
    pub fn of_copy(url: &str, token: &str, original: &Self) -> Result<Self, ConfigError> {
        let uri: Uri = url.parse().map_err(|_| ConfigError::Url(url.to_owned()))?;
        let mut access = Access::of_url(uri);
        let of = &original.inner.access;
        access.namespace.clone_from(&of.namespace);
        access.original_path = Some(of.known_path().to_owned());
        access.user.token = Some(Secret::from(token.to_owned()));
        Self::new(access, Vec::new())
    }

    /// A server that is no API server: its origin, the authorities that are trusted beside none of the system's (`None`: those), and the
    /// addresses that a connection may have.
    ///
    /// # Errors
    /// [`ConfigError::Url`].
    pub(crate) fn of_outside(
        origin: Uri,
        authorities: Option<Vec<Vec<u8>>>,
        allow_servers: AllowServers,
    ) -> Result<Self, ConfigError> {
        let access = Access {
            authorities,
            allow_servers,
            ..Access::of_url(origin)
        };
        Self::new(access, Vec::new())
    }

    /// The same server, to which no call but GET is sent: the transport refuses, whatever rights a caller has.
    #[must_use]
    pub fn only_reading(&self) -> Self {
        let mut access = self.inner.access.clone();
        access.only_reads = true;
        self.with(access)
    }

    /// Whether it is an endpoint of kcp that has many workspaces.
    #[must_use]
    pub fn is_of_workspaces(&self) -> bool {
        self.inner.access.url.path().ends_with(WILDCARD)
    }

    /// Whether it is an endpoint of kcp for workspaces that are being initialized.
    #[must_use]
    pub fn is_of_initializing(&self) -> bool {
        self.inner.access.known_path().contains(INITIALIZING)
    }

    /// Whether it is an endpoint of kcp for workspaces that end.
    #[must_use]
    pub fn is_of_terminating(&self) -> bool {
        self.inner.access.known_path().contains(TERMINATING)
    }

    /// One workspace behind an endpoint of kcp, if this is such an endpoint: its URL ends in `/clusters/*`.
    pub(crate) fn at_workspace(&self, workspace: &str) -> Option<Self> {
        let url = self.server();
        let all = url.strip_suffix(WILDCARD)?;
        let mut access = self.inner.access.clone();
        access.url = format!("{all}{CLUSTERS}{workspace}").parse().ok()?;
        Some(self.with(access))
    }

    /// With an access that names the same files.
    fn with(&self, access: Access) -> Self {
        let inner = &self.inner;
        let digest = digest_all(&access, &inner.files_digest);
        Self {
            inner: Arc::new(Inner {
                access,
                digest,
                referenced_files: inner.referenced_files.clone(),
                files_digest: inner.files_digest,
            }),
        }
    }

    /// A server that does not answer, with the namespace of this one.
    #[must_use]
    pub fn nowhere(&self) -> Self {
        // Port 1 of this machine.
        let access = Access {
            namespace: self.inner.access.namespace.clone(),
            ..Access::of_url(Uri::from_static("http://127.0.0.1:1"))
        };
        let digest = digest_all(&access, &[0; 32]);
        Self {
            inner: Arc::new(Inner {
                access,
                digest,
                referenced_files: Vec::new(),
                files_digest: [0; 32],
            }),
        }
    }

    /// The service account of the pod that this process runs in; `host` and `port` are the variables `KUBERNETES_SERVICE_HOST` and
    /// `KUBERNETES_SERVICE_PORT` of its environment.
    ///
    /// # Errors
    /// [`ConfigError::InCluster`] when there is none.
    pub fn in_cluster(host: &str, port: &str) -> Result<Self, ConfigError> {
        Self::new(in_cluster::access(host, port)?, Vec::new())
    }

    fn new(access: Access, referenced_files: Vec<PathBuf>) -> Result<Self, ConfigError> {
        if access.url.scheme().is_none() || access.url.authority().is_none() {
            return Err(ConfigError::Url(access.url.to_string()));
        }
        let files_digest = digest_files(&referenced_files)?;
        let digest = digest_all(&access, &files_digest);
        Ok(Self {
            inner: Arc::new(Inner {
                access,
                digest,
                referenced_files,
                files_digest,
            }),
        })
    }

    /// The same credentials for an endpoint that their server has named. Without `allow`, the endpoint must be at the server's own host.
    ///
    /// # Errors
    /// [`ConfigError::OtherHost`], [`ConfigError::Url`], or a server that is not allowed.
    pub(crate) fn at_endpoint(
        &self,
        url: &str,
        allow: Option<&AllowServers>,
    ) -> Result<Self, ConfigError> {
        let invalid = || ConfigError::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let mut access = self.inner.access.clone();
        let host = uri.host().ok_or_else(invalid)?.to_owned();
        if uri.scheme() != access.url.scheme() {
            return Err(invalid());
        }
        match allow {
            Some(allow) => {
                let refused = |refusal| ConfigError::EndpointNotAllowed { refusal };
                allow.check_host(&host).map_err(refused)?;
                access.allow_servers = allow.clone();
            }
            None if access.url.host() == Some(&host) => {}
            None => {
                let own = access.url.host().unwrap_or_default().to_owned();
                return Err(ConfigError::OtherHost { host, own });
            }
        }
        access.url = uri;
        Self::new(access, self.inner.referenced_files.clone())
    }

    /// The server's URL, for people.
    #[must_use]
    pub fn server(&self) -> String {
        self.inner.access.url.to_string()
    }

    /// The namespace of the kubeconfig's context or of the service account, else `default`.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.inner.access.namespace
    }

    /// The server's authority: host and port.
    pub(crate) fn host(&self) -> String {
        let authority = self.inner.access.url.authority();
        authority.map(ToString::to_string).unwrap_or_default()
    }

    /// Files of the credentials and the certificate authority. If one changes, the configuration does.
    #[must_use]
    pub fn referenced_files(&self) -> &[PathBuf] {
        &self.inner.referenced_files
    }

    /// Whether both reach the same server with the same credentials.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.inner.digest == other.inner.digest
    }

    /// Whether both have the same address. Credentials and certificate authority may differ.
    #[must_use]
    pub fn same_server(&self, other: &Self) -> bool {
        self.inner.access.url == other.inner.access.url
    }

    /// Whether both reach the same server on the same way. Credentials may differ.
    #[must_use]
    pub fn same_way(&self, other: &Self) -> bool {
        let digest = |config: &Self| {
            let access = Access {
                user: User::default(),
                allow_servers: AllowServers::any(),
                ..config.inner.access.clone()
            };
            digest_all(&access, &[0; 32])
        };
        digest(self) == digest(other)
    }

    /// Whether both trust the same certificate authorities.
    pub(crate) fn same_authority(&self, other: &Self) -> bool {
        let (this, other) = (&self.inner.access, &other.inner.access);
        this.authorities == other.authorities
            && this.accept_invalid_certs == other.accept_invalid_certs
    }

    pub(crate) fn access(&self) -> &Access {
        &self.inner.access
    }

    /// A digest of everything but the path of the URL. Clusters with the same digest share connections.
    pub(crate) fn connection_digest(&self) -> [u8; 32] {
        let access = &self.inner.access;
        let mut hash = Sha256::new();
        hash.update(access.url.scheme_str().unwrap_or_default());
        hash.update([0]);
        hash.update(access.url.authority().map_or("", |a| a.as_str()));
        hash.update([0]);
        hash_transport(access, &mut hash, &self.inner.files_digest);
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

fn digest_all(access: &Access, files: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(access.url.to_string());
    hash.update([u8::from(access.only_reads)]);
    hash_transport(access, &mut hash, files);
    hash.finalize().into()
}

/// Everything but the address: TLS, credentials, the proxy, and the servers that may be connected to. So a cluster never uses a socket that
/// its own policy would refuse.
fn hash_transport(access: &Access, hash: &mut Sha256, files: &[u8; 32]) {
    for certificate in access.authorities.iter().flatten() {
        hash.update([1]);
        hash.update(certificate);
    }
    hash.update([u8::from(access.accept_invalid_certs)]);
    hash.update([4]);
    hash.update(access.tls_server_name.as_deref().unwrap_or_default());
    hash.update([4]);
    if let Some(proxy) = &access.proxy {
        proxy.hash(hash);
    }
    hash.update([5]);
    access.allow_servers.hash(hash);
    hash.update([3]);
    // Every field, secrets included: only the digest is kept. `Value` sorts the keys of maps.
    if let Ok(user) = serde_json::to_value(&access.user) {
        hash.update(user.to_string());
    }
    hash.update([2]);
    hash.update(files);
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

/// The first line of an error. For YAML it has the position and, unlike the rest, quotes no content.
fn first_line(error: &dyn std::error::Error) -> String {
    chain(error)
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}
