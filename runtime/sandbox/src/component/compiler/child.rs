//! The process that compiles one component and ends. Entry point: [`compile`].

use super::chain;
use crate::engine;
use crate::scheduler::priority::{Standing, stand_back};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::{self, Read, Write};
use std::process::ExitCode;

/// How the process ends when the component is to blame.
pub(super) const REFUSED: u8 = 3;

/// Compiles the component on standard input, and writes the machine code to standard output or what is wrong to standard
/// error. What a program does that [`crate::CompilerProcess`] starts, and all that it does: from here on the process has
/// `memory` bytes of address space and `seconds` of computing, and neither files nor core dumps.
///
/// The process may end with a signal where a limit is met.
#[must_use]
pub fn compile(memory: u64, seconds: u64) -> ExitCode {
    stand_back(Standing::Compiler); // before it starts threads, which stand as the one that starts them
    match limit(memory, seconds).and_then(|()| answer()) {
        Ok(code) => code,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn limit(memory: u64, seconds: u64) -> io::Result<()> {
    let set = |resource, most| {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).map_err(io::Error::from)
    };
    set(Resource::Core, 0)?;
    set(Resource::Fsize, 0)?;
    set(Resource::As, memory)?;
    // At the soft limit the process is told by a signal of its own; at the hard one it is killed.
    let limit = Rlimit {
        current: Some(seconds),
        maximum: Some(seconds + 1),
    };
    setrlimit(Resource::Cpu, limit).map_err(io::Error::from)
}

fn answer() -> io::Result<ExitCode> {
    let mut component = Vec::new();
    io::stdin().lock().read_to_end(&mut component)?;
    let compiled = engine::compiling().and_then(|engine| engine.precompile_component(&component));
    match compiled {
        Ok(code) => {
            let mut output = io::stdout().lock();
            output.write_all(&code)?;
            output.flush()?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            complain(&chain(&error));
            Ok(ExitCode::from(REFUSED))
        }
    }
}

/// Says something on standard error. If nobody listens there is nobody to tell.
fn complain(words: &str) {
    let _ = io::stderr().lock().write_all(words.as_bytes());
}
