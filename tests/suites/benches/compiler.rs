//! An engine that compiles in a process of its own, as the program's does. Entry points: [`engine`] and [`compile_if_asked`].

use anyhow::Result;
use std::path::Path;
use windlass_sandbox::{CacheOptions, Compiler, CompilerProcess, Options, Sandbox};

const COMPILE: &str = "--compile";

/// Where this process was started as a compiler: compiles, and ends the process.
pub(crate) fn compile_if_asked() -> bool {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [first, memory, seconds, often @ ..] = args.as_slice() else {
        return false;
    };
    let (Ok(memory), Ok(seconds)) = (memory.parse(), seconds.parse()) else {
        return false;
    };
    if first != COMPILE {
        return false;
    }
    let _ = windlass_sandbox::compile(memory, seconds, !often.is_empty());
    true
}

/// An engine that keeps what it compiled in a folder, if there is one.
pub(crate) fn engine(cache: Option<&Path>) -> Result<Sandbox> {
    let program = std::env::current_exe()?;
    let compiler = CompilerProcess::new(program, vec![COMPILE.into()]);
    Ok(Sandbox::new(Options {
        compiler: Compiler::Process(compiler),
        cache: cache.map(CacheOptions::new),
        ..Options::default()
    })?)
}
