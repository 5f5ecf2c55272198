//! The body of an answer, which keeps its connection checked out until it is read or dropped. Entry point: [`AnswerBody`].

use super::pool::Checkout;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The body of an answer. The body of a watch ends early, as if its server had ended it, once the credentials that it was opened with are
/// replaced.
pub(crate) struct AnswerBody {
    incoming: Incoming,
    /// `None` once the body has ended.
    held: Option<(Checkout, Option<OwnedSemaphorePermit>)>,
    ends: Vec<End>,
}

/// Ends a body early when its token is cancelled.
struct End {
    token: CancellationToken,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl AnswerBody {
    pub(super) fn new(
        incoming: Incoming,
        checkout: Checkout,
        ends: impl IntoIterator<Item = CancellationToken>,
    ) -> Self {
        let end = |token: CancellationToken| End {
            cancelled: Box::pin(token.clone().cancelled_owned()),
            token,
        };
        Self {
            incoming,
            held: Some((checkout, None)),
            ends: ends.into_iter().map(end).collect(),
        }
    }

    /// Holds a permit until the body has ended.
    pub(super) fn hold(&mut self, permit: Option<OwnedSemaphorePermit>) {
        if let Some((_, held)) = &mut self.held {
            *held = permit;
        }
    }

    fn has_ended(&mut self, cx: &mut Context<'_>) -> bool {
        self.ends
            .iter_mut()
            .any(|end| end.cancelled.as_mut().poll(cx).is_ready())
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        // The tokens are read first: a busy watch is never pending, and must end too.
        let polled = if this.ends.iter().any(|end| end.token.is_cancelled()) {
            Poll::Ready(None)
        } else {
            match Pin::new(&mut this.incoming).poll_frame(cx) {
                Poll::Pending if this.has_ended(cx) => Poll::Ready(None),
                polled => polled,
            }
        };
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.held = None;
        }
        polled
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
