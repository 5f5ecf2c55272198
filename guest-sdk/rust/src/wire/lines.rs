//! A connection to the program: lines of JSON. Entry point: [`Lines::connect`].

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A connection to the program.
#[derive(Debug)]
pub(crate) struct Lines(BufReader<UnixStream>);

impl Lines {
    pub(crate) fn connect(socket: &Path) -> io::Result<Self> {
        Ok(Self(BufReader::new(UnixStream::connect(socket)?)))
    }

    /// Sends a message, and waits for the one that answers it.
    pub(crate) fn ask(&mut self, message: &Value) -> io::Result<Value> {
        self.send(message)?;
        self.next()?.ok_or(io::ErrorKind::UnexpectedEof.into())
    }

    pub(crate) fn send(&mut self, message: &Value) -> io::Result<()> {
        let line = format!("{message}\n");
        self.0.get_mut().write_all(line.as_bytes())
    }

    /// The next message; `None`: the program has ended.
    pub(crate) fn next(&mut self) -> io::Result<Option<Value>> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        // `null` is a message too.
        let message = serde_json::from_str(&line).map(Some);
        message.map_err(|error| io::Error::other(error.to_string()))
    }

    /// Calls a host function.
    ///
    /// # Panics
    /// Where a component would trap, and when the program has ended.
    pub(crate) fn call(&mut self, function: &Value) -> Value {
        let answer = self.ask(&json!({ "Call": function }));
        let answer = answer.unwrap_or_else(|error| panic!("windlass has ended: {error}"));
        if let Some(problem) = answer["Trap"].as_str() {
            panic!("{problem}");
        }
        answer
    }
}
