//! A client of a running manager's API. Entry point: [`Client`].

mod leader;

use crate::admin::token_file;
use crate::admin_address;
use crate::cli::AdminArgs;
use crate::config::kinds::ManagerSpec;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use leader::Leader;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Longest time for an answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Longest time for an answer that the manager asks clusters for. It serves a connection no longer than that.
const LONG_DEADLINE: Duration = Duration::from_secs(30);
/// Largest answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// A manager's API, at an address or in a cluster.
pub(crate) struct Client {
    manager: Manager,
}

enum Manager {
    At(Address),
    Leading(Box<Leader>),
}

impl Client {
    /// The API of the manager that the flags name.
    ///
    /// # Errors
    /// When a token cannot be read or made, or there is no leader in the cluster.
    pub(crate) async fn new(args: &AdminArgs) -> Result<Self> {
        let token = args.token.as_deref().map(given).transpose()?;
        let manager = if args.is_in_cluster() {
            Manager::Leading(Box::new(Leader::find(args, token).await?))
        } else {
            let address = match &args.admin {
                Some(address) => address.clone(),
                None => usual().await,
            };
            Manager::At(Address::new(&address, token).await)
        };
        Ok(Self { manager })
    }

    /// Gets a document.
    ///
    /// # Errors
    /// When no manager answers, or the answer is an error or cannot be read.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(path, None, DEADLINE).await
    }

    /// Posts a document.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T> {
        let body = serde_json::to_vec(body)?;
        self.call(path, Some(body.into()), DEADLINE).await
    }

    /// As [`Client::post`], where the manager has to ask clusters.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn post_long<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T> {
        let body = serde_json::to_vec(body)?;
        self.call(path, Some(body.into()), LONG_DEADLINE).await
    }

    /// Gets a file.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn get_bytes(&self, path: &str) -> Result<Bytes> {
        self.bytes(path, None, DEADLINE).await
    }

    /// What forwards a port to the manager, if it is a pod, and the address of its page with the token. The token stands where browsers send it
    /// to nobody.
    pub(crate) fn console(&self) -> (Option<String>, String) {
        let (forward, host, token) = match &self.manager {
            Manager::At(address) => (None, address.text.clone(), address.token.as_deref()),
            Manager::Leading(leader) => {
                let (forward, host) = leader.forwarded();
                (Some(forward), host, Some(leader.token()))
            }
        };
        let token =
            token.map(|token| query([("token", Some(token.to_owned()))]).replacen('?', "#", 1));
        (
            forward,
            format!("http://{host}/console/{}", token.unwrap_or_default()),
        )
    }

    async fn call<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<Bytes>,
        deadline: Duration,
    ) -> Result<T> {
        let body = self.bytes(path, body, deadline).await?;
        let place = self.place();
        serde_json::from_slice(&body)
            .with_context(|| format!("what answers at {place} is no windlass of this version"))
    }

    fn place(&self) -> &str {
        match &self.manager {
            Manager::At(address) => address.text.as_str(),
            Manager::Leading(leader) => leader.place(),
        }
    }

    async fn bytes(&self, path: &str, body: Option<Bytes>, deadline: Duration) -> Result<Bytes> {
        let place = self.place();
        let answer = async {
            match &self.manager {
                Manager::At(address) => address.exchange(path, body).await,
                Manager::Leading(leader) => leader.exchange(path, body).await,
            }
        };
        let (status, body) = match timeout(deadline, answer).await {
            Ok(answer) => answer?,
            Err(_) => bail!(
                "the manager at {place} did not answer within {} seconds",
                deadline.as_secs()
            ),
        };
        if status.is_success() {
            return Ok(body);
        }
        let message = serde_json::from_slice::<serde_json::Value>(&body)
            .ok()
            .and_then(|answer| answer["error"].as_str().map(str::to_owned))
            .unwrap_or_else(|| format!("what answers at {place} is no windlass: it said {status}"));
        bail!(message)
    }
}

/// Where a manager answers if no flag says so: the `dev` of the working folder, or the default.
async fn usual() -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let dev = admin_address::find(&here).await;
    dev.unwrap_or(ManagerSpec::DEFAULT_ADMIN).to_string()
}

/// The token of a file that a flag names.
fn given(path: &Path) -> Result<String> {
    token_file::read(path).with_context(|| format!("read the token in {}", path.display()))
}

/// A manager at an address.
struct Address {
    text: String,
    token: Option<String>,
}

impl Address {
    /// An address with or without `http://`. Without a token, the one of this user's manager at that address.
    async fn new(address: &str, token: Option<String>) -> Self {
        let text = address.strip_prefix("http://").unwrap_or(address);
        let text = text.trim_end_matches('/').to_owned();
        let token = match token {
            Some(token) => Some(token),
            // An address that cannot be resolved is reported by the call.
            None => match lookup_host(&text).await {
                Ok(mut addresses) => addresses.find_map(token_file::find),
                Err(_) => None,
            },
        };
        Self { text, token }
    }

    async fn exchange(&self, path: &str, body: Option<Bytes>) -> Result<(StatusCode, Bytes)> {
        let mut request = match body {
            Some(_) => Request::post(path).header("content-type", "application/json"),
            None => Request::get(path),
        };
        request = request.header("host", &self.text);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(body.unwrap_or_default()))?;
        let stream = TcpStream::connect(&self.text).await.with_context(|| {
            format!(
                "no manager answers at {}: start one, or name its address with --admin",
                self.text
            )
        })?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        let answer = sender
            .send_request(request)
            .await
            .context("the manager closed the connection")?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
        driver.abort();
        match body {
            Ok(body) => Ok((status, body.to_bytes())),
            Err(error) => bail!("the answer of {} could not be read: {error}", self.text),
        }
    }
}

/// A query string of the pairs that have a value.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        let Some(value) = value else { continue };
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(name);
        query.push('=');
        query.extend(percent_encoding::utf8_percent_encode(
            &value,
            percent_encoding::NON_ALPHANUMERIC,
        ));
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_given_values_are_queried_and_they_are_encoded() {
        let pairs = [
            ("cluster", Some("a/b &c".to_owned())),
            ("state", None),
            ("limit", Some("5".to_owned())),
        ];
        assert_eq!(query(pairs), "?cluster=a%2Fb%20%26c&limit=5");
        assert_eq!(query([("a", None)]), "");
    }

    #[tokio::test]
    async fn where_nobody_listens_the_remedy_is_told() {
        let address = Address::new("http://127.0.0.1:1/", None).await;
        let manager = Manager::At(address);
        let error = Client { manager }
            .get::<serde_json::Value>("/")
            .await
            .unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.starts_with(
                "no manager answers at 127.0.0.1:1: start one, or name its address with --admin"
            ),
            "{text}"
        );
    }
}
