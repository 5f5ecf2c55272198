//! Compiles components to machine code, in another process. Entry points: [`run`], and [`compile`] for that process.
//!
//! An author can make a component that takes any amount of memory and time to compile. So the process has limits of the operating
//! system. Its output is run unchecked, like the entries of a [cache](crate::CacheOptions).
//!
//! It is sent the functions of the build before, with their length before them, and then the component. It answers with the machine code,
//! with its length before it, and then with the functions for the next build. Without [`CompilerProcess::builds_often`] there are none.

mod child;
mod functions;
mod parent;

pub use child::compile;

use crate::instance::memory::Size;
use crate::options::Compiler;
#[cfg(doc)]
use crate::options::CompilerProcess;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Why a component was not compiled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    #[error("the compiler {} cannot be started or talked to", .program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The compiler's message about the component.
    #[error("{0}")]
    Refused(String),
    #[error("it needs more than {}", Size(usize::try_from(*.0).unwrap_or(usize::MAX)))]
    Memory(u64),
    #[error("it takes longer than {0:?}")]
    Time(Duration),
    #[error(
        "the compiler was not done after {0:?}: other programs of this machine leave it too little of the processors"
    )]
    Starved(Duration),
    #[error("it makes more than {} of machine code", Size(*.0))]
    Code(usize),
    #[error("the compiler ended with {status}{}", first_line(.words))]
    Crashed { status: ExitStatus, words: String },
}

fn first_line(words: &str) -> String {
    match words.lines().next() {
        Some(line) if !line.is_empty() => format!(": {line}"),
        _ => String::new(),
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &wasmtime::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    causes.join(": ")
}

/// A component that was compiled.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) code: Vec<u8>,
    /// The code of its functions, for the next build of its file. Empty without [`CompilerProcess::builds_often`].
    pub(crate) functions: Vec<u8>,
}

/// Compiles a component for an engine, with the functions of the build before.
pub(crate) async fn run(
    compiler: &Compiler,
    engine: &Engine,
    component: bytes::Bytes,
    functions: Vec<u8>,
) -> Result<Compiled, CompileError> {
    let engine = match compiler {
        Compiler::Process(process) => return parent::run(process, component, functions).await,
        Compiler::InProcess => engine.clone(),
    };
    let compiling = tokio::task::spawn_blocking(move || engine.precompile_component(&component));
    let functions = Vec::new();
    match compiling.await {
        Ok(Ok(code)) => Ok(Compiled { code, functions }),
        Ok(Err(error)) => Err(CompileError::Refused(chain(&error))),
        Err(error) => Err(CompileError::Refused(format!(
            "the compiler panicked: {error}"
        ))),
    }
}

/// Bytes of a length, little-endian.
const LENGTH: usize = 8;

/// Bytes that have their length before them, and what follows. `None`: they end too early.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

/// Loads machine code into an engine.
///
/// The engine checks that the code was made for an engine like it. Nothing can check that a compiler made it. The callers' bytes come from
/// the compiler above, or from the cache, whose entries are authenticated.
#[expect(
    unsafe_code,
    reason = "compiled code is run unchecked: this is the one place that loads it"
)]
pub(crate) fn load(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the compiler made `code` in a process of this user, see above.
    unsafe { Component::deserialize(engine, code) }
}
