//! From a configuration to what a connection needs: TLS, headers, and until when they hold. Entry point: [`prepare`].

use super::exec;
use crate::file::{self, FileError, is_exhausted};
use crate::http::config::MAX_REFERENCED;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Request};
use kube_client::Config;
use kube_client::client::ConfigExt;
use kube_client::config::AuthInfo;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::{CertificateResult, ErrorKind, load_native_certs};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt};

/// How long a token that was read from a file is believed, as client-go does.
const TOKEN_FILE_LIFE: Duration = Duration::from_secs(60);

/// What to connect with.
pub(super) struct Prepared {
    pub(super) tls: ClientConfig,
    /// Authorization, impersonation and the like; marked sensitive where secret.
    pub(super) headers: HeaderMap,
    /// Stands for the client certificate: connections made with another one are not used any more.
    pub(super) identity: [u8; 32],
    /// When to prepare anew.
    pub(super) renew_at: Option<SystemTime>,
    /// When the credentials end, as far as they say.
    pub(super) valid_until: Option<SystemTime>,
}

/// Why there is nothing to connect with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unprepared {
    /// The process cannot open a file.
    NoDescriptors,
    /// What is wrong with the credentials, for people; never a secret.
    Unusable(String),
}

impl From<String> for Unprepared {
    fn from(reason: String) -> Self {
        Self::Unusable(reason)
    }
}

impl Unprepared {
    /// Of a file that was not read; `what` names it.
    fn of_file(what: &str, error: FileError) -> Self {
        match error {
            FileError::NoDescriptors => Self::NoDescriptors,
            error => Self::Unusable(format!("{what} cannot be read: {error}")),
        }
    }
}

/// Whether preparing again may give something else: credentials from a plugin or from files.
pub(super) fn is_renewable(auth: &AuthInfo) -> bool {
    auth.exec.is_some() || auth.token_file.is_some() || auth.client_certificate.is_some()
}

/// Reads files and runs the credential plugin, if there are such.
///
/// # Errors
/// [`Unprepared`].
pub(super) async fn prepare(
    config: &Config,
    plugin_deadline: Duration,
    plugins: &Semaphore,
) -> Result<Prepared, Unprepared> {
    let mut config = config.clone();
    if config.auth_info.auth_provider.is_some() {
        let reason = "auth-provider is not supported, as in Kubernetes: use exec";
        return Err(Unprepared::Unusable(reason.to_owned()));
    }
    let mut ends = Ends::default();
    if let Some(plugin) = config.auth_info.exec.take() {
        let issued = exec::run(&plugin, plugin_deadline, plugins).await?;
        ends = Ends::of_issued(&issued, SystemTime::now());
        apply(issued, &mut config.auth_info)?;
    }
    let authorization = match authorization(&config.auth_info).await? {
        Some((value, from_file)) => {
            if from_file {
                ends.renew_at = Some(SystemTime::now() + TOKEN_FILE_LIFE);
            }
            Some(value)
        }
        None => None,
    };
    // Reads files, the system's certificates among them.
    let with_files = tokio::task::spawn_blocking(move || {
        inline_certificate(&mut config.auth_info)?;
        inline_authorities(&mut config)?;
        let identity = identity(&config.auth_info);
        let tls = config.rustls_client_config().map_err(|e| e.to_string())?;
        Ok::<_, Unprepared>((tls, identity, config))
    });
    let (tls, identity, config) = with_files.await.map_err(|e| e.to_string())??;
    let mut headers = extra_headers(&config).await?;
    if let Some(value) = authorization {
        headers.insert(AUTHORIZATION, value);
    }
    Ok(Prepared {
        tls,
        headers,
        identity,
        renew_at: ends.renew_at,
        valid_until: ends.valid_until,
    })
}

#[derive(Default)]
struct Ends {
    renew_at: Option<SystemTime>,
    valid_until: Option<SystemTime>,
}

impl Ends {
    /// A little before the end, but not so early that short-lived credentials are renewed all the time.
    fn of_issued(issued: &exec::Issued, now: SystemTime) -> Self {
        let valid_until = issued.valid_until();
        let renew_at = valid_until.map(|end| {
            let left = end.duration_since(now).unwrap_or_default();
            end - (left / 5).min(Duration::from_secs(10))
        });
        Self {
            renew_at,
            valid_until,
        }
    }
}

