//! Loads credentials: TLS, headers, and when they expire. Entry point: [`load`].
//!
//! Reads the files that the configuration names and runs its credential plugin. A load costs a process (with a plugin) or a few file reads
//! on a blocking thread; [`AuthenticatedClient`](super::client::AuthenticatedClient) decides when to load again.
//!
//! Invariant: no error holds a secret.

use super::exec_plugin::{self, Issued, PluginError};
use super::proxy::{Origin, ServerProxy};
use super::tls::{self, ClientCertificate, Trust};
use crate::file::{self, FileError, is_exhausted};
use crate::http::config::{Access, MAX_REFERENCED, Secret, User, certificates};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::{CertificateResult, ErrorKind, load_native_certs};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;

/// A token file is read again after this time, as in client-go.
const TOKEN_FILE_LIFE: Duration = Duration::from_secs(60);

/// Credentials of one user.
pub(super) struct Credentials {
    /// Authorization and impersonation. Secret values are marked sensitive.
    pub(super) headers: HeaderMap,
    /// Digest of the client certificate and its key. Connections made with another certificate must not be used.
    pub(super) client_certificate: [u8; 32],
    /// When to load them again.
    pub(super) renew_at: Option<SystemTime>,
    /// When they expire, if that is known.
    pub(super) valid_until: Option<SystemTime>,
}

/// TLS to a server, and to its proxy.
pub(super) struct Tls {
    pub(super) server: ClientConfig,
    pub(super) proxy: Option<(ServerProxy, ClientConfig)>,
}

/// Why credentials, or TLS with them, cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialsError {
    #[error("this process is out of file descriptors")]
    NoDescriptors,
    #[error("auth-provider is not supported, as in Kubernetes: use exec")]
    AuthProvider,
    #[error("the proxy's URL is not valid")]
    Proxy,
    #[error("the server's URL is not valid")]
    Url,
    #[error("tls-server-name is not a valid name")]
    TlsServerName,
    #[error(transparent)]
    Plugin(#[from] PluginError),
    #[error("{field} {path:?} cannot be read: {error}")]
    File {
        field: &'static str,
        path: String,
        error: FileError,
    },
    #[error("token file {0:?} holds no text")]
    TokenFile(String),
    #[error("the token has bytes that a header cannot hold")]
    Token,
    #[error("{0} has bytes that a header cannot hold")]
    Impersonation(String),
    #[error("one of client certificate and client key is given without the other")]
    HalfACertificate,
    #[error(
        "the kubeconfig names no certificate-authority, and the system has none to trust: set certificate-authority, or install the system's certificates (ca-certificates)"
    )]
    NoAuthorities,
    /// A certificate or a key cannot be used.
    #[error("{0}")]
    Tls(String),
    #[error("they could not be loaded: this process is ending")]
    Ending,
}

/// Whether loading again may give other credentials, because they come from a plugin or from files.
pub(super) fn is_renewable(user: &User) -> bool {
    user.exec.is_some() || user.token_file.is_some() || user.client_certificate.is_some()
}

/// Reads the files and runs the credential plugin, if the configuration names any.
pub(super) async fn load(
    access: &Access,
    proxy: Option<&ServerProxy>,
    plugin_deadline: Duration,
    plugins: &Semaphore,
) -> Result<(Credentials, Tls), CredentialsError> {
    let (mut access, proxy) = (access.clone(), proxy.cloned());
    if access.user.auth_provider.is_some() {
        return Err(CredentialsError::AuthProvider);
    }
    let (mut renew_at, mut valid_until) = (None, None);
    if let Some(plugin) = access.user.exec.take() {
        let issued = exec_plugin::run(&plugin, plugin_deadline, plugins).await?;
        valid_until = issued.valid_until();
        renew_at = valid_until.map(|end| renewal(end, SystemTime::now()));
        apply(issued, &mut access.user);
    }
    let mut headers = impersonation(&access.user)?;
    if let Some((value, from_file)) = authorization(&access.user).await? {
        headers.insert(AUTHORIZATION, value);
        if from_file {
            renew_at = Some(SystemTime::now() + TOKEN_FILE_LIFE);
        }
    }
    let has_files = reads_files(&access, proxy.as_ref());
    let with_files = move || {
        inline_certificate(&mut access.user)?;
        let client_certificate = digest_certificate(&access.user);
        let tls = Tls {
            server: tls_config(&access)?,
            proxy: match proxy {
                Some(proxy) => Some((proxy.clone(), tls_to_proxy(&access, &proxy)?)),
                None => None,
            },
        };
        Ok::<_, CredentialsError>((tls, client_certificate))
    };
    let (tls, client_certificate) = if has_files {
        let joined = tokio::task::spawn_blocking(with_files).await;
        joined.map_err(|_| CredentialsError::Ending)??
    } else {
        with_files()?
    };
    let credentials = Credentials {
        headers,
        client_certificate,
        renew_at,
        valid_until,
    };
    Ok((credentials, tls))
}

