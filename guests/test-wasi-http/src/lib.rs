//! Makes the calls of its config with a client of its own, over `wasi:http`, and returns their results. Entry point: [`Client`].
//!
//! The config is `{"http": [{"method", "url", "headers", "body", "ms", "early"}, …]}`. With `early` the body is finished before the request
//! is handed over, otherwise after that.

use serde_json::{Value, json};
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// The imports from WASI: only the functions that it calls.
#[allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
mod wasi {
    wit_bindgen::generate!({
        inline: "
            package windlass:test-wasi-http;

            world calls {
              import wasi:http/types@0.2.0;
              import wasi:http/outgoing-handler@0.2.0;
            }

            package wasi:io@0.2.0 {
              interface error {
                resource error;
              }
              interface poll {
                resource pollable {
                  block: func();
                }
              }
              interface streams {
                use error.{error};
                variant stream-error {
                  last-operation-failed(error),
                  closed,
                }
                resource input-stream {
                  blocking-read: func(len: u64) -> result<list<u8>, stream-error>;
                }
                resource output-stream {
                  blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
                }
              }
            }

            package wasi:clocks@0.2.0 {
              interface monotonic-clock {
                type duration = u64;
              }
            }

            package wasi:http@0.2.0 {
              interface types {
                use wasi:clocks/monotonic-clock@0.2.0.{duration};
                use wasi:io/streams@0.2.0.{input-stream, output-stream};
                use wasi:io/error@0.2.0.{error as io-error};
                use wasi:io/poll@0.2.0.{pollable};

                variant method { get, head, post, put, delete, connect, options, trace, patch, other(string) }
                variant scheme { HTTP, HTTPS, other(string) }

                variant error-code {
                  DNS-timeout,
                  DNS-error(DNS-error-payload),
                  destination-not-found,
                  destination-unavailable,
                  destination-IP-prohibited,
                  destination-IP-unroutable,
                  connection-refused,
                  connection-terminated,
                  connection-timeout,
                  connection-read-timeout,
                  connection-write-timeout,
                  connection-limit-reached,
                  TLS-protocol-error,
                  TLS-certificate-error,
                  TLS-alert-received(TLS-alert-received-payload),
                  HTTP-request-denied,
                  HTTP-request-length-required,
                  HTTP-request-body-size(option<u64>),
                  HTTP-request-method-invalid,
                  HTTP-request-URI-invalid,
                  HTTP-request-URI-too-long,
                  HTTP-request-header-section-size(option<u32>),
                  HTTP-request-header-size(option<field-size-payload>),
                  HTTP-request-trailer-section-size(option<u32>),
                  HTTP-request-trailer-size(field-size-payload),
                  HTTP-response-incomplete,
                  HTTP-response-header-section-size(option<u32>),
                  HTTP-response-header-size(field-size-payload),
                  HTTP-response-body-size(option<u64>),
                  HTTP-response-trailer-section-size(option<u32>),
                  HTTP-response-trailer-size(field-size-payload),
                  HTTP-response-transfer-coding(option<string>),
                  HTTP-response-content-coding(option<string>),
                  HTTP-response-timeout,
                  HTTP-upgrade-failed,
                  HTTP-protocol-error,
                  loop-detected,
                  configuration-error,
                  internal-error(option<string>),
                }
                record DNS-error-payload { rcode: option<string>, info-code: option<u16> }
                record TLS-alert-received-payload { alert-id: option<u8>, alert-message: option<string> }
                record field-size-payload { field-name: option<string>, field-size: option<u32> }

                http-error-code: func(err: borrow<io-error>) -> option<error-code>;

                variant header-error { invalid-syntax, forbidden, immutable }

                resource fields {
                  constructor();
                  append: func(name: string, value: list<u8>) -> result<_, header-error>;
                  entries: func() -> list<tuple<string, list<u8>>>;
                }
                type trailers = fields;

                resource outgoing-request {
                  constructor(headers: fields);
                  body: func() -> result<outgoing-body>;
                  set-method: func(method: method) -> result;
                  set-path-with-query: func(path-with-query: option<string>) -> result;
                  set-scheme: func(scheme: option<scheme>) -> result;
                  set-authority: func(authority: option<string>) -> result;
                }
                resource request-options {
                  constructor();
                  set-first-byte-timeout: func(duration: option<duration>) -> result;
                }
                resource incoming-response {
                  status: func() -> u16;
                  headers: func() -> fields;
                  consume: func() -> result<incoming-body>;
                }
                resource incoming-body {
                  %stream: func() -> result<input-stream>;
                  finish: static func(this: incoming-body) -> future-trailers;
                }
                resource future-trailers {
                  get: func() -> option<result<result<option<trailers>, error-code>>>;
                }
                resource outgoing-body {
                  write: func() -> result<output-stream>;
                  finish: static func(this: outgoing-body, trailers: option<trailers>) -> result<_, error-code>;
                }
                resource future-incoming-response {
                  subscribe: func() -> pollable;
                  get: func() -> option<result<result<incoming-response, error-code>>>;
                }
              }

              interface outgoing-handler {
                use types.{outgoing-request, request-options, future-incoming-response, error-code};
                handle: func(request: outgoing-request, options: option<request-options>) -> result<future-incoming-response, error-code>;
              }
            }
        ",
        world: "windlass:test-wasi-http/calls",
        generate_all,
    });
}

