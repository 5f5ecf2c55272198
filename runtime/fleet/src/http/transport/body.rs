//! The body of an answer, which holds its place on a connection until it was read or dropped. Entry point: [`Body`].

use super::pool::Lease;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The body of an answer. That of a watch ends, as if its server had ended it, when the credentials that it was opened with are
/// no longer used.
pub(crate) struct Body {
    incoming: Incoming,
    /// Empty once the body is over.
    held: Option<(Lease, Option<OwnedSemaphorePermit>)>,
    ends: Vec<End>,
}

/// Something that ends a body before its time.
struct End {
    token: CancellationToken,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Body {
    pub(super) fn new(incoming: Incoming, lease: Lease, ends: Vec<CancellationToken>) -> Self {
        let end = |token: CancellationToken| End {
            cancelled: Box::pin(token.clone().cancelled_owned()),
            token,
        };
        Self {
            incoming,
            held: Some((lease, None)),
            ends: ends.into_iter().map(end).collect(),
        }
    }

    /// Holds a permit too for as long as it lasts.
    pub(super) fn hold(&mut self, permit: Option<OwnedSemaphorePermit>) {
        if let Some((_, held)) = &mut self.held {
            *held = permit;
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        // A busy watch is never pending, and must end all the same.
        if this.ends.iter().any(|end| end.token.is_cancelled()) {
            this.held = None;
            return Poll::Ready(None);
        }
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(over) => {
                this.held = None;
                Poll::Ready(over)
            }
            Poll::Pending => {
                let mut ended = false;
                for end in &mut this.ends {
                    ended |= end.cancelled.as_mut().poll(cx).is_ready();
                }
                if !ended {
                    return Poll::Pending;
                }
                this.held = None;
                Poll::Ready(None)
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
