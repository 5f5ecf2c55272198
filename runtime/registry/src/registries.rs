//! The registries of a process: logins, and what is kept on disk. Entry points: [`Registries::new`] and [`Registries::push`].

use crate::credentials::{CredentialsError, DockerConfig, Login, MAX_CONFIG};
use crate::digest::ImageDigest;
use crate::error::RegistryError;
use crate::manifest::Manifest;
use crate::reference::Reference;
use crate::session::Session;
use crate::signature::TrustedRoot;
use crate::store::Store;
use crate::transport::{Http, HttpOptions};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::OnceCell;
use windlass_fleet::api::{GetOptions, ReadMode};
use windlass_fleet::cluster::ProxyFromEnvironment;
use windlass_fleet::file;
use windlass_fleet::manager::ManagerHandle;
use windlass_fleet::{ClusterName, Grant, GroupVersionKind, ObjectKey};

/// Largest trusted root, in bytes.
const MAX_TRUSTED_ROOT: u64 = 1 << 20;
/// Largest file of authorities, in bytes.
const MAX_AUTHORITIES: u64 = 8 << 20;
/// A type of pull secrets, its key, and how its content is read.
type SecretType = (
    &'static str,
    &'static str,
    fn(&[u8], &str) -> Result<DockerConfig, CredentialsError>,
);
/// The types that a kubelet takes too.
const SECRET_TYPES: [SecretType; 2] = [
    (
        "kubernetes.io/dockerconfigjson",
        ".dockerconfigjson",
        DockerConfig::read,
    ),
    (
        "kubernetes.io/dockercfg",
        ".dockercfg",
        DockerConfig::read_old,
    ),
];

/// How registries are reached, and what is kept.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// A file of authorities (PEM) besides those of the system.
    pub authorities: Option<PathBuf>,
    /// Sigstore's `trusted_root.json`, for keyless signatures; none: they do not count.
    pub trusted_root: Option<PathBuf>,
    /// Hosts, with their ports, that may speak plain HTTP.
    pub plain_http: Vec<String>,
    /// The proxies of the environment.
    pub proxy: ProxyFromEnvironment,
    /// docker's configuration, which must be there.
    pub docker_config: Option<PathBuf>,
    /// docker's configuration, which need not be there.
    pub usual_docker_config: Option<PathBuf>,
    /// The folder of pulled images; none: one that ends with the process.
    pub folder: Option<PathBuf>,
    /// Where a folder that ends with the process is made.
    pub temporary: PathBuf,
    /// Bytes of pulled images that are kept.
    pub kept_bytes: u64,
    /// Largest component, in bytes.
    pub largest: u64,
    /// Time for the whole of a look-up, the pull included.
    pub timeout: Duration,
}

/// A Secret with the login for a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullSecret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// All registries. Cheap to clone.
#[derive(Clone)]
pub struct Registries {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) options: RegistryOptions,
    /// Opened when the first image is asked for: most processes need none.
    opened: OnceCell<Opened>,
    /// The manager whose local cluster has the pull secrets.
    manager: OnceLock<ManagerHandle>,
}

pub(crate) struct Opened {
    pub(crate) http: Http,
    pub(crate) trusted_root: Option<TrustedRoot>,
    pub(crate) store: Store,
    /// The folder of `store`, if it ends with the process.
    _temporary: Option<TempDir>,
}

