//! A line on a terminal that shows how far the work is. Entry point: [`Progress`].

use std::io::{IsTerminal, Write};

/// The line. It is written over itself, and cleared when this is dropped. If standard error is no terminal, nothing is written.
pub(super) struct Progress {
    visible: bool,
    shown: String,
}

impl Progress {
    /// Shows nothing yet.
    pub(super) fn new() -> Self {
        Self {
            visible: std::io::stderr().is_terminal(),
            shown: String::new(),
        }
    }

    /// Shows a text in place of the one before.
    pub(super) fn show(&mut self, line: String) {
        if self.visible && line != self.shown {
            self.write(&line);
            self.shown = line;
        }
    }

    fn write(&self, line: &str) {
        let mut stderr = std::io::stderr().lock();
        // The line is for comfort: without it the work goes on.
        let _ = write!(stderr, "\r\x1b[2K{line}").and_then(|()| stderr.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.shown.is_empty() {
            self.write("");
        }
    }
}
