//! The body of a request, which stays in once its pass has run out. Entry point: [`Content::new`].

use crate::http::fence::{Pass, Refused};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body in one piece. A request without its body changes nothing, so this is the last place where a write can be held back: its
/// pass is looked at when the connection takes the bytes to send them.
#[derive(Clone)]
pub(super) struct Content {
    /// Not sent yet.
    bytes: Option<Bytes>,
    pass: Option<Pass>,
}

impl Content {
    pub(super) fn new(bytes: Bytes, pass: Option<Pass>) -> Self {
        Self {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            pass,
        }
    }
}

impl Body for Content {
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
