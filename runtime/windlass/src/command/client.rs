//! A client of a running manager's API. Entry point: [`Client`].

mod leader;
mod members;
mod pod;

use crate::admin::token_file;
use crate::admin_address;
use crate::cli::AdminArgs;
use crate::config::kinds::ManagerSpec;
use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use leader::Found;
use members::Members;
use pod::Pod;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use windlass_fleet::ClusterName;

/// Longest time for an answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Longest time for an answer that the manager asks clusters for. It serves a connection no longer than that.
const LONG_DEADLINE: Duration = Duration::from_secs(30);
/// Largest answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// A call that has surely changed nothing. The messages are for people.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotDone {
    /// Nobody was called.
    #[error("no manager answers at {0}: start one, or name its address with --admin")]
    NoManager(String),
    /// The manager says why.
    #[error("{0}")]
    Refused(String),
}

/// A manager's API, at an address or in a cluster.
#[derive(Clone)]
pub(crate) struct Client {
    manager: Manager,
}

#[derive(Clone)]
enum Manager {
    At(Address),
    /// The leader, or the pod that a flag names.
    Pod(Pod),
    /// Each works on its clusters.
    Members(Members),
}

/// Why a manager does not do what is asked.
enum Failure {
    /// Its own answer.
    Refused(String),
    /// None answers there.
    Silent(anyhow::Error),
}

impl From<Failure> for anyhow::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(message) => NotDone::Refused(message).into(),
            Failure::Silent(error) => error,
        }
    }
}

impl Client {
    /// The API of the manager that the flags name.
    ///
    /// # Errors
    /// When a token cannot be read or made, or there is no leader in the cluster.
    pub(crate) async fn new(args: &AdminArgs) -> Result<Self> {
        let token = args.token.as_deref().map(given).transpose()?;
        let manager = if args.is_in_cluster() {
            match leader::find(args, token).await? {
                Found::One(pod) => Manager::Pod(pod),
                Found::Members(members) => Manager::Members(members),
            }
        } else {
            let address = match &args.admin {
                Some(address) => address.clone(),
                None => usual().await,
            };
            Manager::At(Address::new(&address, token).await)
        };
        Ok(Self { manager })
    }

    /// The process that works on a cluster, if several share the work and all may be asked.
    ///
    /// # Errors
    /// When no process works on it.
    pub(crate) async fn of(self, cluster: &ClusterName) -> Result<Self> {
        match &self.manager {
            Manager::Members(members) => Ok(Self::of_pod(members.owner(cluster).await?)),
            Manager::At(_) | Manager::Pod(_) => Ok(self),
        }
    }

    /// Every process that lives, with its name, if several share the work and all may be asked; else the one that is asked, without a name.
    ///
    /// # Errors
    /// When none answers.
    pub(crate) async fn each(&self) -> Result<Vec<(Option<String>, Self)>> {
        match &self.manager {
            Manager::Members(members) => {
                let living = members.living().await?.into_iter();
                let named = living.map(|pod| (Some(pod.name().to_owned()), Self::of_pod(pod)));
                Ok(named.collect())
            }
            Manager::At(_) | Manager::Pod(_) => Ok(vec![(None, self.clone())]),
        }
    }

    fn of_pod(pod: Pod) -> Self {
        Self {
            manager: Manager::Pod(pod),
        }
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

    /// Gets a file that one of the processes has.
    ///
    /// # Errors
    /// As [`Client::get`], when none has it.
    pub(crate) async fn find_bytes(&self, path: &str) -> Result<Bytes> {
        let mut last = Err(anyhow!("no process answers"));
        for (_, client) in self.each().await? {
            last = client.get_bytes(path).await;
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// What forwards a port to the manager, if it is a pod, and the address of its page with the token. The token stands where browsers send it
    /// to nobody.
    pub(crate) fn console(&self) -> (Option<String>, String) {
        let pod = match &self.manager {
            Manager::At(_) => None,
            Manager::Pod(pod) => Some(pod),
            Manager::Members(members) => members.first(),
        };
        let (forward, host, token) = match (&self.manager, pod) {
            (Manager::At(address), _) => (None, address.text.clone(), address.token.as_deref()),
            (_, Some(pod)) => {
                let (forward, host) = pod.forwarded();
                (Some(forward), host, Some(pod.token()))
            }
            (_, None) => (None, String::new(), None),
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
            Manager::Pod(pod) => pod.place(),
            Manager::Members(members) => members.first().map_or("", Pod::place),
        }
    }

    async fn bytes(&self, path: &str, body: Option<Bytes>, deadline: Duration) -> Result<Bytes> {
        match &self.manager {
            Manager::At(address) => {
                let answer = address.exchange(path, body);
                Ok(judge(&address.text, deadline, answer).await?)
            }
            Manager::Pod(pod) => Ok(ask(pod, path, body, deadline).await?),
            Manager::Members(members) => members.any(path, body, deadline).await,
        }
    }
}

/// The answer of a pod.
async fn ask(
    pod: &Pod,
    path: &str,
    body: Option<Bytes>,
    deadline: Duration,
) -> Result<Bytes, Failure> {
    judge(pod.place(), deadline, pod.exchange(path, body)).await
}

/// The answer of a manager, if it comes in time and is one.
async fn judge(
    place: &str,
    deadline: Duration,
    answer: impl Future<Output = Result<(StatusCode, Bytes)>>,
) -> Result<Bytes, Failure> {
    let (status, body) = match timeout(deadline, answer).await {
        Ok(answer) => answer.map_err(Failure::Silent)?,
        Err(_) => {
            let seconds = deadline.as_secs();
            return Err(Failure::Silent(anyhow!(
                "the manager at {place} did not answer within {seconds} seconds"
            )));
        }
    };
    if status.is_success() {
        return Ok(body);
    }
    let message = serde_json::from_slice::<serde_json::Value>(&body)
        .ok()
        .and_then(|answer| answer["error"].as_str().map(str::to_owned));
    Err(message.map_or_else(
        || {
            Failure::Silent(anyhow!(
                "what answers at {place} is no windlass: it said {status}"
            ))
        },
        Failure::Refused,
    ))
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
#[derive(Clone)]
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
        let stream = TcpStream::connect(&self.text).await;
        let stream = stream.with_context(|| NotDone::NoManager(self.text.clone()))?;
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
