//! Why a kubeconfig cannot be used. Entry point: [`ConfigError`].

use super::allow_servers::ServerNotAllowed;
use crate::file::FileError;
use crate::http::proxy::ProxyUrlError;
use std::path::PathBuf;

/// Why a kubeconfig cannot be used. No message quotes the kubeconfig's contents.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is not a kubeconfig.
    #[error("not a kubeconfig: {0}")]
    Parse(String),
    /// The kubeconfig has no such context.
    #[error("context {context:?} is not in the kubeconfig: it has {present}")]
    NoContext {
        /// The context.
        context: String,
        /// The contexts that it has.
        present: String,
    },
    /// The policy allows no credential plugin.
    #[error(
        "the user of context {0:?} runs a credential plugin, which kubeconfigs of this source may not: use a token or a client certificate, or allow exec where its authors are trusted as with a shell of this process"
    )]
    Exec(String),
    /// The policy allows no file reference.
    #[error(
        "context {context:?} refers to a file in {field}, which kubeconfigs of this source may not: inline the data"
    )]
    FileReference {
        /// The context.
        context: String,
        /// The kubeconfig field.
        field: &'static str,
    },
    /// The policy allows no TLS without verification.
    #[error(
        "context {0:?} sets insecure-skip-tls-verify, which kubeconfigs of this source may not: give certificate-authority-data, or set allowInsecure"
    )]
    Insecure(String),
    /// The policy does not allow the server or its proxy.
    #[error("context {context:?} names a {field} that it may not: {refusal}")]
    ServerNotAllowed {
        /// The context.
        context: String,
        /// The kubeconfig field.
        field: &'static str,
        /// The server or the proxy, and the remedy.
        refusal: ServerNotAllowed,
    },
    /// An endpoint is at another host than the kubeconfig's server, which would get its credentials.
    #[error(
        "the endpoint is at {host}, and the kubeconfig's server at {own}: set allowServers if its credentials may go there"
    )]
    OtherHost {
        /// The endpoint's host.
        host: String,
        /// The kubeconfig's.
        own: String,
    },
    /// An endpoint is at a host that may not be used.
    #[error("the endpoint may not be used: {refusal}")]
    EndpointNotAllowed {
        /// The host, and the remedy.
        refusal: ServerNotAllowed,
    },
    /// The proxy cannot be used.
    #[error("the proxy-url of context {context:?} cannot be used: {reason}")]
    Proxy {
        /// The context.
        context: String,
        /// The reason, without the URL.
        reason: ProxyUrlError,
    },
    /// A field of the context cannot be used.
    #[error("context {context:?} cannot be used: {reason}")]
    Unusable {
        /// The context.
        context: String,
        /// The reason, without secrets.
        reason: String,
    },
    /// A referenced file could not be read because the process is out of descriptors, so it may have changed.
    #[error("{path:?}, which it refers to, cannot be read: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: FileError,
    },
    /// The URL of the server is not valid.
    #[error("server url {0:?} is not valid: write http(s)://host:port[/path]")]
    Url(String),
    /// This process does not run in a cluster, or its service account is not mounted.
    #[error("in-cluster configuration is not available: {0}")]
    InCluster(String),
}