/// When to renew credentials that expire at `end`: 10 s before, or a fifth of their remaining life before if that is shorter. So
/// short-lived credentials are not renewed all the time.
fn renewal(end: SystemTime, now: SystemTime) -> SystemTime {
    let left = end.duration_since(now).unwrap_or_default();
    end - (left / 5).min(Duration::from_secs(10))
}

/// Replaces the plugin by the credentials that it gave.
fn apply(issued: Issued, user: &mut User) {
    if let Some(token) = issued.token {
        user.token = Some(Secret(token));
        user.token_file = None;
    }
    if let (Some(certificate), Some(key)) = (issued.client_certificate_data, issued.client_key_data)
    {
        user.client_certificate_data = Some(STANDARD.encode(certificate));
        user.client_key_data = Some(Secret(STANDARD.encode(key)));
        (user.client_certificate, user.client_key) = (None, None);
    }
}

/// The Authorization header, and whether it comes from a file. A token file wins over a token, as in client-go.
async fn authorization(user: &User) -> Result<Option<(HeaderValue, bool)>, CredentialsError> {
    if let Some(path) = user.token_file.as_ref().filter(|path| !path.is_empty()) {
        let text = read_token(path.clone()).await?;
        return Ok(Some((sensitive(format!("Bearer {}", text.trim()))?, true)));
    }
    let given = |secret: &Option<Secret>| {
        let text = secret.as_ref().map(|secret| secret.0.clone());
        text.filter(|text| !text.is_empty())
    };
    if let Some(token) = given(&user.token) {
        return Ok(Some((sensitive(format!("Bearer {token}"))?, false)));
    }
    let name = user.username.as_ref().filter(|name| !name.is_empty());
    if let (Some(name), Some(password)) = (name, given(&user.password)) {
        let pair = STANDARD.encode(format!("{name}:{password}"));
        return Ok(Some((sensitive(format!("Basic {pair}"))?, false)));
    }
    Ok(None)
}

/// Whether TLS needs files: those of a client certificate, of an authority, or of the system's.
fn reads_files(access: &Access, proxy: Option<&ServerProxy>) -> bool {
    let user = &access.user;
    access.url.scheme_str() != Some("http")
        || proxy.is_some()
        || user.client_certificate.is_some()
        || user.client_key.is_some()
}

async fn read_token(path: String) -> Result<String, CredentialsError> {
    let read = tokio::task::spawn_blocking(move || {
        let bytes = read_file("token file", Path::new(&path))?;
        String::from_utf8(bytes).map_err(|_| CredentialsError::TokenFile(path))
    });
    read.await.map_err(|_| CredentialsError::Ending)?
}

fn read_file(field: &'static str, path: &Path) -> Result<Vec<u8>, CredentialsError> {
    file::read(path, MAX_REFERENCED).map_err(|error| match error {
        FileError::NoDescriptors => CredentialsError::NoDescriptors,
        error => CredentialsError::File {
            field,
            path: path.display().to_string(),
            error,
        },
    })
}

/// Replaces the files of a client certificate and its key by their contents.
fn inline_certificate(user: &mut User) -> Result<(), CredentialsError> {
    let read = |field, path: Option<String>| match path.filter(|path| !path.is_empty()) {
        Some(path) => read_file(field, Path::new(&path)).map(|bytes| Some(STANDARD.encode(bytes))),
        None => Ok(None),
    };
    let certificate = user.client_certificate.take();
    if user.client_certificate_data.is_none() {
        user.client_certificate_data = read("client-certificate", certificate)?;
    }
    let key = user.client_key.take();
    if user.client_key_data.is_none() {
        user.client_key_data = read("client-key", key)?.map(Secret);
    }
    Ok(())
}