/// Puts what a plugin gave in place of the plugin.
fn apply(issued: exec::Issued, auth: &mut AuthInfo) -> Result<(), String> {
    let mut given = json!({});
    if let Some(token) = issued.token {
        given["token"] = token.into();
        auth.token_file = None;
    }
    if let (Some(certificate), Some(key)) = (issued.client_certificate_data, issued.client_key_data)
    {
        given["client-certificate-data"] = STANDARD.encode(certificate).into();
        given["client-key-data"] = STANDARD.encode(key).into();
    }
    let given: AuthInfo = serde_json::from_value(given)
        .map_err(|_| "the credential plugin gave what is no credential".to_owned())?;
    auth.token = given.token.or(auth.token.take());
    if given.client_certificate_data.is_some() {
        auth.client_certificate_data = given.client_certificate_data;
        auth.client_key_data = given.client_key_data;
        (auth.client_certificate, auth.client_key) = (None, None);
    }
    Ok(())
}

/// The header, and whether it comes from a file. A token file wins over a token, as in client-go.
async fn authorization(auth: &AuthInfo) -> Result<Option<(HeaderValue, bool)>, Unprepared> {
    if let Some(path) = auth.token_file.as_ref().filter(|path| !path.is_empty()) {
        let text = read_token(path.clone()).await?;
        return Ok(Some((sensitive(format!("Bearer {}", text.trim()))?, true)));
    }
    // The values are kept by a type that shows them to serializers only.
    let fields = serde_json::to_value(auth).map_err(|_| "credentials cannot be read".to_owned())?;
    let field = |name: &str| fields[name].as_str().filter(|value| !value.is_empty());
    if let Some(token) = field("token") {
        return Ok(Some((sensitive(format!("Bearer {token}"))?, false)));
    }
    if let (Some(user), Some(password)) = (field("username"), field("password")) {
        let pair = STANDARD.encode(format!("{user}:{password}"));
        return Ok(Some((sensitive(format!("Basic {pair}"))?, false)));
    }
    Ok(None)
}

async fn read_token(path: String) -> Result<String, Unprepared> {
    let read = tokio::task::spawn_blocking(move || {
        let what = format!("token file {path:?}");
        let read = file::read(Path::new(&path), MAX_REFERENCED);
        let bytes = read.map_err(|error| Unprepared::of_file(&what, error))?;
        let no_text = |_| Unprepared::Unusable(format!("{what} holds no text"));
        String::from_utf8(bytes).map_err(no_text)
    });
    read.await.map_err(|error| error.to_string())?
}

/// Puts what the files of a client certificate and its key hold in place of the files: kube would read them whatever they are.
fn inline_certificate(auth: &mut AuthInfo) -> Result<(), Unprepared> {
    let read = |name: &str, path: Option<String>| match path.filter(|path| !path.is_empty()) {
        Some(path) => file::read(Path::new(&path), MAX_REFERENCED)
            .map(|held| Some(STANDARD.encode(held)))
            .map_err(|error| Unprepared::of_file(&format!("{name} {path:?}"), error)),
        None => Ok(None),
    };
    let certificate = auth.client_certificate.take();
    if auth.client_certificate_data.is_none() {
        auth.client_certificate_data = read("client-certificate", certificate)?;
    }
    let key = auth.client_key.take();
    if auth.client_key_data.is_none()
        && let Some(key) = read("client-key", key)?
    {
        // The type of the field cannot be named here.
        let given: AuthInfo = serde_json::from_value(json!({"client-key-data": key}))
            .map_err(|_| "the client key cannot be used".to_owned())?;
        auth.client_key_data = given.client_key_data;
    }
    Ok(())
}

/// Names the authorities that are trusted where the kubeconfig names none: those of the system, as in client-go.
fn inline_authorities(config: &mut Config) -> Result<(), Unprepared> {
    if config.root_cert.is_some() {
        return Ok(());
    }
    let asks_nobody =
        config.accept_invalid_certs || config.cluster_url.scheme_str() == Some("http");
    config.root_cert = Some(match asks_nobody {
        true => Vec::new(),
        false => authorities(load_native_certs())?,
    });
    Ok(())
}

