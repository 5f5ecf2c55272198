//! Where faults enter: [`Hook`], asked once per request and once per watch frame.

use std::time::Duration;

use bytes::Bytes;

use crate::call::Call;

/// What becomes of a request.
#[derive(Debug, Clone, Default)]
pub enum RequestVerdict {
    /// It is answered as usual.
    #[default]
    Proceed,
    /// It is answered as usual after this long.
    Delay(Duration),
    /// It is answered with this status code and body, and the server does nothing.
    Answer {
        /// HTTP status code.
        code: u16,
        /// Seconds of a `Retry-After` header.
        retry_after: Option<u32>,
        /// The body as sent, with content type `application/json`.
        body: Bytes,
    },
    /// The connection breaks without an answer.
    Cut,
}

/// What becomes of one frame of a watch.
#[derive(Debug, Clone, Default)]
pub enum FrameVerdict {
    /// It is sent.
    #[default]
    Send,
    /// The watcher never sees it.
    Drop,
    /// These bytes are sent instead.
    Replace(Bytes),
    /// The watch breaks before it.
    Cut,
}

/// Decides about requests and watch frames. It is also the seam where access control would stand.
///
/// Called on the server's tasks, outside of any lock; it must not block.
pub trait Hook: Send + Sync + 'static {
    /// A request to `cluster`, before anything is done about it.
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        let _ = (cluster, call);
        RequestVerdict::Proceed
    }

    /// A line that a watch of `cluster` is about to send.
    fn frame(&self, cluster: &str, call: &Call, frame: &Bytes) -> FrameVerdict {
        let _ = (cluster, call, frame);
        FrameVerdict::Send
    }
}
