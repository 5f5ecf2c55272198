//! What a program writes, as it comes. Entry point: [`Lines`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::watch;

/// Which of its two outputs a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people and pipes: results.
    Stdout,
    /// Logs and errors.
    Stderr,
}

/// What the program has written, in the order in which it arrived.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) all: Arc<Mutex<Vec<(Output, String)>>>,
    // Says that `all` or `open` has changed.
    pub(super) changed: watch::Sender<()>,
    // Outputs that may still bring lines.
    pub(super) open: Arc<AtomicUsize>,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self {
            all: Arc::default(),
            changed: watch::Sender::new(()),
            open: Arc::new(AtomicUsize::new(2)),
        }
    }

    /// Reads one of the two outputs to its end.
    pub(super) async fn collect(self, output: Output, stream: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while reader
            .read_until(b'\n', &mut line)
            .await
            .is_ok_and(|read| read > 0)
        {
            let text = String::from_utf8_lossy(&line)
                .trim_end_matches(['\n', '\r'])
                .to_owned();
            line.clear();
            self.all.lock().push((output, text));
            self.changed.send_replace(());
        }
        self.open.fetch_sub(1, Ordering::Release);
        self.changed.send_replace(());
    }
}
