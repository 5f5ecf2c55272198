//! Logins for registries, as docker keeps them. Entry point: [`DockerConfig::login`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Largest configuration of docker, in bytes.
pub(crate) const MAX_CONFIG: u64 = 1 << 20;
/// Largest answer of a credential helper, in bytes, and its time.
const MAX_HELPED: u64 = 64 << 10;
const HELP: Duration = Duration::from_secs(30);
/// The user that helpers and docker write for a login that is no password.
const TOKEN_USER: &str = "<token>";
/// What helpers print for a host that they do not know.
const NOT_KNOWN: &str = "credentials not found";

/// What a registry, or its token server, is given. Has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Login {
    Password {
        user: String,
        password: String,
    },
    /// What `az acr login` and other logins without a password keep. A token server exchanges it (OAuth 2 refresh token,
    /// distribution's specification of tokens).
    IdentityToken(String),
}

/// Why there is no login. Never holds one.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The configuration, and where it is damaged.
    #[error("{0}: it is no configuration of docker: {1}")]
    Unreadable(String, String),
    /// The entry of a host.
    #[error("the login for {0} is not readable: log in again with docker login")]
    Damaged(String),
    /// The program, and what is wrong with it.
    #[error("the credential helper {0} {1}")]
    Helper(String, String),
}

/// The file `config.json`, or the content of a pull secret.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DockerConfig {
    auths: BTreeMap<String, Entry>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase", default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Helped {
    username: String,
    secret: String,
}

impl Login {
    /// The header with a password. `None`: an identity token is not sent so.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let Self::Password { user, password } = self else {
            return None;
        };
        let login = STANDARD.encode(format!("{user}:{password}"));
        let mut value = HeaderValue::try_from(format!("Basic {login}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl DockerConfig {
    /// Reads a configuration. `from` names it in the error.
    ///
    /// # Errors
    /// [`CredentialsError::Unreadable`], without its text.
    pub(crate) fn read(bytes: &[u8], from: &str) -> Result<Self, CredentialsError> {
        parse(bytes, from)
    }

    /// Reads the content of a Secret of the type `kubernetes.io/dockercfg`: the logins alone.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn read_old(bytes: &[u8], from: &str) -> Result<Self, CredentialsError> {
        let auths = parse(bytes, from)?;
        Ok(Self {
            auths,
            ..Self::default()
        })
    }

    /// The same without programs that give logins: a Secret must not run any.
    pub(crate) fn without_helpers(self) -> Self {
        Self {
            auths: self.auths,
            ..Self::default()
        }
    }

    /// The login for an image; none: nobody has logged in.
    ///
    /// # Errors
    /// [`CredentialsError`]
    pub(crate) async fn login(
        &self,
        host: &str,
        name: &str,
    ) -> Result<Option<Login>, CredentialsError> {
        if let Some(helper) = self.cred_helpers.get(host) {
            return ask_helper(helper, host).await;
        }
        if let Some(entry) = self.entry(host, name)
            && let Some(login) = entry.login(host)?
        {
            return Ok(Some(login));
        }
        match &self.creds_store {
            Some(helper) => ask_helper(helper, host).await,
            None => Ok(None),
        }
    }

    /// The entry of the host, or of the longest path there that the image is below.
    fn entry(&self, host: &str, name: &str) -> Option<&Entry> {
        let image = format!("{host}/{name}");
        let covers = |key: &str| {
            let rest = image.strip_prefix(key);
            rest.is_some_and(|rest| rest.starts_with('/') || rest.is_empty())
        };
        let keys = self.auths.iter().map(|(key, entry)| (place(key), entry));
        let covering = keys.filter(|(key, _)| covers(key));
        covering
            .max_by_key(|(key, _)| key.len())
            .map(|(_, entry)| entry)
    }
}

/// Parses a file with logins, of which the error holds nothing.
fn parse<T: DeserializeOwned>(bytes: &[u8], from: &str) -> Result<T, CredentialsError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let at = format!("line {}, column {}", error.line(), error.column());
        CredentialsError::Unreadable(from.to_owned(), at)
    })
}

/// The host, and the path, that an entry is for: older ones are URLs of an API.
fn place(key: &str) -> &str {
    let bare = key.strip_prefix("https://").or(key.strip_prefix("http://"));
    let bare = bare.unwrap_or(key).trim_end_matches('/');
    let bare = bare
        .strip_suffix("/v1")
        .or(bare.strip_suffix("/v2"))
        .unwrap_or(bare);
    match bare {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        bare => bare,
    }
}

