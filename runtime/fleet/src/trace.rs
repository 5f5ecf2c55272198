//! Traces: the spans of runs and of their calls, and how servers continue them. Entry point: [`is_traced`].
//!
//! A run is the span `reconcile`; each call of its client is a child. The fields of a call are `verb`, `cluster`, `kind`, `namespace` and
//! `name` where the caller gives them, `url.path` if a server is to be asked, and `error.type` with the code of an error. No field has a part of
//! an object. Without a tracer the spans of calls cost a check of a flag.
//!
//! Servers get the header `traceparent` (<https://www.w3.org/TR/trace-context/>), if a tracer makes the span of the call OpenTelemetry's
//! current one, as `tracing-opentelemetry` does.

use crate::api::ApiError;
use crate::kind::GroupVersionKind;
use crate::name::ClusterName;
use crate::request::ObjectKey;
use http::{HeaderName, HeaderValue};
use opentelemetry::trace::TraceContextExt as _;
use tracing::field::Empty;
use tracing::{Metadata, Span};

/// The name of the span of a run.
pub(crate) const RUN: &str = "reconcile";
/// The target of the spans of calls.
const CALLS: &str = "windlass::calls";
/// The header that continues a trace.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Whether a span is that of a run or of one of its calls: what a tracer should enable.
#[must_use]
pub fn is_traced(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && (metadata.target() == CALLS || metadata.name() == RUN)
}

/// The span of a call that begins.
pub(crate) fn call(
    verb: &'static str,
    cluster: &ClusterName,
    kind: &GroupVersionKind,
    key: Option<&ObjectKey>,
) -> Span {
    tracing::trace_span!(
        target: CALLS,
        "call",
        "otel.name" = verb,
        "otel.kind" = "client",
        "otel.status_code" = Empty,
        "error.type" = Empty,
        "url.path" = Empty,
        verb,
        %cluster,
        %kind,
        namespace = key.and_then(|key| key.namespace.as_deref()),
        name = key.map(|key| &*key.name),
    )
}

/// The span of a call to a server that is no API server.
pub(crate) fn outside(method: &str, origin: &str, path: &str) -> Span {
    tracing::trace_span!(
        target: CALLS,
        "call",
        "otel.name" = method,
        "otel.kind" = "client",
        "otel.status_code" = Empty,
        "error.type" = Empty,
        "http.response.status_code" = Empty,
        "server.address" = origin,
        "url.path" = path,
        verb = "http",
    )
}

/// Notes in the span of the call that it asks a server for a path, whose query is left out.
pub(crate) fn asked(path: &str) {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    Span::current().record("url.path", path);
}

/// Notes how a call ended.
pub(crate) fn answered<T>(span: &Span, result: &Result<T, ApiError>) {
    if let Err(error) = result {
        failed(span, error.code.as_str());
    }
}

/// Notes that a call or a run failed, and how.
pub(crate) fn failed(span: &Span, how: &str) {
    span.record("error.type", how);
    span.record("otel.status_code", "ERROR");
}

/// The value of `traceparent` for a request that is sent now.
pub(crate) fn parent() -> Option<HeaderValue> {
    let context = opentelemetry::Context::current();
    let span = context.span();
    let span = span.span_context();
    if !span.is_valid() {
        return None;
    }
    let flags = span.trace_flags() & opentelemetry::TraceFlags::SAMPLED;
    let (trace, id) = (span.trace_id(), span.span_id());
    HeaderValue::try_from(format!("00-{trace}-{id}-{flags:02x}")).ok()
}
