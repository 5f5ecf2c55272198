//! Plain requests to a kcp, real or in memory. Entry point: [`Client::ask`].

use anyhow::{Context, Result, bail};
use http::Method;
use http::header::CONTENT_TYPE;
use kube_client::client::Body;
use serde_json::Value;

/// A user's requests, with paths below the server's URL: `/clusters/…` and `/services/…`.
#[derive(Clone)]
pub struct Client(kube_client::Client);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// What the server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The body as it came.
    pub text: String,
}

impl Client {
    /// A client of a kubeconfig whose server has no path.
    ///
    /// # Errors
    /// When the client cannot be built; no connection is made.
    pub async fn new(kubeconfig: &str) -> Result<Self> {
        super::super::server::client(kubeconfig).await.map(Self)
    }

    /// A client of a server without TLS and without users: the kcp in memory.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub async fn plain(url: &str) -> Result<Self> {
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: kcp\n  cluster:\n    server: {url}\n\
            contexts:\n- name: kcp\n  context:\n    cluster: kcp\n    user: nobody\nusers:\n- name: nobody\n  user: {{}}\ncurrent-context: kcp\n"
        );
        Self::new(&kubeconfig).await
    }

    /// Sends a request and reads the answer to its end. A patch is a merge patch; see [`Client::patch`] for others.
    ///
    /// # Errors
    /// When there is no answer. An answer that refuses is no error: see [`Answer::ok`].
    pub async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Answer> {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        self.send(method, path, kind, body).await
    }

    /// Reads an object, a list, or the events of a watch that the server ends.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.ask(Method::GET, path, &Value::Null).await
    }

    /// Creates an object.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn post(&self, path: &str, object: &Value) -> Result<Answer> {
        self.ask(Method::POST, path, object).await
    }

    /// Deletes an object or a collection.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.ask(Method::DELETE, path, &Value::Null).await
    }

    /// Sends a patch of a kind: `merge-patch`, `json-patch` or `apply-patch`.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn patch(&self, path: &str, kind: &str, patch: &Value) -> Result<Answer> {
        let syntax = if kind == "apply-patch" {
            "yaml"
        } else {
            "json"
        };
        let kind = format!("application/{kind}+{syntax}");
        self.send(Method::PATCH, path, &kind, patch.to_string())
            .await
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: String) -> Result<Answer> {
        let what = format!("{method} {path}");
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, kind)
            .body(Body::from(body.into_bytes()))?;
        let response = self.0.send(request).await.with_context(|| what.clone())?;
        let code = response.status().as_u16();
        let body = response.into_body().collect_bytes().await;
        let body = body.with_context(|| format!("read the answer to {what}"))?;
        Ok(Answer {
            code,
            text: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

impl Answer {
    /// The body, if the server did as asked.
    ///
    /// # Errors
    /// With the server's own words if it did not.
    pub fn ok(&self) -> Result<Value> {
        if !(200..300).contains(&self.code) {
            bail!("{}: {}", self.code, self.message());
        }
        Ok(self.json())
    }

    /// The body; `null` if it is not JSON, as of `/readyz`.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Why the server refused, in its own words.
    pub fn message(&self) -> String {
        match self.json()["message"].as_str() {
            Some(message) => message.to_owned(),
            None => self.text.clone(),
        }
    }

    /// The events of a watch.
    ///
    /// # Errors
    /// When a line is not JSON.
    pub fn events(&self) -> Result<Vec<Value>> {
        let lines = self.text.lines().filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
            .collect()
    }
}
