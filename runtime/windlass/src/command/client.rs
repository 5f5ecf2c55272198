//! A client of a running manager's admin endpoints. Entry point: [`Client`].

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest time for an answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Largest answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// A manager's admin endpoints.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: String,
}

impl Client {
    /// The endpoints at an address, with or without `http://`.
    pub(crate) fn new(address: &str) -> Self {
        let address = address.strip_prefix("http://").unwrap_or(address);
        Self {
            address: address.trim_end_matches('/').to_owned(),
        }
    }

    /// Gets a document.
    ///
    /// # Errors
    /// When no manager listens, or the answer is an error or cannot be read.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(Request::get(path), Bytes::new()).await
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
        self.call(
            Request::post(path).header("content-type", "application/json"),
            body.into(),
        )
        .await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<T> {
        let request = request
            .header("host", &self.address)
            .body(Full::new(body))?;
        let (status, body) = match timeout(DEADLINE, self.exchange(request)).await {
            Ok(answer) => answer?,
            Err(_) => bail!(
                "the manager at {} did not answer within {} seconds",
                self.address,
                DEADLINE.as_secs()
            ),
        };
        if status.is_success() {
            return serde_json::from_slice(&body).with_context(|| {
                format!(
                    "what answers at {} is no windlass of this version",
                    self.address
                )
            });
        }
        let message = serde_json::from_slice::<serde_json::Value>(&body)
            .ok()
            .and_then(|answer| answer["error"].as_str().map(str::to_owned))
            .unwrap_or_else(|| {
                format!(
                    "what answers at {} is no windlass: it said {status}",
                    self.address
                )
            });
        bail!(message)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(hyper::StatusCode, Bytes)> {
        let stream = TcpStream::connect(&self.address).await.with_context(|| {
            format!(
                "no manager answers at {}: start one, or name its address with --admin",
                self.address
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
            Err(error) => bail!("the answer of {} could not be read: {error}", self.address),
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
        let error = Client::new("http://127.0.0.1:1/")
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
