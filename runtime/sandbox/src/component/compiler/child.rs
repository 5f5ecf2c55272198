//! The process that compiles one component and ends. Entry point: [`compile`].

use super::functions::Functions;
use super::{chain, part};
use crate::engine;
use crate::scheduler::priority::{Priority, lower_priority};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// The exit code for a component that cannot be compiled.
pub(super) const REFUSED: u8 = 3;

/// The argument of a compiler for builds that come often.
pub(super) const OFTEN: &str = "--often";

/// Compiles the component on standard input. Writes the machine code to standard output, or an error to standard error. The program
/// that [`crate::CompilerProcess`] names calls this and nothing else. From here on the process is limited to `memory` bytes of address
/// space and `seconds` of processor time, and can write neither files nor core dumps. It yields the processors to the host. With `often`
/// somebody waits for it: it does not yield, compiles on several processors, and keeps the code of functions for the next build.
///
/// At a limit the process may end with a signal.
#[must_use]
pub fn compile(memory: u64, seconds: u64, often: bool) -> ExitCode {
    if !often {
        lower_priority(Priority::Compiler); // before it starts threads, which inherit the priority
    }
    match limit(memory, seconds).and_then(|()| answer(often)) {
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
    // At the soft limit the process gets SIGXCPU, at the hard limit SIGKILL.
    let limit = Rlimit {
        current: Some(seconds),
        maximum: Some(seconds + 1),
    };
    setrlimit(Resource::Cpu, limit).map_err(io::Error::from)
}

fn answer(often: bool) -> io::Result<ExitCode> {
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    let (functions, component) = part(&input).ok_or(io::ErrorKind::UnexpectedEof)?;
    let functions = often.then(|| Arc::new(Functions::read(functions)));
    let compiled = engine::compiling(functions.clone().map(|functions| functions as _))
        .and_then(|engine| engine.precompile_component(component));
    match compiled {
        Ok(code) => {
            let mut output = io::stdout().lock();
            output.write_all(&(code.len() as u64).to_le_bytes())?;
            output.write_all(&code)?;
            if let Some(functions) = functions {
                output.write_all(&functions.kept())?;
            }
            output.flush()?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            complain(&chain(&error));
            Ok(ExitCode::from(REFUSED))
        }
    }
}

/// Writes to standard error. A failure is ignored: the host has gone.
fn complain(words: &str) {
    let _ = io::stderr().lock().write_all(words.as_bytes());
}
