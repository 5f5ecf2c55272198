//! A kubeconfig as it is written. Entry point: [`Kubeconfig::parse`].
//!
//! The fields are those of client-go's `clientcmd/api/v1`; others are ignored, as there.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// One kubeconfig, or several that were merged.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Kubeconfig {
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) clusters: Vec<NamedCluster>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) users: Vec<NamedUser>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) contexts: Vec<NamedContext>,
    pub(super) current_context: Option<String>,
}

impl Kubeconfig {
    /// Reads YAML of one or more documents. The first definition of a name wins, as in kubectl's merge.
    pub(super) fn parse(yaml: &str) -> Result<Self, serde_saphyr::Error> {
        let mut merged = Self::default();
        for next in serde_saphyr::from_multiple::<Self>(yaml)? {
            append_new(&mut merged.clusters, next.clusters, |c| &c.name);
            append_new(&mut merged.users, next.users, |u| &u.name);
            append_new(&mut merged.contexts, next.contexts, |c| &c.name);
            merged.current_context = merged.current_context.or(next.current_context);
        }
        Ok(merged)
    }
}

fn append_new<T>(all: &mut Vec<T>, next: Vec<T>, name: impl Fn(&T) -> &String) {
    let known: HashSet<String> = all.iter().map(|item| name(item).clone()).collect();
    all.extend(next.into_iter().filter(|item| !known.contains(name(item))));
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    list: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(list)?.unwrap_or_default())
}

#[derive(Clone, Deserialize)]
pub(super) struct NamedCluster {
    pub(super) name: String,
    pub(super) cluster: Option<KubeconfigCluster>,
}

#[derive(Clone, Deserialize)]
pub(super) struct NamedUser {
    pub(super) name: String,
    pub(super) user: Option<User>,
}

#[derive(Clone, Deserialize)]
pub(super) struct NamedContext {
    pub(super) name: String,
    pub(super) context: Option<KubeconfigContext>,
}

#[derive(Clone, Deserialize)]
pub(super) struct KubeconfigContext {
    pub(super) cluster: String,
    pub(super) user: Option<String>,
    pub(super) namespace: Option<String>,
}

/// How to reach a server.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct KubeconfigCluster {
    pub(super) server: Option<String>,
    pub(super) insecure_skip_tls_verify: Option<bool>,
    pub(super) certificate_authority: Option<String>,
    /// PEM in base64. Wins over the file.
    pub(super) certificate_authority_data: Option<String>,
    pub(super) proxy_url: Option<String>,
    pub(super) disable_compression: Option<bool>,
    pub(super) tls_server_name: Option<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) extensions: Vec<Extension>,
}

#[derive(Clone, Deserialize)]
pub(super) struct Extension {
    pub(super) name: String,
    #[serde(default)]
    pub(super) extension: serde_json::Value,
}

/// A text that no `Debug` prints.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Credentials, or where they come from. Serialized only for a digest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct User {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) token: Option<Secret>,
    /// Wins over the token, as in client-go.
    #[serde(rename = "tokenFile")]
    pub(crate) token_file: Option<String>,
    pub(crate) client_certificate: Option<String>,
    /// PEM in base64. Wins over the file.
    pub(crate) client_certificate_data: Option<String>,
    pub(crate) client_key: Option<String>,
    /// PEM in base64. Wins over the file.
    pub(crate) client_key_data: Option<Secret>,
    #[serde(rename = "as")]
    pub(crate) impersonate: Option<String>,
    #[serde(rename = "as-uid")]
    pub(crate) impersonate_uid: Option<String>,
    #[serde(rename = "as-groups")]
    pub(crate) impersonate_groups: Option<Vec<String>>,
    #[serde(rename = "as-user-extra")]
    pub(crate) impersonate_extra: Option<BTreeMap<String, Vec<String>>>,
    /// Removed from Kubernetes in 1.26: known only to be refused.
    pub(crate) auth_provider: Option<serde_json::Value>,
    pub(crate) exec: Option<Exec>,
}

/// A credential plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Exec {
    pub(crate) api_version: Option<String>,
    pub(crate) command: Option<String>,
    pub(crate) args: Option<Vec<String>>,
    pub(crate) env: Option<Vec<Variable>>,
    pub(crate) install_hint: Option<String>,
    pub(crate) interactive_mode: Option<InteractiveMode>,
    pub(crate) provide_cluster_info: bool,
    /// What `provideClusterInfo` passes to the plugin: `ExecCredential.spec.cluster`. Not part of a kubeconfig, but of its
    /// digest: a change of it counts.
    #[serde(skip_deserializing)]
    pub(crate) cluster: Option<serde_json::Value>,
}

/// A variable of a plugin's environment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Whether a plugin needs a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum InteractiveMode {
    Never,
    IfAvailable,
    Always,
}
