//! Where a provider's hub is. Entry point: [`HubSource`].
//!
//! The hub may be configured by a file or a Secret that changes while it is read. Other credentials are then exchanged in place; another
//! server is another hub. What cannot be read or used leaves the hub as it was, and is reported.

use super::kubeconfig_files::LARGEST;
use super::{Problem, secret};
use crate::cluster::{ClusterConfig, ConfigError, KubeconfigPolicy};
use crate::engage::Engage;
use crate::file::{self, FileError};
use crate::hub::{Hub, HubError, HubWatch, WatchSelection};
use crate::request::ObjectKey;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A kubeconfig file is read this often, and what has failed is tried again.
const READ_EVERY: Duration = Duration::from_secs(5);

/// The cluster that a provider reads its clusters' objects from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HubSource {
    /// The manager's local cluster.
    #[default]
    Local,
    /// The cluster of a kubeconfig file, which is read again when it changes.
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The context; `None`: the current one.
        context: Option<String>,
        /// What the kubeconfig may do. Usually [`KubeconfigPolicy::file`].
        policy: KubeconfigPolicy,
    },
    /// The cluster of a kubeconfig in a Secret of the local cluster, which is read again when it changes.
    Secret {
        /// The Secret's namespace.
        namespace: String,
        /// The Secret's name.
        name: String,
        /// The key of the kubeconfig. Usually [`HubSource::SECRET_KEY`].
        key: String,
        /// The context; `None`: the current one.
        context: Option<String>,
        /// What the kubeconfig may do. Usually [`KubeconfigPolicy::object`].
        policy: KubeconfigPolicy,
    },
}

