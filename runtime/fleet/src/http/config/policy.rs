//! What a kubeconfig may do, by where it came from. Entry point: [`KubeconfigPolicy`].

use super::allow_servers::{AllowServers, ServerNotAllowed};
use super::error::ConfigError;
use super::files::Files;
use super::kubeconfig::{KubeconfigCluster, User};
use crate::http::proxy::Proxy;
use http::Uri;

/// Whether a kubeconfig may run credential plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ExecPolicy {
    /// It may: its author is trusted as if they had a shell of this process.
    #[default]
    Allow,
    /// It may not.
    Deny,
}

/// What a kubeconfig may do. Its author decides: the operator, or any user who may write an object of some cluster.
///
/// ```
/// use windlass_fleet::cluster::{AllowServers, ExecPolicy, KubeconfigPolicy};
///
/// let policy = KubeconfigPolicy {
///     exec: ExecPolicy::Deny,
///     allow_servers: AllowServers::parse(&["*.example.com", "10.0.0.0/8"])?,
///     ..KubeconfigPolicy::object()
/// };
/// # Ok::<(), windlass_fleet::cluster::AllowServersError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeconfigPolicy {
    /// Whether it may run credential plugins.
    pub exec: ExecPolicy,
    /// Whether it may name files: certificates, keys and tokens.
    pub files: bool,
    /// The servers and proxies that it may name. Checked when it is read, and again for each connection.
    pub allow_servers: AllowServers,
    /// Whether it may switch off TLS verification: `insecure-skip-tls-verify`.
    pub allow_insecure: bool,
}

impl KubeconfigPolicy {
    /// For a file that the operator named, or a text of the program: everything is allowed.
    #[must_use]
    pub fn file() -> Self {
        Self {
            exec: ExecPolicy::Allow,
            files: true,
            allow_servers: AllowServers::any(),
            allow_insecure: true,
        }
    }

    /// For a text from an object of an API server, such as a Secret: no plugins, no files, the default [`AllowServers`], verified TLS.
    #[must_use]
    pub fn object() -> Self {
        Self {
            exec: ExecPolicy::Deny,
            files: false,
            allow_servers: AllowServers::default(),
            allow_insecure: false,
        }
    }

    /// Checks what a context asks for beside its server.
    ///
    /// # Errors
    /// [`ConfigError::Exec`], [`ConfigError::FileReference`] and [`ConfigError::Insecure`].
    pub(super) fn check(
        &self,
        context: &str,
        cluster: &KubeconfigCluster,
        user: &User,
        files: &Files,
    ) -> Result<(), ConfigError> {
        let context = || context.to_owned();
        let runs_plugin = user.exec.is_some() || user.auth_provider.is_some();
        if runs_plugin && self.exec == ExecPolicy::Deny {
            return Err(ConfigError::Exec(context()));
        }
        if let Some((field, _)) = files.first().filter(|_| !self.files) {
            let context = context();
            return Err(ConfigError::FileReference { context, field });
        }
        if cluster.insecure_skip_tls_verify == Some(true) && !self.allow_insecure {
            return Err(ConfigError::Insecure(context()));
        }
        Ok(())
    }

    /// Checks the server of a context, and its proxy.
    ///
    /// # Errors
    /// [`ConfigError::ServerNotAllowed`].
    pub(super) fn check_server(
        &self,
        context: &str,
        url: &Uri,
        proxy: Option<&Proxy>,
    ) -> Result<(), ConfigError> {
        let refused = |field| {
            move |refusal: ServerNotAllowed| ConfigError::ServerNotAllowed {
                context: context.to_owned(),
                field,
                refusal,
            }
        };
        // A URL without a host is no server's: the configuration refuses it.
        let Some(host) = url.host() else {
            return Ok(());
        };
        let servers = &self.allow_servers;
        let Some(proxy) = proxy else {
            return servers.check_host(host).map_err(refused("server"));
        };
        let checked = servers.check_behind_proxy(host);
        checked.map_err(refused("server"))?;
        let checked = servers.check_host(proxy.host());
        checked.map_err(refused("proxy-url"))
    }
}
