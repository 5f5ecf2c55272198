//! Components into machine code, in a process of its own. Entry points: [`run`], and [`compile`] for that process.
//!
//! A component is made by somebody else, and compiling one can be made to take any amount of memory and time. So it happens
//! elsewhere, under limits of the system; what comes back is run as it is, as is what a [cache](crate::CacheOptions) holds.

mod child;
mod parent;
mod pieces;

pub use child::compile;

use crate::memory::Size;
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
    let compiling = tokio::task::spawn_blocking(move || machine_code(&engine, &component));
    match compiling.await {
        Ok(compiled) => compiled.map_err(|error| CompileError::Refused(chain(&error))),
        Err(error) => Err(CompileError::Refused(format!(
            "the compiler panicked: {error}"
        ))),
    }
}

/// Machine code of a component [in pieces](pieces::in_pieces).
fn machine_code(engine: &Engine, component: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let compiled = pieces::in_pieces(component)
        .map_err(wasmtime::Error::from)
        .and_then(|pieces| engine.precompile_component(&pieces));
    let Err(error) = compiled else {
        return compiled;
    };
    // What is wrong with it is told by its own bytes: in pieces it has others.
    engine.precompile_component(component).and(Err(error))
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
    // SAFETY: `code` is what `machine_code` made in a process of this user, see above.
    unsafe { Component::deserialize(engine, code) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pieces::{in_pieces, with_a_fill};

    #[test]
    fn code_is_made_of_what_can_be_interrupted() {
        let engine = crate::engine::compiling().unwrap();
        let component = with_a_fill(true);
        let pieces = in_pieces(&component).unwrap();
        assert_ne!(pieces, component);
        let code = machine_code(&engine, &component).unwrap();
        assert!(code == engine.precompile_component(&pieces).unwrap());
    }

    #[test]
    fn what_is_wrong_is_told_by_the_components_own_bytes() {
        let engine = crate::engine::compiling().unwrap();
        let component = with_a_fill(false);
        let refused = chain(&machine_code(&engine, &component).unwrap_err());
        let own = chain(&engine.precompile_component(&component).unwrap_err());
        assert_eq!(refused, own);
        let pieces = in_pieces(&component).unwrap();
        assert_ne!(
            chain(&engine.precompile_component(&pieces).unwrap_err()),
            own
        );
    }
}
