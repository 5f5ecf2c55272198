//! Reads the body of an answer into memory of its own size, charged as it grows. Entry point: [`read`].

use super::answer_body::AnswerBody;
use super::answer_memory::Charge;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;

/// First allocation for a body, in bytes, however long the server says that it is.
const FIRST: usize = 256 << 10;

/// Why a body was not read to its end.
pub(super) enum Unread {
    /// The connection broke.
    Broken(hyper::Error),
    /// It is larger than `limit`.
    TooLarge,
    /// The account rejects an answer of this size.
    NotAdmitted(String),
    /// There is no free memory for this many bytes.
    NoRoom(usize),
}

/// Reads a body of at most `limit` bytes and charges it to `charge`, if there is one. `ask_account`: the account may reject the size.
pub(super) async fn read(
    mut body: AnswerBody,
    limit: usize,
    charge: Option<&mut Charge>,
    ask_account: bool,
) -> Result<Bytes, Unread> {
    let announced = usize::try_from(body.size_hint().exact().unwrap_or(0)).unwrap_or(usize::MAX);
    let mut buffer = Buffer {
        bytes: Vec::new(),
        announced,
        limit,
        charge,
        ask_account,
    };
    buffer.check(announced)?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(Unread::Broken)?;
        // Copied, because a frame may keep a much larger buffer of its connection alive.
        if let Ok(data) = frame.into_data() {
            buffer.push(&data)?;
        }
    }
    Ok(buffer.finish())
}

struct Buffer<'a> {
    bytes: Vec<u8>,
    /// The Content-Length; 0 if there is none.
    announced: usize,
    limit: usize,
    charge: Option<&'a mut Charge>,
    ask_account: bool,
}

impl Buffer<'_> {
    fn check(&self, length: usize) -> Result<(), Unread> {
        if length > self.limit {
            return Err(Unread::TooLarge);
        }
        match &self.charge {
            Some(charge) if self.ask_account => charge.admits(length).map_err(Unread::NotAdmitted),
            _ => Ok(()),
        }
    }

    fn push(&mut self, data: &[u8]) -> Result<(), Unread> {
        let length = self.bytes.len() + data.len();
        self.check(length)?;
        if length > self.bytes.capacity() {
            let capacity = self.next_capacity(length);
            if let Some(charge) = &mut self.charge
                && !charge.cover(capacity)
            {
                // The call is sent again with this much reserved, and its answer is likely to be at least as long.
                return Err(Unread::NoRoom(capacity.max(self.announced)));
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// The capacity for a length beyond the present capacity.
    fn next_capacity(&self, length: usize) -> usize {
        let more = match self.bytes.capacity() {
            0 => FIRST,
            capacity => capacity + capacity / 2,
        };
        match self.announced {
            0 if self.bytes.is_empty() => length,
            announced if announced >= length => length.max(more.min(announced)),
            _ => length.max(more),
        }
    }

    fn finish(mut self) -> Bytes {
        self.bytes.shrink_to_fit();
        if let Some(charge) = &mut self.charge {
            charge.shrink(self.bytes.capacity());
        }
        Bytes::from(self.bytes)
    }
}
