//! The program whose clusters a test uses: `windlass fleet`, started once for a process. Entry point: [`connect`].

use crate::wire::Lines;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The variable that names the program.
const VARIABLE: &str = "WINDLASS_BIN";

/// The program of this process, and its socket. It ends with its standard input: with this process.
static PROGRAM: OnceLock<(Child, PathBuf)> = OnceLock::new();

/// Connects to the program, and starts it for the first connection: each one is a fleet of its own.
///
/// # Panics
/// When there is no program: the message says how to get it.
pub(super) fn connect() -> Lines {
    let (_, socket) = PROGRAM.get_or_init(start);
    Lines::connect(socket).unwrap_or_else(|error| panic!("windlass fleet has ended: {error}"))
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
