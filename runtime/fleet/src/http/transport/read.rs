//! Reads the body of an answer into memory of its own size, charged as it grows. Entry point: [`read`].

use super::answers::Charge;
use super::body::Body;
use super::root_cause;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;

/// First piece of memory for a body, in bytes, however long it says to be: a server may say anything.
const FIRST: usize = 256 << 10;

/// Why a body is not read to its end.
pub(super) enum Unread {
    /// It broke.
    Broken(String),
    /// It is larger than any may be.
    TooLarge,
    /// It is larger than who pays for it admits.
    NotAdmitted(String),
    /// There is no room for so many bytes now.
    NoRoom(usize),
}

/// Reads a body of at most `limit` bytes. `charge`: what is held of it is charged there; none: to nobody. `admit`: whether who pays is asked
/// for leave.
pub(super) async fn read(
    mut body: Body,
    limit: usize,
    charge: Option<&mut Charge>,
    admit: bool,
) -> Result<Bytes, Unread> {
    let told = usize::try_from(body.size_hint().exact().unwrap_or(0)).unwrap_or(usize::MAX);
    let mut whole = Whole {
        bytes: Vec::new(),
        told,
        limit,
        charge,
        admit,
    };
    whole.check(told)?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Unread::Broken(root_cause(&error)))?;
        // Copied out: a frame may keep a much larger buffer of its connection alive.
        if let Ok(data) = frame.into_data() {
            whole.push(&data)?;
        }
    }
    Ok(whole.done())
}

struct Whole<'a> {
    bytes: Vec<u8>,
    /// How long the server says it is; 0 where it does not.
    told: usize,
    limit: usize,
    charge: Option<&'a mut Charge>,
    admit: bool,
}

impl Whole<'_> {
    fn check(&self, length: usize) -> Result<(), Unread> {
        if length > self.limit {
            return Err(Unread::TooLarge);
        }
        match &self.charge {
            Some(charge) if self.admit => charge.admits(length).map_err(Unread::NotAdmitted),
            _ => Ok(()),
        }
    }

    fn push(&mut self, data: &[u8]) -> Result<(), Unread> {
        let length = self.bytes.len() + data.len();
        self.check(length)?;
        if length > self.bytes.capacity() {
            let capacity = self.next(length);
            if let Some(charge) = &mut self.charge
                && !charge.cover(capacity)
            {
                // Asked for again, it is as likely as not to be longer.
                return Err(Unread::NoRoom(capacity.max(self.told)));
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// The capacity for a length that is beyond the present one.
    fn next(&self, length: usize) -> usize {
        let more = match self.bytes.capacity() {
            0 => FIRST,
            capacity => capacity + capacity / 2,
        };
        match self.told {
            0 if self.bytes.is_empty() => length,
            told if told >= length => length.max(more.min(told)),
            _ => length.max(more),
        }
    }

    fn done(mut self) -> Bytes {
        self.bytes.shrink_to_fit();
        if let Some(charge) = &mut self.charge {
            charge.shrink(self.bytes.capacity());
        }
        Bytes::from(self.bytes)
    }
}