/// The hub, as it changes.
pub(crate) struct Hubs(BoxStream<'static, Result<Hub, Problem>>);

impl Hubs {
    /// Waits until there is a hub, another one, or a problem; a hub that was there before stays then. Several hubs in a row may be the
    /// same: see [`Hub::is`]. May be cancelled without loss.
    pub(crate) async fn next(&mut self) -> Result<Hub, Problem> {
        match self.0.next().await {
            Some(next) => next,
            // It never ends.
            None => std::future::pending().await,
        }
    }
}

/// Why a kubeconfig file names no hub.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("the hub's kubeconfig cannot be read: {0}")]
    File(#[from] FileError),
    #[error("the hub's kubeconfig is not UTF-8 text: save it as such")]
    NotText,
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl HubSource {
    /// The usual key of a kubeconfig in a Secret.
    pub const SECRET_KEY: &'static str = "kubeconfig";

    /// Looks for the hub, and follows it as it changes. `apart`: the hub has caches of its own even if it is the local cluster.
    pub(crate) fn open(&self, engage: Arc<dyn Engage>, apart: bool) -> Hubs {
        let search = Search {
            source: self.clone(),
            apart,
            engage,
            reported: None,
            current: None,
            secret: None,
        };
        Hubs(stream::unfold(search, |search| search.next()).boxed())
    }

    /// The source, for people.
    fn subject(&self) -> String {
        match self {
            Self::Local => "the local cluster".to_owned(),
            Self::Kubeconfig { path, .. } => path.display().to_string(),
            Self::Secret {
                namespace, name, ..
            } => format!("Secret {namespace}/{name}"),
        }
    }
}

/// The state of a search between two results.
struct Search {
    source: HubSource,
    apart: bool,
    engage: Arc<dyn Engage>,
    /// The last result that was reported.
    reported: Option<Result<Hub, Problem>>,
    /// The hub of a kubeconfig, with what it was made from.
    current: Option<(ClusterConfig, Hub)>,
    /// The watch of the Secret.
    secret: Option<HubWatch>,
}

impl Search {
    async fn next(mut self) -> Option<(Result<Hub, Problem>, Self)> {
        loop {
            if let Some(found) = self.look().await
                && !self.is_reported(&found)
            {
                self.reported = Some(found.clone());
                return Some((found, self));
            }
            self.wait().await;
        }
    }

    fn is_reported(&self, found: &Result<Hub, Problem>) -> bool {
        match (&self.reported, found) {
            (Some(Ok(before)), Ok(now)) => before.is(now),
            (Some(Err(before)), Err(now)) => before == now,
            _ => false,
        }
    }

    /// Waits until a look may find something else.
    async fn wait(&self) {
        let gone = async {
            match &self.reported {
                // A cluster that is being replaced is found again a moment later.
                Some(Ok(hub)) if !hub.is_gone() => hub.gone().await,
                _ => std::future::pending().await,
            }
        };
        let secret_changed = async {
            match &self.secret {
                Some(watch) => watch.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = gone => {}
            () = secret_changed => {}
            () = tokio::time::sleep(READ_EVERY) => {}
        }
    }

    /// Looks for the hub once. `None`: nothing is known yet.
    async fn look(&mut self) -> Option<Result<Hub, Problem>> {
        let found = match self.source.clone() {
            HubSource::Local => match self.hub(None)? {
                Ok(local) if self.apart => self.configured(local.config())?,
                local => local,
            },
            HubSource::Kubeconfig {
                path,
                context,
                policy,
            } => match read_file(path, context, policy).await {
                Ok(config) => self.configured(config)?,
                Err(reason) => Err(self.kept(&reason)),
            },
            HubSource::Secret {
                namespace,
                name,
                key,
                context,
                policy,
            } => {
                let object = ObjectKey::namespaced(&namespace, &name);
                match self.read_secret(&object, &key, context.as_deref(), &policy)? {
                    Ok(config) => self.configured(config)?,
                    Err(reason) => Err(reason),
                }
            }
        };
        Some(found.map_err(|message| Problem {
            subject: self.source.subject(),
            message,
        }))
    }

    /// A hub of the manager. `None`: the manager is stopping.
    fn hub(&self, config: Option<ClusterConfig>) -> Option<Result<Hub, String>> {
        match self.engage.hub(config) {
            Err(HubError::Stopping) => None,
            Ok(hub) if hub.is_gone() => None,
            found => Some(found.map_err(|error| error.to_string())),
        }
    }

    /// The hub of a configuration: the current one as long as it stays the same.
    fn configured(&mut self, config: ClusterConfig) -> Option<Result<Hub, String>> {
        if let Some((before, hub)) = &self.current
            && before.same(&config)
            && !hub.is_gone()
        {
            return Some(Ok(hub.clone()));
        }
        let found = self.hub(Some(config.clone()))?;
        if let Ok(hub) = &found {
            self.current = Some((config, hub.clone()));
        }
        Some(found)
    }

    fn kept(&self, reason: &impl ToString) -> String {
        match self.current {
            Some(_) => format!("{}; the hub stays as it was", reason.to_string()),
            None => reason.to_string(),
        }
    }

    /// Reads the kubeconfig of the Secret. `None`: the Secret has not been listed yet.
    fn read_secret(
        &mut self,
        object: &ObjectKey,
        key: &str,
        context: Option<&str>,
        policy: &KubeconfigPolicy,
    ) -> Option<Result<ClusterConfig, String>> {
        let local = match self.hub(None)? {
            Ok(local) => local,
            Err(reason) => return Some(Err(reason)),
        };
        let watch = match self.secret.take() {
            Some(watch) if watch.hub().is(&local) => watch,
            _ => watch_secret(&local, object),
        };
        let known = watch.knows(object);
        let (secret, problem) = (watch.get(object), watch.problem());
        self.secret = Some(watch);
        match (secret, problem) {
            (Some(secret), _) => {
                let config = secret::config(&secret, key, context, policy);
                Some(config.map_err(|reason| self.kept(&reason)))
            }
            (None, Some(problem)) => Some(Err(self.kept(&problem))),
            (None, None) if known => {
                let reason = "there is no such Secret: create it with the hub's kubeconfig";
                Some(Err(self.kept(&reason)))
            }
            (None, None) => None,
        }
    }
}

fn watch_secret(local: &Hub, object: &ObjectKey) -> HubWatch {
    let selection = WatchSelection {
        namespaces: object.namespace.iter().map(ToString::to_string).collect(),
        name: Some(object.name.to_string()),
        ..WatchSelection::default()
    };
    local.watch(secret::kind(), selection)
}

async fn read_file(
    path: PathBuf,
    context: Option<String>,
    policy: KubeconfigPolicy,
) -> Result<ClusterConfig, Unusable> {
    let read = move || config_of(&path, context.as_deref(), &policy);
    match tokio::task::spawn_blocking(read).await {
        Ok(config) => config,
        // The runtime is ending.
        Err(_) => std::future::pending().await,
    }
}

fn config_of(
    path: &Path,
    context: Option<&str>,
    policy: &KubeconfigPolicy,
) -> Result<ClusterConfig, Unusable> {
    let bytes = file::read(path, LARGEST)?;
    let text = String::from_utf8(bytes).map_err(|_| Unusable::NotText)?;
    let config = ClusterConfig::from_kubeconfig_text(&text, context, path.parent(), policy)?;
    Ok(config)
}