impl Entry {
    fn login(&self, host: &str) -> Result<Option<Login>, CredentialsError> {
        if !self.identitytoken.is_empty() {
            return Ok(Some(Login::IdentityToken(self.identitytoken.clone())));
        }
        if self.auth.is_empty() {
            let (user, password) = (self.username.clone(), self.password.clone());
            return Ok((!user.is_empty()).then_some(Login::Password { user, password }));
        }
        let decoded = STANDARD.decode(self.auth.trim()).ok();
        let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let login = text.as_deref().and_then(|text| text.split_once(':'));
        let (user, password) = login.ok_or_else(|| CredentialsError::Damaged(host.to_owned()))?;
        Ok(Some(Login::Password {
            user: user.to_owned(),
            // docker pads what it writes.
            password: password.trim_end_matches('\0').to_owned(),
        }))
    }
}

/// Asks `docker-credential-NAME` for the login of a host.
async fn ask_helper(name: &str, host: &str) -> Result<Option<Login>, CredentialsError> {
    let program = format!("docker-credential-{name}");
    let failed = |why: &str| CredentialsError::Helper(program.clone(), why.to_owned());
    if name.is_empty() || name.contains('/') {
        return Err(failed("is not a name of a program"));
    }
    // docker's own name for its registry.
    let asked = match host {
        "docker.io" => "https://index.docker.io/v1/",
        host => host,
    };
    let answer = tokio::time::timeout(HELP, run(&program, asked)).await;
    let answer = answer.map_err(|_| failed("does not answer: run it by hand to see why"))?;
    let (succeeded, printed) =
        answer.map_err(|error| failed(&format!("cannot be run: {error}")))?;
    if !succeeded {
        let text = String::from_utf8_lossy(&printed);
        return if text.contains(NOT_KNOWN) {
            Ok(None)
        } else {
            Err(failed("failed: run it by hand to see why"))
        };
    }
    let helped: Helped =
        serde_json::from_slice(&printed).map_err(|_| failed("printed no login"))?;
    Ok(Some(if helped.username == TOKEN_USER {
        Login::IdentityToken(helped.secret)
    } else {
        Login::Password {
            user: helped.username,
            password: helped.secret,
        }
    }))
}

/// Whether a program succeeds, and what it prints. It is killed if this is dropped.
async fn run(program: &str, input: &str) -> std::io::Result<(bool, Vec<u8>)> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await?;
    }
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_HELPED).read_to_end(&mut printed).await?;
    }
    Ok((child.wait().await?.success(), printed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    async fn login(config: serde_json::Value, host: &str, name: &str) -> Option<(String, String)> {
        let config = DockerConfig::read(config.to_string().as_bytes(), "test").unwrap();
        let login = config.login(host, name).await.unwrap();
        login.map(|login| match login {
            Login::Password { user, password } => (user, password),
            Login::IdentityToken(token) => (TOKEN_USER.to_owned(), token),
        })
    }

    fn is(user: &str, password: &str) -> Option<(String, String)> {
        Some((user.to_owned(), password.to_owned()))
    }

    #[tokio::test]
    async fn the_entry_of_the_longest_path_counts() {
        let config = json!({"auths": {
            "https://registry.example.com/v2/": {"auth": STANDARD.encode("me:se:cret")},
            "registry.example.com/team": {"username": "team", "password": "pw"},
            "https://index.docker.io/v1/": {"auth": STANDARD.encode("hub:pw\0")},
        }});
        let of = |host, name| login(config.clone(), host, name);
        assert_eq!(
            of("registry.example.com", "guest").await,
            is("me", "se:cret")
        );
        assert_eq!(
            of("registry.example.com", "team/guest").await,
            is("team", "pw")
        );
        assert_eq!(
            of("registry.example.com", "teams/guest").await,
            is("me", "se:cret")
        );
        assert_eq!(of("docker.io", "library/guest").await, is("hub", "pw"));
        assert_eq!(of("registry.example.com:5000", "guest").await, None);
        assert_eq!(of("registry.example.com.evil.test", "guest").await, None);
    }

    #[tokio::test]
    async fn identity_tokens_and_older_secrets_have_logins() {
        let config = json!({"auths": {"a.io": {"auth": STANDARD.encode("0000:"), "identitytoken": "refresh"}}});
        assert_eq!(login(config, "a.io", "x").await, is(TOKEN_USER, "refresh"));
        let older =
            json!({"https://a.io": {"username": "me", "password": "pw", "email": "me@a.io"}});
        let older = DockerConfig::read_old(older.to_string().as_bytes(), "test").unwrap();
        let found = older.login("a.io", "x").await.unwrap();
        assert!(matches!(found, Some(Login::Password { user, .. }) if user == "me"));
    }

    #[tokio::test]
    async fn errors_say_no_secret() {
        let config =
            json!({"auths": {"a.io": {"auth": "aHVzaA=="}}, "credHelpers": {"b.io": "../hush"}});
        let config = DockerConfig::read(config.to_string().as_bytes(), "test").unwrap();
        for host in ["a.io", "b.io"] {
            let error = config.login(host, "x").await.err().unwrap();
            assert!(!error.to_string().contains("aHVzaA"), "{error}");
        }
        let error = DockerConfig::read(b"{\"auths\": hush", "file")
            .err()
            .unwrap();
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}
