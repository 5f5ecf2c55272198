//! Bare HTTP to either server: [`Target`].

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::script::Request;

/// The manager that servers note for writes without one.
const USER_AGENT: &str = "conformance/1.0";
/// A watch ends by itself long before.
const DEADLINE: Duration = Duration::from_secs(30);

/// A server under test.
pub(crate) struct Target {
    base: String,
    token: Option<String>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) media_type: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: String,
}

impl Target {
    pub(crate) fn plain(base: &str) -> Result<Self> {
        Self::new(base, None, RootCertStore::empty())
    }

    pub(crate) fn secure(base: &str, token: &str, ca: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
            roots.add(certificate.context("read the server's CA")?)?;
        }
        Self::new(base, Some(token.to_owned()), roots)
    }

    fn new(base: &str, token: Option<String>, roots: RootCertStore) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let tls = tls.with_root_certificates(roots).with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self {
            base: base.to_owned(),
            token,
            client,
        })
    }

    /// Asks and reads the answer to its end.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Answer> {
        let given = |name: &str| {
            request
                .headers
                .iter()
                .find(|(header, _)| header == name)
                .map(|(_, value)| value.as_str())
        };
        let mut http = http::Request::builder()
            .method(request.method.as_str())
            .uri(format!("{}{}", self.base, request.path))
            .header("user-agent", USER_AGENT)
            .header(
                "content-type",
                given("Content-Type").unwrap_or("application/json"),
            )
            .header("accept", given("Accept").unwrap_or("application/json"));
        if let Some(token) = &self.token {
            http = http.header("authorization", format!("Bearer {token}"));
        }
        let http = http.body(Full::new(Bytes::from(request.body.clone())))?;
        let what = || format!("{} {}", request.method, request.path);
        tokio::time::timeout(DEADLINE, self.send(http))
            .await
            .with_context(what)?
            .with_context(what)
    }

    async fn send(&self, http: http::Request<Full<Bytes>>) -> Result<Answer> {
        let response = self.client.request(http).await?;
        let text =
            |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut warnings: Vec<String> = response
            .headers()
            .get_all("warning")
            .iter()
            .map(text)
            .collect();
        warnings.sort();
        let media_type = response.headers().get("content-type").map(text);
        let code = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Answer {
            code,
            media_type: media_type.unwrap_or_default(),
            warnings,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}
