//! Requests: the resources `outgoing-request`, `outgoing-body` and `request-options`. Entry points: their generated traits, and [`asked`].

use super::fields::{LENGTH, is_token};
use crate::contract::wasi_http::exchange::{Asked, Exchange, SharedExchange};
use crate::contract::wasi_http::handle::{Fields, OutgoingBody, OutgoingRequest, RequestOptions};
use crate::contract::wasi_http::wasi::http::types::{
    ErrorCode, HostOutgoingBody, HostOutgoingRequest, HostRequestOptions, Method, Scheme,
};
use crate::contract::windlass::runtime::http;
use crate::instance::call::Call;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

type Request = Resource<OutgoingRequest>;
type Done = wasmtime::Result<Result<(), ()>>;

/// Most bytes that a guest may write at once.
const WRITE: usize = 64 << 10;
/// Longest part of a URL, and longest method.
const LONGEST: usize = 8 << 10;
const LONGEST_METHOD: usize = 32;

impl HostOutgoingRequest for Call {
    fn new(&mut self, headers: Resource<Fields>) -> wasmtime::Result<Request> {
        let headers = self.table.delete(headers)?.list;
        let exchange = Exchange::new(self.guest.limits.host_call_bytes, self.account());
        Ok(self.table.push(OutgoingRequest {
            method: Method::Get,
            scheme: None,
            authority: None,
            path: None,
            headers,
            exchange: Arc::new(Mutex::new(exchange)),
            has_body: false,
        })?)
    }

    fn body(&mut self, request: Request) -> wasmtime::Result<Result<Resource<OutgoingBody>, ()>> {
        let request = self.table.get_mut(&request)?;
        if std::mem::replace(&mut request.has_body, true) {
            return Ok(Err(()));
        }
        let exchange = request.exchange.clone();
        exchange.lock().open();
        Ok(Ok(self.table.push(OutgoingBody {
            exchange,
            is_written: false,
        })?))
    }

    fn method(&mut self, request: Request) -> wasmtime::Result<Method> {
        Ok(self.table.get(&request)?.method.clone())
    }

    fn set_method(&mut self, request: Request, method: Method) -> Done {
        if let Method::Other(name) = &method
            && !(is_short(name, LONGEST_METHOD) && name.bytes().all(is_token))
        {
            return Ok(Err(()));
        }
        self.table.get_mut(&request)?.method = method;
        Ok(Ok(()))
    }

    fn path_with_query(&mut self, request: Request) -> wasmtime::Result<Option<String>> {
        Ok(self.table.get(&request)?.path.clone())
    }

    fn set_path_with_query(&mut self, request: Request, path: Option<String>) -> Done {
        let is_path = |path: &String| {
            path.is_empty() || (is_url(path) && path.starts_with(['/', '?']) && !path.contains('#'))
        };
        if !path.as_ref().is_none_or(is_path) {
            return Ok(Err(()));
        }
        self.table.get_mut(&request)?.path = path;
        Ok(Ok(()))
    }

    fn scheme(&mut self, request: Request) -> wasmtime::Result<Option<Scheme>> {
        Ok(self.table.get(&request)?.scheme.clone())
    }

    fn set_scheme(&mut self, request: Request, scheme: Option<Scheme>) -> Done {
        if let Some(Scheme::Other(_)) = scheme {
            return Ok(Err(()));
        }
        self.table.get_mut(&request)?.scheme = scheme;
        Ok(Ok(()))
    }

    fn authority(&mut self, request: Request) -> wasmtime::Result<Option<String>> {
        Ok(self.table.get(&request)?.authority.clone())
    }

    fn set_authority(&mut self, request: Request, authority: Option<String>) -> Done {
        let is_one = |text: &String| is_url(text) && !text.contains(['/', '?', '#', '\\']);
        if !authority.as_ref().is_none_or(is_one) {
            return Ok(Err(()));
        }
        self.table.get_mut(&request)?.authority = authority;
        Ok(Ok(()))
    }

    fn headers(&mut self, request: Request) -> wasmtime::Result<Resource<Fields>> {
        let headers = Fields::fixed(&self.table.get(&request)?.headers);
        Ok(self.table.push(headers)?)
    }

    fn drop(&mut self, request: Request) -> wasmtime::Result<()> {
        self.table.delete(request)?;
        Ok(())
    }
}

fn is_short(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len())
}

