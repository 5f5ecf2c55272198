//! From a configuration to what a connection needs: TLS, headers, and until when they hold. Entry point: [`prepare`].

use super::exec;
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
pub(super) fn is_renewable(user: &User) -> bool {
    user.exec.is_some() || user.token_file.is_some() || user.client_certificate.is_some()
}

/// Reads files and runs the credential plugin, if there are such.
///
/// # Errors
/// [`Unprepared`].
pub(super) async fn prepare(
    access: &Access,
    plugin_deadline: Duration,
    plugins: &Semaphore,
) -> Result<Prepared, Unprepared> {
    let mut access = access.clone();
    if access.user.auth_provider.is_some() {
        let reason = "auth-provider is not supported, as in Kubernetes: use exec";
        return Err(Unprepared::Unusable(reason.to_owned()));
    }
    let mut ends = Ends::default();
    if let Some(plugin) = access.user.exec.take() {
        let issued = exec::run(&plugin, plugin_deadline, plugins).await?;
        ends = Ends::of_issued(&issued, SystemTime::now());
        apply(issued, &mut access.user);
    }
    let mut headers = impersonation(&access.user)?;
    if let Some((value, from_file)) = authorization(&access.user).await? {
        headers.insert(AUTHORIZATION, value);
        if from_file {
            ends.renew_at = Some(SystemTime::now() + TOKEN_FILE_LIFE);
        }
    }
    // Reads files, the system's certificates among them.
    let with_files = tokio::task::spawn_blocking(move || {
        inline_certificate(&mut access.user)?;
        let identity = identity(&access.user);
        Ok::<_, Unprepared>((tls_config(&access)?, identity))
    });
    let (tls, identity) = with_files.await.map_err(|e| e.to_string())??;
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
fn apply(issued: exec::Issued, user: &mut User) {
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

/// The header, and whether it comes from a file. A token file wins over a token, as in client-go.
async fn authorization(user: &User) -> Result<Option<(HeaderValue, bool)>, Unprepared> {
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

/// Puts what the files of a client certificate and its key hold in place of the files.
fn inline_certificate(user: &mut User) -> Result<(), Unprepared> {
    let read = |name: &str, path: Option<String>| match path.filter(|path| !path.is_empty()) {
        Some(path) => file::read(Path::new(&path), MAX_REFERENCED)
            .map(|held| Some(STANDARD.encode(held)))
            .map_err(|error| Unprepared::of_file(&format!("{name} {path:?}"), error)),
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

/// Of a user whose files have been read.
fn tls_config(access: &Access) -> Result<ClientConfig, Unprepared> {
    let trusted = authorities(access)?;
    let trust = match access.accept_invalid_certs {
        true => Trust::Anyone,
        false => Trust::Authorities(&trusted),
    };
    let user = &access.user;
    let client = match (&user.client_certificate_data, &user.client_key_data) {
        (Some(chain), Some(Secret(key))) => Some(ClientCertificate { chain, key }),
        (None, None) => None,
        _ => {
            let reason = "one of client certificate and client key is given without the other";
            return Err(Unprepared::Unusable(reason.to_owned()));
        }
    };
    Ok(tls::client_config(&trust, client.as_ref())?)
}

/// The authorities to trust: those of the kubeconfig or of the pod, else those of the system, as in client-go.
fn authorities(access: &Access) -> Result<Vec<Vec<u8>>, Unprepared> {
    if access.accept_invalid_certs || access.url.scheme_str() == Some("http") {
        return Ok(Vec::new());
    }
    if let Some(path) = &access.authorities_file {
        let held = file::read(path, MAX_REFERENCED);
        let held = held.map_err(|error| Unprepared::of_file(&format!("{path:?}"), error))?;
        return Ok(certificates(&held)?);
    }
    match &access.authorities {
        Some(named) => Ok(named.clone()),
        None => of_system(load_native_certs()),
    }
}

/// The system's certificates that can be used.
fn of_system(loaded: CertificateResult) -> Result<Vec<Vec<u8>>, Unprepared> {
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

/// Impersonation, as kubectl writes it.
fn impersonation(user: &User) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut add = |name: HeaderName, value: &str| {
        let value = HeaderValue::try_from(value);
        let value = value.map_err(|_| format!("{name} has bytes that a header cannot hold"))?;
        headers.append(name, value);
        Ok::<_, String>(())
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
        // The API server decodes what is percent-encoded, as the characters of a header's name are few.
        let key = utf8_percent_encode(key, NON_ALPHANUMERIC);
        let name = HeaderName::try_from(format!("impersonate-extra-{key}"));
        let name = name.map_err(|_| "as-user-extra has a key that no header can hold")?;
        for value in values {
            add(name.clone(), value)?;
        }
    }
    Ok(headers)
}

/// Of a client certificate whose files have been read.
fn identity(user: &User) -> [u8; 32] {
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

    async fn prepared(auth: Value) -> Result<Prepared, Unprepared> {
        let mut access = Access::of_url("https://127.0.0.1:1".parse().unwrap());
        access.user = serde_json::from_value(auth).unwrap();
        prepare(&access, Duration::from_secs(10), &Semaphore::new(1)).await
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
        let auth = json!({"username": "u", "password": "p", "as": "robot", "as-groups": ["a", "b"], "as-user-extra": {"a/b": ["c"]}});
        let prepared = prepared(auth).await.ok().unwrap();
        assert_eq!(bearer(&prepared), "Basic dTpw");
        assert_eq!(prepared.headers["impersonate-user"], "robot");
        assert_eq!(
            prepared.headers.get_all("impersonate-group").iter().count(),
            2
        );
        assert_eq!(prepared.headers["impersonate-extra-a%2fb"], "c");
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
        let auth: User =
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
            of_system(loaded)
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
