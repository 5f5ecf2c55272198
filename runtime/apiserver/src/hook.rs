//! Where faults enter: [`Hook`], asked about every request, every answer and every watch frame.
//!
//! [`Faults`](crate::Faults) is a hook of rules; a hook of your own is for what rules cannot say.

use std::time::Duration;

use bytes::Bytes;

use crate::call::Call;

/// The fate of a request.
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
    /// It is answered like this, and the server does nothing.
    Reply(Reply),
    /// Reads and watches see the state of this many changes ago, or of the oldest change that is kept.
    /// Other requests are answered as usual.
    Behind(u64),
    /// As [`Behind`](Self::Behind), but lists leave out what is not there any more: what a reader has late, and what it may have missed.
    BehindLiving(u64),
    /// The connection breaks without an answer.
    Cut,
    /// Nothing is done and no answer comes, for as long as the client waits and the cluster is served.
    Silence,
}

/// The fate of an answer that is not a watch.
#[derive(Debug, Clone, Default)]
pub enum AnswerVerdict {
    /// It is sent.
    #[default]
    Send,
    /// The connection breaks instead: what was asked for is done, and the client cannot know.
    Lose,
    /// This is sent instead.
    Reply(Reply),
}

/// An answer of a hook's own.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status code.
    pub code: u16,
    /// Further headers; such as cannot be sent are left out. The content type is `application/json`.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: ReplyBody,
}

/// How the body of a [`Reply`] goes out.
#[derive(Debug, Clone)]
pub enum ReplyBody {
    /// At once.
    Whole(Bytes),
    /// At a rate.
    Slow {
        /// What is sent.
        bytes: Bytes,
        /// Bytes per second; 0 counts as 1.
        per_second: u32,
    },
    /// These bytes, and then the connection breaks.
    Cut(Bytes),
    /// These bytes again and again until the client goes.
    Endless(Bytes),
}

/// The fate of one frame of a watch.
#[derive(Debug, Clone, Default)]
pub enum FrameVerdict {
    /// It is sent.
    #[default]
    Send,
    /// It is sent after this long, and all behind it later still.
    Delay(Duration),
    /// It waits this long, and all behind it too; then the hook is asked about it again.
    Later(Duration),
    /// The watcher never sees it.
    Drop,
    /// These bytes are sent instead.
    Replace(Bytes),
    /// The watch ends before it, as one does whose time is over.
    End,
    /// The watch breaks before it.
    Cut,
    /// These bytes are sent instead, and then the watch breaks.
    CutAfter(Bytes),
    /// These bytes are sent instead, again and again until the client goes.
    Endless(Bytes),
    /// Neither it nor anything behind it is sent, and the connection stays open.
    Silence,
}

/// Decides about requests, answers and watch frames. It is also the seam where access control would stand.
///
/// Called on the server's tasks, outside of any lock; it must not block.
pub trait Hook: Send + Sync + 'static {
    /// A request to `cluster`, before anything is done about it.
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        let _ = (cluster, call);
        RequestVerdict::Proceed
    }

    /// A request to `cluster` that goes on, with its body, before anything is done about it.
    fn received(&self, cluster: &str, call: &Call, body: &Bytes) {
        let _ = (cluster, call, body);
    }

    /// An answer of `cluster` other than a watch's, whole, before it is sent.
    fn answer(&self, cluster: &str, call: &Call, body: &Bytes) -> AnswerVerdict {
        let _ = (cluster, call, body);
        AnswerVerdict::Send
    }

    /// A line that a watch of `cluster` is about to send.
    fn frame(&self, cluster: &str, call: &Call, frame: &Bytes) -> FrameVerdict {
        let _ = (cluster, call, frame);
        FrameVerdict::Send
    }
}
