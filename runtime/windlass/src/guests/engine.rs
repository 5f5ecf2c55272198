//! Where guests are compiled, and where that is kept. Entry points: [`options`] and [`start`].

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use windlass_sandbox::{CacheOptions, Compiler, CompilerProcess, Options, Sandbox, SandboxError};

/// Each component is compiled by this program in another process; the results are kept in `cache`, or where the environment
/// says that caches are. `none` keeps none.
pub(crate) fn options(cache: Option<PathBuf>) -> Options {
    let compiler = CompilerProcess::new(myself(), vec![OsString::from("compile-component")]);
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

/// This program; on Linux whatever has become of its file since it was started.
fn myself() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("windlass"))
}

/// Where the environment says that a user's caches are.
pub(crate) fn usual_cache() -> Option<PathBuf> {
    let folder = |variable| std::env::var_os(variable).map(PathBuf::from);
    let caches = folder("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let caches = caches.or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("windlass"))
}

/// Starts the sandbox. Guests run as well where nothing can be kept, so that is only told.
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
