//! Traces to a collector, by OTLP over HTTP, as the environment asks for. Entry point: [`Traces::from_environment`].
//!
//! Off, unless `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` names a collector. Names and defaults are those of
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>. What the collector does not take in time is dropped.

use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::env;
use std::fmt;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// Names the collector for traces alone. Its path is taken as it is.
const ENDPOINT_OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Names the collector.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const PROTOCOL_OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
/// The one protocol that is spoken.
const HTTP: &str = "http/protobuf";
/// Time for what is left when the program ends.
const LAST: Duration = Duration::from_secs(3);
/// Time for one request to a collector.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer of a collector, in bytes.
const LARGEST: usize = 1 << 20;

/// Why traces that the environment asks for cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TracesError {
    /// Another protocol.
    #[error(
        "{variable} is {protocol}, but traces are sent as {HTTP} only: set it so, and name the collector's port for HTTP, which is usually 4318"
    )]
    Protocol {
        variable: &'static str,
        protocol: String,
    },
    /// The exporter refuses its variables.
    #[error("the variables OTEL_EXPORTER_OTLP_* cannot be used")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// No authorities.
    #[error("the system's certificate authorities cannot be read: set SSL_CERT_FILE")]
    Authorities(#[source] std::io::Error),
}

/// Spans on their way to a collector.
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts what the environment asks for; none: it asks for no traces.
    ///
    /// # Errors
    /// If it asks for what cannot be done.
    pub(crate) fn from_environment(runtime: &Handle) -> Result<Option<Self>, TracesError> {
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value == "true")
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        let is_named = [ENDPOINT_OF_TRACES, ENDPOINT]
            .iter()
            .any(|name| variable(name).is_some());
        if is_off || !is_named {
            return Ok(None);
        }
        let names = [PROTOCOL_OF_TRACES, PROTOCOL];
        let protocol = names.iter().find_map(|name| Some((*name, variable(name)?)));
        if let Some((variable, protocol)) = protocol.filter(|(_, protocol)| protocol != HTTP) {
            return Err(TracesError::Protocol { variable, protocol });
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(runtime)?)
            .build()?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource());
        Ok(Some(Self(provider.build())))
    }

    /// The layer that makes spans of runs and of their calls.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("windlass"))
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(windlass_fleet::trace::is_traced))
    }

    /// Sends what is left, for at most three seconds. Blocks.
    pub(crate) fn end(self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST) {
            tracing::warn!(%error, "the last traces may be lost");
        }
    }
}

/// What the spans are of. OTEL_RESOURCE_ATTRIBUTES comes before what is known here, and OTEL_SERVICE_NAME before both.
fn resource() -> Resource {
    let mut resource = Resource::builder_empty()
        .with_service_name("windlass")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detector(Box::new(TelemetryResourceDetector));
    if let Some(pod) = variable("POD_NAME") {
        resource = resource.with_attribute(KeyValue::new("service.instance.id", pod));
    }
    let resource = resource.with_detector(Box::new(EnvResourceDetector::new()));
    match variable("OTEL_SERVICE_NAME") {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

/// The value of a variable; none: it is not set, or empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// HTTP to a collector. The exporter has a thread of its own, and the connection is in the host's runtime.
struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
}

impl Collector {
    fn new(runtime: &Handle) -> Result<Self, TracesError> {
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()
            .map_err(TracesError::Authorities)?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            runtime: runtime.clone(),
        })
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

#[async_trait::async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let exchange = async move {
            let answer = client.request(request.map(Full::new)).await?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, LARGEST).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let exchange = async { tokio::time::timeout(PATIENCE, exchange).await? };
        self.runtime.spawn(exchange).await?
    }
}
