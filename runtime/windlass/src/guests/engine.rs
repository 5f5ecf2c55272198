//! The sandbox's compiler process and cache. Entry points: [`options`] and [`start`].

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use windlass_sandbox::{CacheOptions, Compiler, CompilerProcess, Options, Sandbox, SandboxError};

/// Sandbox options: another process of this program compiles components, and `cache` keeps the results. Without `cache` it is the
/// user's cache folder; `none` keeps nothing. Where builds come often, only what differs from the last build is compiled.
pub(crate) fn options(cache: Option<PathBuf>, builds_often: bool) -> Options {
    let compiler = CompilerProcess {
        builds_often,
        ..CompilerProcess::new(myself(), vec![OsString::from("compile-component")])
    };
    let cache = match cache {
        Some(folder) if folder == Path::new("none") => None,
        Some(folder) => Some(folder),
        None => usual_cache(),
    };
    Options {
        compiler: Compiler::Process(compiler),
        cache: cache.map(CacheOptions::new),
        ..Options::default()
    }
}

/// The path of this program. On Linux it works even if the file was replaced or removed since the start.
fn myself() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("windlass"))
}

/// The folder in the user's cache folder, by XDG_CACHE_HOME or HOME.
pub(crate) fn usual_cache() -> Option<PathBuf> {
    let named = |variable| std::env::var_os(variable).map(PathBuf::from);
    // A relative one would be in the folder where somebody happens to be.
    let folder = |variable| named(variable).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME");
    let caches = caches.or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("windlass"))
}

/// Starts the sandbox. A cache that cannot be used is only logged: guests run without it.
///
/// # Errors
/// When the engine cannot be made on this machine.
pub(crate) fn start(options: &Options) -> Result<Sandbox> {
    let sandbox = match Sandbox::new(options.clone()) {
        Err(SandboxError::Cache(problem)) => {
            let problem = format!("{:#}", anyhow::Error::from(problem));
            tracing::warn!(
                problem,
                "every start compiles all guests: what was compiled cannot be kept"
            );
            Sandbox::new(Options {
                cache: None,
                ..options.clone()
            })
        }
        started => started,
    };
    sandbox.context("start the sandbox")
}