use wasi::wasi::http::outgoing_handler::handle;
use wasi::wasi::http::types::{
    ErrorCode, Fields, HeaderError, IncomingBody, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, RequestOptions, Scheme, http_error_code,
};
use wasi::wasi::io::streams::StreamError;

/// The guest. Its result is the message of a terminal failure.
struct Client;
windlass_sdk::guest!(Client);

impl Reconciler for Client {
    fn describe() -> Result<Description> {
        let watch =
            Watch::of(GroupVersionKind::new("v1", "ConfigMap")).labels("test.windlass.dev/run");
        Ok(Description::new("brings a client along").primary_watch(watch))
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        let config: Value = config()?;
        let calls = script::items(&config["http"]).iter();
        let answers: Value = calls
            .map(|asked| sent(asked).unwrap_or_else(told))
            .collect();
        Err(Error::terminal(script::text(&answers)))
    }
}

/// Why there is no answer.
enum Failed {
    /// In the words of the standard.
    Code(ErrorCode),
    /// A header cannot be set.
    Header(HeaderError),
    /// The host has broken the standard.
    Odd(&'static str),
}

impl From<ErrorCode> for Failed {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

fn told(failed: Failed) -> Value {
    match failed {
        Failed::Code(ErrorCode::InternalError(message)) => {
            json!({"code": "internal", "message": message})
        }
        Failed::Code(code) => json!({"code": format!("{code:?}")}),
        Failed::Header(error) => json!({"header": format!("{error:?}")}),
        Failed::Odd(what) => json!({"odd": what}),
    }
}

/// The answer to a request of the config.
fn sent(asked: &Value) -> Result<Value, Failed> {
    let request = request(asked)?;
    let body = asked["body"].as_str();
    let open = match body {
        Some(_) => Some(request.body().map_err(|()| Failed::Odd("no body"))?),
        None => None,
    };
    let is_early = asked["early"] == true;
    let open = match (open, body) {
        (Some(open), Some(body)) if is_early => finish(open, body.as_bytes()).map(|()| None)?,
        (open, _) => open,
    };
    let future = handle(request, options(asked))?;
    if let (Some(open), Some(body)) = (open, body) {
        if future.get().is_some() {
            return Err(Failed::Odd("an answer before the request"));
        }
        finish(open, body.as_bytes())?;
    }
    future.subscribe().block();
    let answer = future.get().ok_or(Failed::Odd("no answer"))?;
    let answer = answer.map_err(|()| Failed::Odd("no answer of its own"))??;
    if !matches!(future.get(), Some(Err(()))) {
        return Err(Failed::Odd("the answer twice"));
    }
    read(&answer)
}

fn request(asked: &Value) -> Result<OutgoingRequest, Failed> {
    let headers = Fields::new();
    for pair in script::items(&asked["headers"]) {
        let part = |at: usize| pair[at].as_str().unwrap_or_default();
        let appended = headers.append(part(0), part(1).as_bytes());
        appended.map_err(Failed::Header)?;
    }
    let request = OutgoingRequest::new(headers);
    let method = match asked["method"].as_str().unwrap_or_default() {
        "GET" => Method::Get,
        "POST" => Method::Post,
        other => Method::Other(other.to_owned()),
    };
    let url = asked["url"].as_str().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let scheme = match scheme {
        "http" => Scheme::Http,
        _ => Scheme::Https,
    };
    let set = request
        .set_method(&method)
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(Some(authority)))
        .and_then(|()| request.set_path_with_query(Some(path)));
    set.map_err(|()| Failed::Odd("a part of the request"))?;
    Ok(request)
}

fn options(asked: &Value) -> Option<RequestOptions> {
    let milliseconds = asked["ms"].as_u64()?;
    let options = RequestOptions::new();
    let set = options.set_first_byte_timeout(Some(milliseconds * 1_000_000));
    set.is_ok().then_some(options)
}

fn finish(open: OutgoingBody, body: &[u8]) -> Result<(), Failed> {
    let stream = open.write().map_err(|()| Failed::Odd("no stream"))?;
    for part in body.chunks(4096) {
        match stream.blocking_write_and_flush(part) {
            Ok(()) => {}
            Err(StreamError::Closed) => return Err(Failed::Odd("a closed stream")),
            Err(StreamError::LastOperationFailed(error)) => {
                let code = http_error_code(&error);
                return Err(code.map_or(Failed::Odd("another error"), Failed::Code));
            }
        }
    }
    drop(stream);
    Ok(OutgoingBody::finish(open, None)?)
}

fn read(answer: &IncomingResponse) -> Result<Value, Failed> {
    let body = answer.consume().map_err(|()| Failed::Odd("no body"))?;
    let stream = body.stream().map_err(|()| Failed::Odd("no stream"))?;
    let mut bytes = Vec::new();
    while let Ok(part) = stream.blocking_read(64 << 10) {
        bytes.extend(part);
    }
    drop(stream);
    let trailers = IncomingBody::finish(body).get();
    if !matches!(trailers, Some(Ok(Ok(None)))) {
        return Err(Failed::Odd("trailers"));
    }
    let headers = answer.headers().entries().into_iter();
    let headers =
        headers.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned().into()));
    let headers: serde_json::Map<String, Value> = headers.collect();
    // The answers must fit into the message of a failure.
    let body = (bytes.len() < 1000).then(|| String::from_utf8_lossy(&bytes));
    Ok(json!({"status": answer.status(), "headers": headers, "body": body, "bytes": bytes.len()}))
}
