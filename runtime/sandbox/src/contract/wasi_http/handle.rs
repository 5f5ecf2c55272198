//! What stands behind the handles of `wasi:http`. Entry points: [`OutgoingRequest`] and [`IncomingResponse`].

use super::exchange::{Answer, Headers, Held, SharedExchange};
use super::wasi::http::types::{ErrorCode, Method, Scheme};
use bytes::Bytes;
use std::sync::Arc;
use wasmtime_wasi::p2::Pollable;

/// Headers. Each handle has a list of its own, or shares one that nobody changes any more.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct Fields {
    pub(crate) list: Arc<Headers>,
    /// Whether they belong to a request or an answer.
    pub(crate) is_fixed: bool,
}

impl Fields {
    /// Headers that the guest may change.
    pub(crate) fn own(list: Headers) -> Self {
        Self {
            list: Arc::new(list),
            is_fixed: false,
        }
    }

    /// Those of a request or an answer.
    pub(crate) fn fixed(list: &Arc<Headers>) -> Self {
        Self {
            list: list.clone(),
            is_fixed: true,
        }
    }
}

/// A request that was not handed over yet.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct OutgoingRequest {
    pub(crate) method: Method,
    pub(crate) scheme: Option<Scheme>,
    pub(crate) authority: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) headers: Arc<Headers>,
    pub(crate) exchange: SharedExchange,
    /// Whether the guest has taken the body.
    pub(crate) has_body: bool,
}

/// The body of a request.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct OutgoingBody {
    pub(crate) exchange: SharedExchange,
    /// Whether the guest has taken the stream.
    pub(crate) is_written: bool,
}

/// Time limits, in nanoseconds.
#[derive(Default)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct RequestOptions {
    pub(crate) connect: Option<u64>,
    pub(crate) first_byte: Option<u64>,
    pub(crate) between_bytes: Option<u64>,
}

/// The answer to a request, which is there once the body of the request is finished.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct FutureIncomingResponse {
    pub(crate) exchange: SharedExchange,
    /// Whether the guest has the answer.
    pub(crate) is_given: bool,
}

#[wasmtime_wasi::async_trait]
impl Pollable for FutureIncomingResponse {
    /// While a guest waits here, nothing finishes a body.
    async fn ready(&mut self) {
        if !self.is_given && !self.exchange.lock().is_answered() {
            std::future::pending().await
        }
    }
}

/// An answer.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct IncomingResponse {
    pub(crate) status: u16,
    pub(crate) headers: Arc<Headers>,
    /// Until the guest takes it.
    pub(crate) body: Option<IncomingBody>,
}

impl From<Answer> for IncomingResponse {
    fn from(answer: Answer) -> Self {
        Self {
            status: answer.status,
            headers: Arc::new(answer.headers),
            body: Some(IncomingBody {
                bytes: Some(answer.body),
                _held: answer.held,
            }),
        }
    }
}

/// The body of an answer. Its stream ends before it does.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct IncomingBody {
    /// Until the guest takes the stream.
    pub(crate) bytes: Option<Bytes>,
    pub(crate) _held: Held,
}

/// There are none.
#[derive(Default)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct FutureTrailers {
    /// Whether the guest knows.
    pub(crate) is_given: bool,
}

#[wasmtime_wasi::async_trait]
impl Pollable for FutureTrailers {
    async fn ready(&mut self) {}
}

/// What servers have. Guests serve nothing, so that there is none.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub enum OfServers {}

/// The body of a request is larger than it may be.
#[derive(Debug, thiserror::Error)]
#[error(
    "the body of the request is larger than {most} bytes: send less, or raise limits.hostCallBytes"
)]
pub(crate) struct BodyTooLarge {
    /// Most bytes.
    pub(crate) most: usize,
}

impl BodyTooLarge {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode::HttpRequestBodySize(u64::try_from(self.most).ok())
    }
}
