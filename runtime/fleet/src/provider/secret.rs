//! A kubeconfig in a Secret. Entry point: [`config`].

use crate::cluster::{ClusterConfig, ConfigError, KubeconfigPolicy};
use crate::hub::{HubObject, ShapeError};
use crate::kind::GroupVersionKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Why the kubeconfig of a Secret cannot be used. Never quotes the Secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("the Secret cannot be read: {0}")]
    Shape(#[from] ShapeError),
    #[error("the Secret has no key {0:?}: put the kubeconfig there, or configure another key")]
    NoKey(String),
    #[error("key {0:?} of the Secret is empty: put the kubeconfig there")]
    Empty(String),
    #[error("key {0:?} of the Secret is not UTF-8 text: put a kubeconfig there")]
    NotText(String),
    #[error("key {key:?} of the Secret: {source}")]
    Config {
        key: String,
        #[source]
        source: ConfigError,
    },
}

#[derive(Deserialize)]
struct Secret {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// `v1/Secret`.
pub(crate) fn kind() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Secret")
}

/// Reads one context (`None`: the current one) of the kubeconfig at a key of a Secret.
///
/// # Errors
/// [`SecretError`].
pub(crate) fn config(
    secret: &HubObject,
    key: &str,
    context: Option<&str>,
    policy: &KubeconfigPolicy,
) -> Result<ClusterConfig, SecretError> {
    let text = text(secret, key)?;
    ClusterConfig::from_kubeconfig_text(&text, context, None, policy).map_err(|source| {
        let key = key.to_owned();
        SecretError::Config { key, source }
    })
}

fn text(secret: &HubObject, key: &str) -> Result<String, SecretError> {
    let Secret { data } = secret.parse()?;
    let named = || key.to_owned();
    let value = data.and_then(|mut data| data.remove(key));
    let value = value.ok_or_else(|| SecretError::NoKey(named()))?;
    let bytes = STANDARD
        .decode(value)
        .map_err(|_| SecretError::NotText(named()))?;
    let text = String::from_utf8(bytes).map_err(|_| SecretError::NotText(named()))?;
    if text.trim().is_empty() {
        return Err(SecretError::Empty(named()));
    }
    Ok(text)
}