impl Registries {
    /// Opens nothing yet.
    #[must_use]
    pub fn new(options: RegistryOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                options,
                opened: OnceCell::new(),
                manager: OnceLock::new(),
            }),
        }
    }

    /// Reads pull secrets in the local cluster of this manager from now on.
    pub fn read_secrets_of(&self, manager: ManagerHandle) {
        // The first one stays: there is one manager for each registry.
        let _ = self.inner.manager.set(manager);
    }

    /// Pushes a component under a tag, and returns the digest of its manifest.
    ///
    /// # Errors
    /// [`RegistryError`]
    pub async fn push(
        &self,
        image: &Reference,
        tag: &str,
        component: Vec<u8>,
        imports: &[String],
        exports: &[String],
    ) -> Result<ImageDigest, RegistryError> {
        let opened = self.opened().await?;
        let login = self.login(image, None).await?;
        let (config, manifest) = Manifest::of_component(&component, imports, exports);
        let digest = ImageDigest::of(&manifest);
        let session = Session::new(&opened.http, image, login, "pull,push");
        session.push(vec![component, config], manifest, tag).await?;
        Ok(digest)
    }

    pub(crate) async fn opened(&self) -> Result<&Opened, RegistryError> {
        let options = self.inner.options.clone();
        let open = || async {
            let opened = tokio::task::spawn_blocking(move || Opened::new(options)).await;
            opened.unwrap_or_else(|error| {
                let (path, reason) = (PathBuf::new(), error.to_string());
                Err(RegistryError::Store { path, reason })
            })
        };
        self.inner.opened.get_or_try_init(open).await
    }

    /// The login for an image: that of its pull secret, or that of this process's user.
    pub(crate) async fn login(
        &self,
        image: &Reference,
        secret: Option<&PullSecret>,
    ) -> Result<Option<Login>, RegistryError> {
        let (host, name) = (image.host(), image.name());
        if let Some(secret) = secret {
            let config = self.secret(secret).await?;
            return match config.login(host, name).await? {
                Some(login) => Ok(Some(login)),
                None => Err(RegistryError::NoLogin {
                    secret: format!("{}/{}", secret.namespace, secret.name),
                    host: host.to_owned(),
                }),
            };
        }
        let options = &self.inner.options;
        let (path, must_exist) = match (&options.docker_config, &options.usual_docker_config) {
            (Some(path), _) => (path, true),
            (None, Some(path)) => (path, false),
            (None, None) => return Ok(None),
        };
        let shown = path.display().to_string();
        let bytes = match file::read(path, MAX_CONFIG) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() && !must_exist => return Ok(None),
            Err(error) => {
                return Err(RegistryError::DockerConfig {
                    path: path.clone(),
                    reason: error.to_string(),
                });
            }
        };
        Ok(DockerConfig::read(&bytes, &shown)?
            .login(host, name)
            .await?)
    }

    /// The content of a pull secret.
    async fn secret(&self, secret: &PullSecret) -> Result<DockerConfig, RegistryError> {
        use base64::Engine as _;
        let shown = format!("{}/{}", secret.namespace, secret.name);
        let unread = |reason: String| RegistryError::Secret {
            secret: shown.clone(),
            reason,
        };
        let manager = self.inner.manager.get();
        let local = manager.and_then(|manager| manager.fleet().cluster(&ClusterName::local()));
        let local = local.ok_or_else(|| unread("the local cluster is not engaged".to_owned()))?;
        let key = ObjectKey::namespaced(&secret.namespace, &secret.name);
        let options = GetOptions {
            mode: ReadMode::Live,
            ..GetOptions::default()
        };
        let (client, kind) = (
            local.client(Grant::all()),
            GroupVersionKind::new("", "v1", "Secret"),
        );
        let read = client.get(&kind, &key, &options).await;
        let read = read.map_err(|error| unread(error.to_string()))?;
        let foreign = |reason: &str| RegistryError::SecretContent {
            secret: shown.clone(),
            reason: reason.to_owned(),
        };
        let object = read.ok_or_else(|| foreign("there is none: create it"))?;
        let object: serde_json::Value =
            serde_json::from_slice(&object).map_err(|_| foreign("it is no object"))?;
        let known = SECRET_TYPES
            .iter()
            .find(|(name, ..)| object["type"] == *name);
        let (_, key, read) = known.ok_or_else(|| {
            foreign(
                "its type is not kubernetes.io/dockerconfigjson, and not kubernetes.io/dockercfg",
            )
        })?;
        let data = object["data"][key].as_str().unwrap_or_default();
        let bytes = base64::engine::general_purpose::STANDARD.decode(data);
        let bytes = bytes.map_err(|_| foreign(&format!("its {key} is not base64")))?;
        Ok(read(&bytes, &shown)?.without_helpers())
    }
}

impl Opened {
    fn new(options: RegistryOptions) -> Result<Self, RegistryError> {
        let authorities = options
            .authorities
            .as_deref()
            .map_or(Ok(Vec::new()), read_authorities)?;
        let trusted_root = options
            .trusted_root
            .as_deref()
            .map(read_trusted_root)
            .transpose()?;
        let http = Http::new(HttpOptions {
            authorities,
            plain: options.plain_http,
            proxy: options.proxy,
        });
        let kept = options
            .folder
            .map(|folder| Store::open(folder, options.kept_bytes));
        let (store, temporary) = match kept {
            Some(Ok(store)) => (store, None),
            kept => {
                if let Some(Err(problem)) = kept {
                    tracing::warn!(%problem, "every start pulls all images: what was pulled cannot be kept");
                }
                let folder = tempfile::Builder::new()
                    .prefix("windlass-pulled-")
                    .tempdir_in(&options.temporary);
                let folder = folder.map_err(|error| RegistryError::Store {
                    path: options.temporary,
                    reason: error.to_string(),
                })?;
                let store = Store::open(folder.path().to_owned(), options.kept_bytes)?;
                (store, Some(folder))
            }
        };
        Ok(Self {
            http,
            trusted_root,
            store,
            _temporary: temporary,
        })
    }
}

/// Whom keyless signatures are trusted by.
fn read_trusted_root(path: &Path) -> Result<TrustedRoot, RegistryError> {
    let unusable = |reason: String| RegistryError::TrustedRoot {
        path: path.to_owned(),
        reason,
    };
    let bytes = file::read(path, MAX_TRUSTED_ROOT);
    let bytes = bytes.map_err(|error| unusable(error.to_string()))?;
    TrustedRoot::parse(&bytes).map_err(|error| unusable(error.to_string()))
}

/// The certificates of a file.
fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, RegistryError> {
    let unusable = |reason: String| RegistryError::Authority {
        path: path.to_owned(),
        reason,
    };
    let bytes = file::read(path, MAX_AUTHORITIES);
    let bytes = bytes.map_err(|error| unusable(format!("authorities cannot be read: {error}")))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(unusable("it holds no certificate in PEM".to_owned())),
    }
}
