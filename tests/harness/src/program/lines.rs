//! The output of a running program. Entry point: [`Lines`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::watch;

/// The output that a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people and pipes: results.
    Stdout,
    /// Logs and errors.
    Stderr,
}

/// The lines of the program, in the order in which they arrived.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) all: Arc<Mutex<Vec<(Output, String)>>>,
    // Notifies about changes of `all` or `open`.
    pub(super) changed: watch::Sender<()>,
    // The number of outputs that are still open.
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
