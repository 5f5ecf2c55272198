//! Answers as hooks want them: [`reply`], and [`endless`] and [`broken`] bodies.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::{HeaderName, HeaderValue};
use http_body::Frame;
use http_body_util::{Either, StreamBody};

use super::{Answer, Cut, raw};
use crate::hook::{Reply, ReplyBody};

type Frames = BoxStream<'static, Result<Frame<Bytes>, Cut>>;

/// Time between two pieces of a slow body, where it is more than a byte per piece.
const PIECE: Duration = Duration::from_millis(100);

pub(crate) fn reply(reply: Reply) -> Answer {
    let mut answer = raw(reply.code, "application/json", Bytes::new());
    for (name, value) in reply.headers {
        let name = HeaderName::from_static(name);
        if let Ok(value) = HeaderValue::try_from(value) {
            answer.headers_mut().insert(name, value);
        }
    }
    let frames = match reply.body {
        ReplyBody::Whole(bytes) => {
            *answer.body_mut() = Either::Left(bytes.into());
            return answer;
        }
        ReplyBody::Slow { bytes, per_second } => slow(bytes, per_second.max(1)),
        ReplyBody::Cut(bytes) => broken(bytes),
        ReplyBody::Endless(bytes) => endless(bytes),
    };
    *answer.body_mut() = Either::Right(StreamBody::new(frames));
    answer
}

/// These bytes, and then the connection breaks.
pub(crate) fn broken(bytes: Bytes) -> Frames {
    // What was sent goes out before the break.
    let cut = stream::once(async {
        tokio::task::yield_now().await;
        Err(Cut)
    });
    stream::iter([Ok(Frame::data(bytes))]).chain(cut).boxed()
}

/// Repeats these bytes until the reader goes away.
pub(crate) fn endless(bytes: Bytes) -> Frames {
    stream::repeat_with(move || Ok(Frame::data(bytes.clone()))).boxed()
}

fn slow(bytes: Bytes, per_second: u32) -> Frames {
    let every_byte = Duration::from_secs(1) / per_second;
    let (every, piece) = if every_byte > PIECE {
        (every_byte, 1)
    } else {
        (PIECE, (per_second / 10).max(1) as usize)
    };
    stream::unfold(bytes, move |mut left| async move {
        if left.is_empty() {
            return None;
        }
        tokio::time::sleep(every).await;
        let piece = left.split_to(piece.min(left.len()));
        Some((Ok(Frame::data(piece)), left))
    })
    .boxed()
}
