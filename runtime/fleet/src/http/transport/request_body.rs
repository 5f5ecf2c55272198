//! The body of a request, which is not sent once its pass of the fence has expired. Entry point: [`RequestBody::new`].

use crate::http::fence::{Pass, Refused};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body in one piece. A server does nothing with a write before it has the body, so this is the last place where a write can be held
/// back: the pass is checked when the connection takes the bytes.
#[derive(Clone)]
pub(super) struct RequestBody {
    /// `None` once sent, or if there is no body.
    bytes: Option<Bytes>,
    pass: Option<Pass>,
}

impl RequestBody {
    pub(super) fn new(bytes: Bytes, pass: Option<Pass>) -> Self {
        Self {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            pass,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Refused;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Refused>>> {
        let Some(bytes) = self.bytes.take() else {
            return Poll::Ready(None);
        };
        if let Some(Err(refused)) = self.pass.as_ref().map(Pass::check) {
            return Poll::Ready(Some(Err(refused)));
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
