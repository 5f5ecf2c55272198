//! Components into machine code, in a process of its own. Entry points: [`run`], and [`compile`] for that process.
//!
//! A component is made by somebody else, and compiling one can be made to take any amount of memory and time. So it happens
//! elsewhere, under limits of the system; what comes back is run as it is, as is what a [cache](crate::CacheOptions) holds.

mod child;
mod parent;

pub use child::compile;

use crate::instance::memory::Size;
use crate::options::Compiler;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Why there is no machine code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    #[error("the compiler {} cannot be started or talked to", .program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// What the compiler says about the component.
    #[error("{0}")]
    Refused(String),
    #[error("it needs more than {}", Size(usize::try_from(*.0).unwrap_or(usize::MAX)))]
    Memory(u64),
    #[error("it takes longer than {0:?}")]
    Time(Duration),
    #[error("it makes more than {} of machine code", Size(*.0))]
    Code(usize),
    #[error("the compiler ended with {status}{}", said(.words))]
    Crashed { status: ExitStatus, words: String },
}

fn said(words: &str) -> String {
    match words.lines().next() {
        Some(line) if !line.is_empty() => format!(": {line}"),
        _ => String::new(),
    }
}

/// The compiler's words for an error.
pub(crate) fn chain(error: &wasmtime::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    causes.join(": ")
}

/// Machine code for an engine.
pub(crate) async fn run(
    compiler: &Compiler,
    engine: &Engine,
    component: bytes::Bytes,
) -> Result<Vec<u8>, CompileError> {
    let engine = match compiler {
        Compiler::Process(process) => return parent::run(process, component).await,
        Compiler::InProcess => engine.clone(),
    };
    let compiling = tokio::task::spawn_blocking(move || engine.precompile_component(&component));
    match compiling.await {
        Ok(compiled) => compiled.map_err(|error| CompileError::Refused(chain(&error))),
        Err(error) => Err(CompileError::Refused(format!(
            "the compiler panicked: {error}"
        ))),
    }
}

/// Machine code as a component of an engine.
///
/// The engine checks that the code was made for one like it; that it was made by a compiler cannot be checked. The callers'
/// bytes come from the compiler above, or out of the cache, which hands out only what this user's hosts have put there.
#[expect(
    unsafe_code,
    reason = "compiled code is run as it is: the one place where it is taken over"
)]
pub(crate) fn load(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `code` is what the compiler made in a process of this user, see above.
    unsafe { Component::deserialize(engine, code) }
}
