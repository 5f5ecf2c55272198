//! A kubeconfig as it is written. Entry point: [`Kubeconfig::parse`].
//!
//! The fields are those of client-go's `clientcmd/api/v1`; others are ignored, as there.

use super::ConfigError;
use serde::{Deserialize, Deserializer, Serialize};
use serde_saphyr::DuplicateKeyPolicy;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// One kubeconfig, or several that were merged. Prints nothing of its contents.
///
/// ```
/// use windlass_fleet::cluster::{Kubeconfig, KubeconfigPolicy};
///
/// let mut all = Kubeconfig::parse("contexts: [{name: a, context: {cluster: c}}]\ncurrent-context: a", None)?;
/// all.merge(Kubeconfig::parse("clusters: [{name: c, cluster: {server: 'https://one'}}]", None)?);
/// assert_eq!(all.context(None, &KubeconfigPolicy::file())?.server(), "https://one/");
/// # Ok::<(), windlass_fleet::cluster::ConfigError>(())
/// ```
#[derive(Clone, Default)]
pub struct Kubeconfig {
    pub(super) clusters: BTreeMap<String, Entry<KubeconfigCluster>>,
    pub(super) users: BTreeMap<String, Entry<User>>,
    pub(super) contexts: BTreeMap<String, KubeconfigContext>,
    pub(super) current_context: Option<String>,
}

/// A cluster or a user, and the folder of its file, from which its relative paths start.
#[derive(Clone)]
pub(super) struct Entry<T> {
    pub(super) value: T,
    pub(super) folder: Option<Arc<Path>>,
}

impl Kubeconfig {
    /// Reads the first document of a YAML text, as kubectl does. Relative paths in it start from `folder`.
    ///
    /// # Errors
    /// [`ConfigError::Parse`].
    pub fn parse(yaml: &str, folder: Option<&Path>) -> Result<Self, ConfigError> {
        let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
        let mut bytes = yaml.as_bytes();
        let mut documents = serde_saphyr::read_with_options::<_, Document>(&mut bytes, options);
        let document = match documents.next() {
            Some(document) => {
                document.map_err(|error| ConfigError::Parse(super::first_line(&error)))?
            }
            None => Document::default(),
        };
        document.check()?;
        let folder: Option<Arc<Path>> = folder.map(Arc::from);
        let clusters = document.clusters.into_iter();
        let users = document.users.into_iter();
        let contexts = document.contexts.into_iter();
        Ok(Self {
            clusters: by_name(
                "clusters",
                clusters.map(|named| (named.name, Entry::new(named.cluster, &folder))),
            )?,
            users: by_name(
                "users",
                users.map(|named| (named.name, Entry::new(named.user, &folder))),
            )?,
            contexts: by_name(
                "contexts",
                contexts.map(|named| (named.name, named.context)),
            )?,
            current_context: document.current_context.filter(|name| !name.is_empty()),
        })
    }

    /// Adds the kubeconfig of the next file in a list, as kubectl does: of each name, and of the current context, the first one counts.
    pub fn merge(&mut self, next: Self) {
        add_new(&mut self.clusters, next.clusters);
        add_new(&mut self.users, next.users);
        add_new(&mut self.contexts, next.contexts);
        self.current_context = self.current_context.take().or(next.current_context);
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig").finish_non_exhaustive()
    }
}

impl<T> Entry<T> {
    pub(super) fn new(value: T, folder: &Option<Arc<Path>>) -> Self {
        let folder = folder.clone();
        Self { value, folder }
    }
}

fn by_name<T>(
    list: &str,
    entries: impl Iterator<Item = (String, T)>,
) -> Result<BTreeMap<String, T>, ConfigError> {
    let mut all = BTreeMap::new();
    for (name, entry) in entries {
        if all.contains_key(&name) {
            let reason = format!("{list} has {name:?} twice: rename one");
            return Err(ConfigError::Parse(reason));
        }
        all.insert(name, entry);
    }
    Ok(all)
}

fn add_new<T>(all: &mut BTreeMap<String, T>, next: BTreeMap<String, T>) {
    for (name, entry) in next {
        all.entry(name).or_insert(entry);
    }
}

fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    value: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

/// Base64 without the line ends that `base64` prints, which client-go ignores; `None` if it is empty.
fn unwrapped<'de, D: Deserializer<'de>, T: From<String>>(data: D) -> Result<Option<T>, D::Error> {
    let data = Option::<String>::deserialize(data)?.unwrap_or_default();
    let data = data.replace(['\r', '\n'], "");
    Ok(Some(data).filter(|data| !data.is_empty()).map(T::from))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Document {
    #[serde(rename = "apiVersion", deserialize_with = "null_is_default")]
    api_version: String,
    #[serde(deserialize_with = "null_is_default")]
    kind: String,
    #[serde(deserialize_with = "null_is_default")]
    clusters: Vec<NamedCluster>,
    #[serde(deserialize_with = "null_is_default")]
    users: Vec<NamedUser>,
    #[serde(deserialize_with = "null_is_default")]
    contexts: Vec<NamedContext>,
    current_context: Option<String>,
}

impl Document {
    fn check(&self) -> Result<(), ConfigError> {
        let is_own = matches!(self.api_version.as_str(), "" | "v1")
            && matches!(self.kind.as_str(), "" | "Config");
        if is_own {
            return Ok(());
        }
        let reason = "its apiVersion and kind are not v1 and Config";
        Err(ConfigError::Parse(reason.to_owned()))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    #[serde(deserialize_with = "null_is_default")]
    cluster: KubeconfigCluster,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    #[serde(deserialize_with = "null_is_default")]
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    #[serde(deserialize_with = "null_is_default")]
    context: KubeconfigContext,
}

/// Empty texts mean that there is none.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct KubeconfigContext {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) cluster: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) user: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) namespace: String,
}

/// How to reach a server.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct KubeconfigCluster {
    pub(super) server: Option<String>,
    pub(super) insecure_skip_tls_verify: Option<bool>,
    pub(super) certificate_authority: Option<String>,
    /// PEM in base64. Wins over the file.
    #[serde(deserialize_with = "unwrapped")]
    pub(super) certificate_authority_data: Option<String>,
    pub(super) proxy_url: Option<String>,
    pub(super) disable_compression: Option<bool>,
    pub(super) tls_server_name: Option<String>,
    #[serde(deserialize_with = "null_is_default")]
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

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

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
    #[serde(deserialize_with = "unwrapped")]
    pub(crate) client_certificate_data: Option<String>,
    pub(crate) client_key: Option<String>,
    /// PEM in base64. Wins over the file.
    #[serde(deserialize_with = "unwrapped")]
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

impl User {
    /// Whether requests carry nothing that tells a server whose they are.
    pub(crate) fn is_anonymous(&self) -> bool {
        let has = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let has_secret = |secret: &Option<Secret>| secret.as_ref().is_some_and(|s| !s.0.is_empty());
        let named = has(&self.token_file)
            || has(&self.username)
            || has(&self.client_certificate)
            || has(&self.client_certificate_data);
        !(named || has_secret(&self.token) || self.exec.is_some() || self.auth_provider.is_some())
    }
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