/// The system's certificates that can be used.
fn authorities(loaded: CertificateResult) -> Result<Vec<Vec<u8>>, Unprepared> {
    for error in &loaded.errors {
        match &error.kind {
            // Others were read perhaps, but not those of this server.
            ErrorKind::Io { inner, .. } if is_exhausted(inner) => {
                return Err(Unprepared::NoDescriptors);
            }
            _ => tracing::debug!(%error, "certificates of the system were not read"),
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
        let reason = "the kubeconfig names no certificate-authority, and the system has none to trust: set certificate-authority, or install the system's certificates (ca-certificates)";
        return Err(Unprepared::Unusable(reason.to_owned()));
    }
    Ok(usable)
}

fn sensitive(value: String) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(value)
        .map_err(|_| "the token has bytes that a header cannot hold".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Impersonation and configured headers, as kube-client writes them.
async fn extra_headers(config: &Config) -> Result<HeaderMap, String> {
    let layer = config.extra_headers_layer().map_err(|e| e.to_string())?;
    let echo = tower::service_fn(|request: Request<()>| async move {
        Ok::<_, Infallible>(request.headers().clone())
    });
    match layer.layer(echo).oneshot(Request::new(())).await {
        Ok(headers) => Ok(headers),
        Err(never) => match never {},
    }
}

/// Of a client certificate whose files have been read.
fn identity(auth: &AuthInfo) -> [u8; 32] {
    let mut hash = Sha256::new();
    let fields = serde_json::to_value(auth).unwrap_or(Value::Null);
    for name in ["client-certificate-data", "client-key-data"] {
        hash.update([2]);
        hash.update(fields[name].as_str().unwrap_or_default());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn prepared(auth: Value) -> Result<Prepared, Unprepared> {
        let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
        config.auth_info = serde_json::from_value(auth).unwrap();
        prepare(&config, Duration::from_secs(10), &Semaphore::new(1)).await
    }

    fn bearer(prepared: &Prepared) -> &str {
        prepared.headers[AUTHORIZATION].to_str().unwrap()
    }

    #[tokio::test]
    async fn a_token_file_is_read_again_after_a_minute() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one\n").unwrap();
        let first = prepared(json!({"tokenFile": file.path(), "token": "old"})).await;
        let first = first.ok().unwrap();
        assert_eq!(bearer(&first), "Bearer one");
        assert!(first.headers[AUTHORIZATION].is_sensitive());
        assert!(first.renew_at.unwrap() <= SystemTime::now() + TOKEN_FILE_LIFE);
    }

    #[tokio::test]
    async fn headers_carry_basic_credentials_and_impersonation() {
        let auth =
            json!({"username": "u", "password": "p", "as": "robot", "as-groups": ["a", "b"]});
        let prepared = prepared(auth).await.ok().unwrap();
        assert_eq!(bearer(&prepared), "Basic dTpw");
        assert_eq!(prepared.headers["impersonate-user"], "robot");
        assert_eq!(
            prepared.headers.get_all("impersonate-group").iter().count(),
            2
        );
        assert!(prepared.renew_at.is_none());
    }

    #[test]
    fn credentials_are_renewed_a_little_before_their_end() {
        let now = SystemTime::UNIX_EPOCH;
        let ends = |until: &str| {
            let issued = serde_json::from_value(json!({"expirationTimestamp": until})).unwrap();
            let at = Ends::of_issued(&issued, now).renew_at.unwrap();
            at.duration_since(now).unwrap().as_secs()
        };
        assert_eq!(ends("1970-01-01T01:00:00Z"), 3590);
        assert_eq!(ends("1970-01-01T00:00:10Z"), 8);
    }

    #[tokio::test]
    async fn an_identity_is_another_when_its_files_are() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = (folder.path().join("c"), folder.path().join("k"));
        let auth: AuthInfo =
            serde_json::from_value(json!({"client-certificate": cert, "client-key": key})).unwrap();
        let identity = || {
            let mut auth = auth.clone();
            inline_certificate(&mut auth).unwrap();
            identity(&auth)
        };
        std::fs::write(&key, "key").unwrap();
        std::fs::write(&cert, "one").unwrap();
        let one = identity();
        assert_eq!(one, identity());
        std::fs::write(&cert, "two").unwrap();
        assert_ne!(one, identity());
    }

    #[tokio::test]
    async fn files_without_end_are_refused_with_their_field() {
        for field in ["client-certificate", "client-key", "tokenFile"] {
            let auth = json!({field: "/dev/zero"});
            let Err(Unprepared::Unusable(reason)) = prepared(auth).await else {
                panic!("{field} was read");
            };
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
            authorities(loaded)
        };
        assert_eq!(
            loaded(Some(rustix::io::Errno::MFILE)),
            Err(Unprepared::NoDescriptors)
        );
        for other in [None, Some(rustix::io::Errno::NOENT)] {
            assert!(
                matches!(loaded(other), Err(Unprepared::Unusable(reason)) if reason.contains("ca-certificates"))
            );
        }
    }
}