/// TLS for a user whose files have been read.
fn tls_config(access: &Access) -> Result<ClientConfig, CredentialsError> {
    let trusted = authorities(access)?;
    let trust = if access.accept_invalid_certs {
        Trust::Anyone
    } else {
        Trust::Authorities(&trusted)
    };
    let user = &access.user;
    let client = match (&user.client_certificate_data, &user.client_key_data) {
        (Some(chain), Some(Secret(key))) => Some(ClientCertificate { chain, key }),
        (None, None) => None,
        _ => return Err(CredentialsError::HalfACertificate),
    };
    tls::client_config(&trust, client.as_ref()).map_err(CredentialsError::Tls)
}

/// TLS to a proxy, without the client certificate, which is for the server. A kubeconfig's proxy is trusted as kubectl does, by the
/// kubeconfig's authorities, and by the system's. The environment's proxy is trusted by the system's alone: a kubeconfig has no say in it.
fn tls_to_proxy(access: &Access, proxy: &ServerProxy) -> Result<ClientConfig, CredentialsError> {
    let is_named = proxy.origin() == Origin::Kubeconfig;
    if is_named && access.accept_invalid_certs {
        return tls::client_config(&Trust::Anyone, None).map_err(CredentialsError::Tls);
    }
    let named = access.authorities.clone().filter(|_| is_named);
    let mut trusted = named.unwrap_or_default();
    // Without TLS no certificate is needed, and none is read.
    if proxy.has_tls() {
        match of_system(load_native_certs()) {
            Ok(system) => trusted.extend(system),
            Err(CredentialsError::NoAuthorities) if !trusted.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    tls::client_config(&Trust::Authorities(&trusted), None).map_err(CredentialsError::Tls)
}

/// The authorities to trust: those of the kubeconfig or of the pod, else those of the system, as in client-go.
fn authorities(access: &Access) -> Result<Vec<Vec<u8>>, CredentialsError> {
    if access.accept_invalid_certs || access.url.scheme_str() == Some("http") {
        return Ok(Vec::new());
    }
    if let Some(path) = &access.authorities_file {
        let contents = read_file("certificate-authority", path)?;
        return certificates(&contents).map_err(CredentialsError::Tls);
    }
    match &access.authorities {
        Some(named) => Ok(named.clone()),
        None => of_system(load_native_certs()),
    }
}

/// The usable certificates among those of the system.
fn of_system(loaded: CertificateResult) -> Result<Vec<Vec<u8>>, CredentialsError> {
    for error in &loaded.errors {
        match &error.kind {
            // The certificate that this server needs may be among those that could not be read.
            ErrorKind::Io { inner, .. } if is_exhausted(inner) => {
                return Err(CredentialsError::NoDescriptors);
            }
            _ => tracing::debug!(%error, "system certificates not read"),
        }
    }
    let usable = |certificate: &_| {
        RootCertStore::empty()
            .add(Clone::clone(certificate))
            .is_ok()
    };
    let usable = loaded.certs.into_iter().filter(usable);
    let usable: Vec<_> = usable.map(|certificate| certificate.to_vec()).collect();
    if usable.is_empty() {
        return Err(CredentialsError::NoAuthorities);
    }
    Ok(usable)
}

fn sensitive(value: String) -> Result<HeaderValue, CredentialsError> {
    let mut value = HeaderValue::try_from(value).map_err(|_| CredentialsError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Impersonation, as kubectl writes it.
fn impersonation(user: &User) -> Result<HeaderMap, CredentialsError> {
    let mut headers = HeaderMap::new();
    let mut add = |name: HeaderName, value: &str| {
        let value = HeaderValue::try_from(value);
        let value = value.map_err(|_| CredentialsError::Impersonation(name.to_string()))?;
        headers.append(name, value);
        Ok::<_, CredentialsError>(())
    };
    if let Some(name) = &user.impersonate {
        add(HeaderName::from_static("impersonate-user"), name)?;
    }
    if let Some(uid) = &user.impersonate_uid {
        add(HeaderName::from_static("impersonate-uid"), uid)?;
    }
    for group in user.impersonate_groups.iter().flatten() {
        add(HeaderName::from_static("impersonate-group"), group)?;
    }
    for (key, values) in user.impersonate_extra.iter().flatten() {
        // Few characters may stand in a header's name, so the API server decodes percent encoding.
        let key = utf8_percent_encode(key, NON_ALPHANUMERIC);
        let name = HeaderName::try_from(format!("impersonate-extra-{key}"));
        let name = name.map_err(|_| CredentialsError::Impersonation("as-user-extra".into()))?;
        for value in values {
            add(name.clone(), value)?;
        }
    }
    Ok(headers)
}

/// The digest of a client certificate and its key, after [`inline_certificate`].
fn digest_certificate(user: &User) -> [u8; 32] {
    let mut hash = Sha256::new();
    let key = user.client_key_data.as_ref().map(|key| key.0.as_str());
    for part in [user.client_certificate_data.as_deref(), key] {
        hash.update([2]);
        hash.update(part.unwrap_or_default());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    async fn loaded(auth: Value) -> Result<Credentials, CredentialsError> {
        let mut access = Access::of_url("https://127.0.0.1:1".parse().unwrap());
        access.user = serde_json::from_value(auth).unwrap();
        let loaded = load(&access, None, Duration::from_secs(10), &Semaphore::new(1)).await;
        loaded.map(|(credentials, _)| credentials)
    }

    fn authorization(credentials: &Credentials) -> &str {
        credentials.headers[AUTHORIZATION].to_str().unwrap()
    }

    #[tokio::test]
    async fn a_token_file_is_read_again_after_a_minute() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one\n").unwrap();
        let first = loaded(json!({"tokenFile": file.path(), "token": "old"})).await;
        let first = first.ok().unwrap();
        assert_eq!(authorization(&first), "Bearer one");
        assert!(first.headers[AUTHORIZATION].is_sensitive());
        assert!(first.renew_at.unwrap() <= SystemTime::now() + TOKEN_FILE_LIFE);
    }

    #[tokio::test]
    async fn headers_carry_basic_credentials_and_impersonation() {
        let auth = json!({"username": "u", "password": "p", "as": "robot", "as-groups": ["a", "b"], "as-user-extra": {"a/b": ["c"]}});
        let credentials = loaded(auth).await.ok().unwrap();
        assert_eq!(authorization(&credentials), "Basic dTpw");
        assert_eq!(credentials.headers["impersonate-user"], "robot");
        assert_eq!(
            credentials
                .headers
                .get_all("impersonate-group")
                .iter()
                .count(),
            2
        );
        assert_eq!(credentials.headers["impersonate-extra-a%2fb"], "c");
        assert!(credentials.renew_at.is_none());
    }

    #[test]
    fn credentials_are_renewed_a_little_before_their_end() {
        let now = SystemTime::UNIX_EPOCH;
        let renewed = |life| {
            let at = renewal(now + Duration::from_secs(life), now);
            at.duration_since(now).unwrap().as_secs()
        };
        assert_eq!((renewed(3600), renewed(10)), (3590, 8));
    }

    #[tokio::test]
    async fn another_certificate_file_has_another_digest() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = (folder.path().join("c"), folder.path().join("k"));
        let auth: User =
            serde_json::from_value(json!({"client-certificate": cert, "client-key": key})).unwrap();
        let digest = || {
            let mut auth = auth.clone();
            inline_certificate(&mut auth).unwrap();
            digest_certificate(&auth)
        };
        std::fs::write(&key, "key").unwrap();
        std::fs::write(&cert, "one").unwrap();
        let one = digest();
        assert_eq!(one, digest());
        std::fs::write(&cert, "two").unwrap();
        assert_ne!(one, digest());
    }

    #[tokio::test]
    async fn files_without_end_are_refused_with_their_field() {
        for field in ["client-certificate", "client-key", "tokenFile"] {
            let auth = json!({field: "/dev/zero"});
            let Err(error) = loaded(auth).await else {
                panic!("{field} was read");
            };
            let reason = error.to_string();
            assert!(
                reason.contains("\"/dev/zero\" cannot be read: it is no regular file"),
                "{reason}"
            );
        }
    }

    #[test]
    fn certificates_that_were_not_read_for_want_of_descriptors_are_not_called_missing() {
        let loaded = |error: Option<rustix::io::Errno>| {
            let mut loaded = CertificateResult::default();
            loaded
                .errors
                .extend(error.map(|errno| rustls_native_certs::Error {
                    context: "failed to open file",
                    kind: ErrorKind::Io {
                        inner: errno.into(),
                        path: "/etc/ssl/certs".into(),
                    },
                }));
            of_system(loaded)
        };
        assert!(matches!(
            loaded(Some(rustix::io::Errno::MFILE)),
            Err(CredentialsError::NoDescriptors)
        ));
        for other in [None, Some(rustix::io::Errno::NOENT)] {
            assert!(matches!(
                loaded(other),
                Err(CredentialsError::NoAuthorities)
            ));
        }
    }
}
