//! The program whose clusters a test uses: `windlass fleet`, started once for a process. Entry point: [`Connection::open`].

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The variable that names the program.
const VARIABLE: &str = "WINDLASS_BIN";

/// The program of this process, and its socket. It ends with its standard input: with this process.
static PROGRAM: OnceLock<(Child, PathBuf)> = OnceLock::new();

/// A fleet of its own in the program.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects to the program, and starts it for the first connection.
    ///
    /// # Panics
    /// When there is no program: the message says how to get it.
    pub(super) fn open() -> Self {
        let (_, socket) = PROGRAM.get_or_init(start);
        let stream = UnixStream::connect(socket);
        let stream = stream.unwrap_or_else(|error| panic!("windlass fleet has ended: {error}"));
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Does something for the test.
    ///
    /// # Panics
    /// When it fails: it is a test's own mistake.
    pub(super) fn test(&mut self, asked: &Value) -> Value {
        let mut answer = self.send(&json!({ "Test": asked }));
        if let Some(problem) = answer["Err"].as_str() {
            panic!("{problem}");
        }
        answer["Ok"].take()
    }

    /// Calls a host function, as the guest.
    ///
    /// # Panics
    /// Where a component would trap.
    pub(super) fn call(&mut self, function: &Value) -> Value {
        let answer = self.send(&json!({ "Call": function }));
        if let Some(problem) = answer["Trap"].as_str() {
            panic!("{problem}");
        }
        answer
    }

    fn send(&mut self, message: &Value) -> Value {
        let mut exchange = || -> std::io::Result<Value> {
            let line = format!("{message}\n");
            self.stream.get_mut().write_all(line.as_bytes())?;
            let mut answer = String::new();
            self.stream.read_line(&mut answer)?;
            serde_json::from_str(&answer).map_err(|error| std::io::Error::other(error.to_string()))
        };
        exchange().unwrap_or_else(|error| panic!("windlass fleet has ended: {error}"))
    }
}

fn start() -> (Child, PathBuf) {
    let program = std::env::var_os(VARIABLE).unwrap_or_else(|| "windlass".into());
    let mut command = Command::new(&program);
    command
        .arg("fleet")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let child = command.spawn();
    let mut child = child.unwrap_or_else(|error| {
        let program = program.display();
        panic!(
            "the clusters of a test are those of the program windlass, and {program} cannot be started: {error}; put it on the PATH, or name it in {VARIABLE}"
        )
    });
    let mut socket = String::new();
    if let Some(output) = child.stdout.take() {
        // An error leaves the line empty.
        drop(BufReader::new(output).read_line(&mut socket));
    }
    assert!(
        !socket.is_empty(),
        "windlass fleet did not start: its message is above"
    );
    (child, PathBuf::from(socket.trim_end()))
}
