//! From a configuration to what a connection needs: TLS, headers, and until when they hold. Entry point: [`prepare`].

use super::exec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Request};
use kube_client::Config;
use kube_client::client::ConfigExt;
use kube_client::config::AuthInfo;
use rustls::ClientConfig;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt};

/// How long a token that was read from a file is believed, as client-go does.
const TOKEN_FILE_LIFE: Duration = Duration::from_secs(60);
/// Longest token that is read from a file.
const MAX_TOKEN: u64 = 1 << 20;

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

/// Whether preparing again may give something else: credentials from a plugin or from files.
pub(super) fn is_renewable(auth: &AuthInfo) -> bool {
    auth.exec.is_some() || auth.token_file.is_some() || auth.client_certificate.is_some()
}

/// Reads files and runs the credential plugin, if there are such.
///
/// # Errors
/// What is wrong, for people; never a secret.
pub(super) async fn prepare(
    config: &Config,
    plugin_deadline: Duration,
    plugins: &Semaphore,
) -> Result<Prepared, String> {
    let mut config = config.clone();
    if config.auth_info.auth_provider.is_some() {
        return Err("auth-provider is not supported, as in Kubernetes: use exec".to_owned());
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
        let identity = identity(&config.auth_info);
        let tls = config.rustls_client_config().map_err(|e| e.to_string())?;
        Ok::<_, String>((tls, identity, config))
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
async fn authorization(auth: &AuthInfo) -> Result<Option<(HeaderValue, bool)>, String> {
    if let Some(path) = auth.token_file.as_ref().filter(|path| !path.is_empty()) {
        let text = read_token(path)
            .await
            .map_err(|error| format!("token file {path:?} cannot be read: {error}"))?;
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

async fn read_token(path: &str) -> std::io::Result<String> {
    use tokio::io::AsyncReadExt as _;
    let mut text = String::new();
    let file = tokio::fs::File::open(path).await?;
    file.take(MAX_TOKEN).read_to_string(&mut text).await?;
    Ok(text)
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

fn identity(auth: &AuthInfo) -> [u8; 32] {
    let mut hash = Sha256::new();
    for path in [&auth.client_certificate, &auth.client_key]
        .into_iter()
        .flatten()
    {
        hash.update([1]);
        hash.update(std::fs::read(path).unwrap_or_default());
    }
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

    async fn prepared(auth: Value) -> Result<Prepared, String> {
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
        std::fs::write(&cert, "one").unwrap();
        let one = identity(&auth);
        assert_eq!(one, identity(&auth));
        std::fs::write(&cert, "two").unwrap();
        assert_ne!(one, identity(&auth));
    }
}
