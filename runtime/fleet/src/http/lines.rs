//! Splits the body of a watch into lines as it arrives, none longer than a limit. Entry point: [`Lines::next`].

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use memchr::memchr;

/// Why there is no further line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The connection broke.
    Connection,
    /// A line is longer than this many bytes.
    LongLine(usize),
}

/// Splits a body into lines.
pub(crate) struct Lines<B> {
    body: B,
    buffer: BytesMut,
    /// Bytes at the start of `buffer` that hold no line end.
    searched: usize,
    limit: usize,
}

impl<B: Body<Data = Bytes> + Unpin> Lines<B> {
    pub(crate) fn new(body: B, limit: usize) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
            limit,
        }
    }

    /// The next line that is not empty, without its line end. `None` at the end of the body. Bytes after the last line end are dropped.
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            if let Some(line) = self.take_line() {
                if line.len() > self.limit {
                    return Err(Broken::LongLine(self.limit));
                }
                return Ok(Some(line));
            }
            if self.buffer.len() > self.limit {
                return Err(Broken::LongLine(self.limit));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(_)) => return Err(Broken::Connection),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        loop {
            let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                if self.buffer.is_empty() {
                    // A watch is idle for most of its life, and must not keep memory for its longest line.
                    self.buffer = BytesMut::new();
                }
                return None;
            };
            let line = self.buffer.split_to(self.searched + at + 1).freeze();
            self.searched = 0;
            let line = line.slice(..line.len() - 1);
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    /// The lines of a body that arrives in these parts. `None` breaks the connection.
    async fn lines(parts: &[Option<&[u8]>], limit: usize) -> (Vec<String>, Result<(), Broken>) {
        let parts: Vec<_> = parts
            .iter()
            .map(|part| match part {
                Some(data) => Ok(Frame::data(Bytes::copy_from_slice(data))),
                None => Err("broken"),
            })
            .collect();
        let mut lines = Lines::new(StreamBody::new(stream::iter(parts)), limit);
        let mut all = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => all.push(String::from_utf8_lossy(&line).into_owned()),
                Ok(None) => return (all, Ok(())),
                Err(broken) => return (all, Err(broken)),
            }
        }
    }

    #[tokio::test]
    async fn lines_come_whole_however_the_body_is_cut() {
        let text = b"one\n\r\n\ntwo\nthree\nrest";
        let parts: Vec<Option<&[u8]>> = text.chunks(1).map(Some).collect();
        let expected = ["one", "two", "three"].map(str::to_owned).to_vec();
        assert_eq!(lines(&parts, 5).await, (expected.clone(), Ok(())));
        assert_eq!(lines(&[Some(text)], 5).await, (expected, Ok(())));
    }

    #[tokio::test]
    async fn lines_before_a_break_are_given_and_half_a_line_is_not() {
        let (all, end) = lines(&[Some(b"one\ntw"), None], 10).await;
        assert_eq!(
            (all, end),
            (vec!["one".to_owned()], Err(Broken::Connection))
        );
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_refused_whether_or_not_it_ends() {
        let endless = lines(&[Some(b"one\n1234567")], 5).await;
        assert_eq!(endless, (vec!["one".to_owned()], Err(Broken::LongLine(5))));
        let ended = lines(&[Some(b"1234567\n")], 5).await;
        assert_eq!(ended, (vec![], Err(Broken::LongLine(5))));
    }
}