/// Whether a text may be a part of a URL. The rules read the whole URL strictly.
fn is_url(text: &str) -> bool {
    is_short(text, LONGEST) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl HostOutgoingBody for Call {
    fn write(
        &mut self,
        body: Resource<OutgoingBody>,
    ) -> wasmtime::Result<Result<Resource<DynOutputStream>, ()>> {
        let own = self.table.get_mut(&body)?;
        if std::mem::replace(&mut own.is_written, true) {
            return Ok(Err(()));
        }
        let stream: DynOutputStream = Box::new(BodyStream(own.exchange.clone()));
        Ok(Ok(self.table.push_child(stream, &body)?))
    }

    async fn finish(
        &mut self,
        body: Resource<OutgoingBody>,
        trailers: Option<Resource<Fields>>,
    ) -> wasmtime::Result<Result<(), ErrorCode>> {
        let exchange = self.table.delete(body)?.exchange;
        if let Some(trailers) = trailers
            && !self.table.delete(trailers)?.list.pairs().is_empty()
        {
            exchange
                .lock()
                .break_off(broken("trailers are not sent: leave them out"));
        }
        let finished = exchange.lock().finish();
        match finished {
            Ok(Some(request)) => self.exchange(&exchange, request).await.map(Ok),
            Ok(None) => Ok(Ok(())),
            Err(code) => Ok(Err(code)),
        }
    }

    fn drop(&mut self, body: Resource<OutgoingBody>) -> wasmtime::Result<()> {
        let exchange = self.table.delete(body)?.exchange;
        let code = broken("the body of the request was dropped before it was finished");
        exchange.lock().break_off(code);
        Ok(())
    }
}

fn broken(why: &str) -> ErrorCode {
    ErrorCode::InternalError(Some(why.to_owned()))
}

/// The stream into a body, which is bounded.
struct BodyStream(SharedExchange);

#[wasmtime_wasi::async_trait]
impl Pollable for BodyStream {
    async fn ready(&mut self) {}
}

impl OutputStream for BodyStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > WRITE {
            return Err(StreamError::Trap(wasmtime::format_err!(
                "a write of {} bytes is more than was allowed",
                bytes.len()
            )));
        }
        self.0.lock().write(&bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE)
    }
}

/// Options have a getter and a setter each.
macro_rules! options {
    ($($field:ident $get:ident $set:ident)*) => {
        impl HostRequestOptions for Call {
            fn new(&mut self) -> wasmtime::Result<Resource<RequestOptions>> {
                Ok(self.table.push(RequestOptions::default())?)
            }

            $(
                fn $get(&mut self, options: Resource<RequestOptions>) -> wasmtime::Result<Option<u64>> {
                    Ok(self.table.get(&options)?.$field)
                }

                fn $set(&mut self, options: Resource<RequestOptions>, duration: Option<u64>) -> Done {
                    self.table.get_mut(&options)?.$field = duration;
                    Ok(Ok(()))
                }
            )*

            fn drop(&mut self, options: Resource<RequestOptions>) -> wasmtime::Result<()> {
                self.table.delete(options)?;
                Ok(())
            }
        }
    };
}

options! {
    connect connect_timeout set_connect_timeout
    first_byte first_byte_timeout set_first_byte_timeout
    between_bytes between_bytes_timeout set_between_bytes_timeout
}

/// The request of the contract, without its body.
pub(super) fn asked(
    request: OutgoingRequest,
    options: &RequestOptions,
) -> Result<Asked, ErrorCode> {
    let scheme = match request.scheme {
        Some(Scheme::Http) => "http",
        None | Some(Scheme::Https) => "https",
        Some(Scheme::Other(_)) => return Err(ErrorCode::HttpRequestUriInvalid),
    };
    let authority = request.authority.ok_or(ErrorCode::HttpRequestUriInvalid)?;
    let path = request.path.unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let (mut headers, mut length) = (Vec::new(), None);
    for (name, value) in request.headers.pairs() {
        let value = String::from_utf8_lossy(value).into_owned();
        if name.eq_ignore_ascii_case(LENGTH) {
            let said = value.parse();
            length = Some(said.map_err(|_| ErrorCode::HttpRequestBodySize(None))?);
        } else {
            headers.push((name.clone(), value));
        }
    }
    Ok(Asked {
        request: http::Request {
            method: name_of(request.method),
            url: format!("{scheme}://{authority}{slash}{path}"),
            headers,
            body: Vec::new(),
            timeout_ms: longest(options),
            options: Vec::new(),
        },
        length,
    })
}

fn name_of(method: Method) -> String {
    let name = match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Connect => "CONNECT",
        Method::Options => "OPTIONS",
        Method::Trace => "TRACE",
        Method::Patch => "PATCH",
        Method::Other(name) => return name,
    };
    name.to_owned()
}

/// The longest call that the options allow, in milliseconds. Answers come whole, so that the time until the first byte is that of all.
fn longest(options: &RequestOptions) -> Option<u32> {
    let first = options.first_byte?;
    let whole = first.saturating_add(options.connect.unwrap_or(0));
    Some(u32::try_from(whole / 1_000_000).unwrap_or(u32::MAX))
}
