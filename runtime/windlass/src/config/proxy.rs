//! The proxies that the environment of this process names. Entry point: [`from_environment`].

use anyhow::{Context as _, Result};
use windlass_fleet::cluster::ProxyFromEnvironment;

/// The proxies of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, for servers whose kubeconfig names no proxy.
///
/// # Errors
/// When a variable names no proxy.
pub(crate) fn from_environment() -> Result<ProxyFromEnvironment> {
    ProxyFromEnvironment::read(|name| std::env::var(name).ok())
        .context("the proxy for connections to clusters is not known")
}
