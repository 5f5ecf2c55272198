//! Standard output and error of guests with WASI, line by line into the log. Entry point: [`Stdio`].
//!
//! The library's streams start a task each and grow without bound, so this is not one of them.

use super::Journal;
use crate::contract::windlass::runtime::log::Level;
use bytes::Bytes;
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// Longest line, in bytes. Longer ones are broken.
const LINE: usize = 4096;
/// Most bytes that a guest may write at once.
const WRITE: usize = 64 << 10;

/// One of the two streams. Clones share the unfinished line.
#[derive(Debug, Clone)]
pub(crate) struct Stdio {
    journal: Journal,
    level: Level,
    line: Arc<Mutex<Vec<u8>>>,
}

impl Stdio {
    /// Standard output: lines of level info.
    pub(crate) fn output(journal: Journal) -> Self {
        Self {
            journal,
            level: Level::Info,
            line: Arc::default(),
        }
    }

    /// Standard error: lines of level warn.
    pub(crate) fn errors(journal: Journal) -> Self {
        Self {
            journal,
            level: Level::Warn,
            line: Arc::default(),
        }
    }

    /// Writes the unfinished line.
    pub(crate) fn flush_rest(&self) {
        self.flush_line(&mut self.line.lock());
    }

    fn accept(&self, bytes: &[u8]) {
        let mut line = self.line.lock();
        for byte in bytes {
            if *byte == b'\n' || line.len() >= LINE {
                self.flush_line(&mut line);
            }
            if *byte != b'\n' {
                line.push(*byte);
            }
        }
    }

    fn flush_line(&self, line: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        if !text.is_empty() {
            self.journal.write(self.level, text, &[]);
        }
        line.clear();
    }
}

impl Drop for Stdio {
    /// The last clone writes the unfinished line.
    fn drop(&mut self) {
        if Arc::strong_count(&self.line) == 1 {
            let line = self.line.clone();
            self.flush_line(&mut line.lock());
        }
    }
}

impl IsTerminal for Stdio {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stdio {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Stdio {
    async fn ready(&mut self) {}
}

impl OutputStream for Stdio {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > WRITE {
            return Err(StreamError::Trap(wasmtime::format_err!(
                "a write of {} bytes is more than was allowed",
                bytes.len()
            )));
        }
        self.accept(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE)
    }
}

impl AsyncWrite for Stdio {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.accept(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_the_last_one_needs_no_end() {
        let journal = Journal::new(10_000, None);
        let mut stream = Stdio::errors(journal.clone());
        stream.level = Level::Error; // so that the test can read the line
        stream.accept(b"hel");
        stream.accept(b"lo\nwor");
        assert_eq!(journal.finish().last_error.as_deref(), Some("hello"));
        drop(stream);
        assert_eq!(journal.finish().last_error.as_deref(), Some("wor"));
    }

    #[test]
    fn a_line_without_end_is_broken() {
        let journal = Journal::new(100_000, None);
        let mut stream = Stdio::output(journal.clone());
        stream.level = Level::Error;
        stream.accept(&[b'x'; LINE + 1]);
        assert_eq!(
            journal.finish().last_error.map(|line| line.len()),
            Some(LINE)
        );
    }
}
