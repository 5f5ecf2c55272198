//! From a context of a kubeconfig to a [`ClusterConfig`]. Entry points: [`Kubeconfig::context`] and [`Kubeconfig::contexts`].

use super::files::{authority, certificates, resolve_cluster, resolve_user};
use super::kubeconfig::{Entry, Kubeconfig, KubeconfigCluster, KubeconfigContext, User};
use super::{Access, ClusterConfig, ConfigError, KubeconfigPolicy};
use crate::http::proxy::Proxy;
use http::Uri;
use serde_json::json;

/// One context of a kubeconfig.
pub struct ContextConfig {
    /// The context's name.
    pub name: String,
    /// The name of its cluster; empty if the context has none.
    pub cluster: String,
    /// How its server is reached, or why the context cannot be used.
    pub config: Result<ClusterConfig, ConfigError>,
}

impl Kubeconfig {
    /// Reads one context, or the current one.
    ///
    /// # Errors
    /// [`ConfigError`]; also if the context asks for more than the policy allows.
    pub fn context(
        &self,
        name: Option<&str>,
        policy: &KubeconfigPolicy,
    ) -> Result<ClusterConfig, ConfigError> {
        let name = name.or(self.current_context.as_deref());
        let name = name.ok_or_else(|| self.absent("(current)"))?;
        let context = self.contexts.get(name).ok_or_else(|| self.absent(name))?;
        self.config(name, context, policy)
    }

    /// Every context on its own, by name. One that cannot be used does not affect the others.
    #[must_use]
    pub fn contexts(&self, policy: &KubeconfigPolicy) -> Vec<ContextConfig> {
        let read = |(name, context): (&String, &KubeconfigContext)| ContextConfig {
            name: name.clone(),
            cluster: context.cluster.clone(),
            config: self.config(name, context, policy),
        };
        self.contexts.iter().map(read).collect()
    }

    /// Whether it has any context.
    pub(crate) fn has_contexts(&self) -> bool {
        !self.contexts.is_empty()
    }

    /// Whether it has a context of this name.
    pub(crate) fn has_context(&self, name: &str) -> bool {
        self.contexts.contains_key(name)
    }

    fn absent(&self, context: &str) -> ConfigError {
        let names: Vec<&str> = self.contexts.keys().take(10).map(String::as_str).collect();
        let present = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        ConfigError::NoContext {
            context: context.to_owned(),
            present,
        }
    }

    fn config(
        &self,
        name: &str,
        context: &KubeconfigContext,
        policy: &KubeconfigPolicy,
    ) -> Result<ClusterConfig, ConfigError> {
        let unusable = |reason: String| ConfigError::Unusable {
            context: name.to_owned(),
            reason,
        };
        let mut files = Vec::new();
        let mut cluster = self.cluster(context).map_err(unusable)?;
        resolve_cluster(&mut cluster.value, cluster.folder.as_deref(), &mut files);
        let mut user = self.user(context).map_err(unusable)?;
        resolve_user(&mut user.value, user.folder.as_deref(), &mut files);
        let (cluster, mut user) = (cluster.value, user.value);
        policy.check(name, &cluster, &user, &files)?;
        let authority = authority(&cluster).map_err(unusable)?;
        if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
            exec.cluster = Some(cluster_info(&cluster, authority.as_deref()));
        }
        let server = cluster.server.as_deref().filter(|url| !url.is_empty());
        let server = server.ok_or_else(|| unusable("its cluster has no server".to_owned()))?;
        let url = url(server, is_for_tls(&cluster, &user))?;
        let proxy = proxy(name, cluster.proxy_url.as_deref())?;
        policy.check_server(name, &url, proxy.as_ref())?;
        let namespace = Some(context.namespace.clone()).filter(|name| !name.is_empty());
        let access = Access {
            namespace: namespace.unwrap_or_else(|| "default".to_owned()),
            authorities: match &authority {
                Some(pem) => Some(certificates(pem).map_err(unusable)?),
                None => None,
            },
            accept_invalid_certs: cluster.insecure_skip_tls_verify.unwrap_or(false),
            tls_server_name: cluster.tls_server_name.filter(|name| !name.is_empty()),
            proxy,
            allow_servers: policy.allow_servers.clone(),
            user,
            ..Access::of_url(url)
        };
        ClusterConfig::new(access, files.into_iter().map(|(_, path)| path).collect())
    }

    fn cluster(&self, context: &KubeconfigContext) -> Result<Entry<KubeconfigCluster>, String> {
        let name = context.cluster.as_str();
        match self.clusters.get(name) {
            Some(cluster) => Ok(cluster.clone()),
            None if name.is_empty() => Err("it names no cluster: add one".to_owned()),
            None => Err(format!("cluster {name:?} is not defined: add it")),
        }
    }

    /// The user; one without credentials if the context names none, as in client-go.
    fn user(&self, context: &KubeconfigContext) -> Result<Entry<User>, String> {
        let name = context.user.as_str();
        match self.users.get(name) {
            Some(user) => Ok(user.clone()),
            None if name.is_empty() => Ok(Entry::new(User::default(), &None)),
            None => Err(format!("user {name:?} is not defined: add it")),
        }
    }
}

/// The URL of a server. A host and a port get the scheme that client-go gives them.
fn url(server: &str, is_for_tls: bool) -> Result<Uri, ConfigError> {
    let scheme = if is_for_tls { "https" } else { "http" };
    let parsed = if server.contains("://") || server.contains('/') {
        server.parse()
    } else {
        format!("{scheme}://{server}").parse()
    };
    parsed.map_err(|_| ConfigError::Url(server.to_owned()))
}

/// Whether cluster or user name what only TLS needs.
fn is_for_tls(cluster: &KubeconfigCluster, user: &User) -> bool {
    let files = [&cluster.certificate_authority, &user.client_certificate];
    let data = [
        &cluster.certificate_authority_data,
        &user.client_certificate_data,
    ];
    let mut named = files.into_iter().chain(data).flatten();
    named.any(|text| !text.is_empty()) || cluster.insecure_skip_tls_verify == Some(true)
}

/// What client-go passes to a plugin that asks for its cluster: `Cluster` of `client.authentication.k8s.io`.
fn cluster_info(cluster: &KubeconfigCluster, authority: Option<&[u8]>) -> serde_json::Value {
    use base64::Engine as _;
    let authority = authority.map(|pem| base64::engine::general_purpose::STANDARD.encode(pem));
    let extension = cluster.extensions.iter();
    let mut extension = extension.filter(|e| e.name == "client.authentication.k8s.io/exec");
    let mut info = json!({
        "server": cluster.server, "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority, "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression, "tls-server-name": cluster.tls_server_name,
        "config": extension.next().map(|e| e.extension.clone()),
    });
    if let Some(fields) = info.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    info
}

/// The proxy of a context, if it names one.
fn proxy(context: &str, url: Option<&str>) -> Result<Option<Proxy>, ConfigError> {
    let named = url.filter(|url| !url.is_empty()).map(Proxy::parse);
    named.transpose().map_err(|reason| ConfigError::Proxy {
        context: context.to_owned(),
        reason,
    })
}
