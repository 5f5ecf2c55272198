//! Tools that the program gets by itself, once for a user, from the Python package index. Entry point: [`venv`].

use super::tool::Tool;
use super::{BuildError, io_error, lock};
use crate::engine::usual_cache;
use std::path::{Path, PathBuf};

/// Where tools are kept, if not in the user's cache.
const VARIABLE: &str = "WINDLASS_TOOLS";

const PYTHON: &str = "install Python 3.10 or later with venv: apt-get install python3-venv";

/// The folder of programs of a virtual environment that has this package in this version. It is made when it is not there.
///
/// # Errors
/// When Python is missing or the package cannot be had.
pub(super) async fn venv(
    guest: &Path,
    package: &str,
    version: &str,
) -> Result<PathBuf, BuildError> {
    let tools = tools(guest);
    std::fs::create_dir_all(&tools).map_err(io_error(&tools))?;
    let venv = tools.join(format!("{package}-{version}"));
    let (programs, complete) = (venv.join("bin"), venv.join("complete"));
    if complete.is_file() {
        return Ok(programs);
    }
    // Another build may be making it.
    let _lock = lock(&tools.join(format!("{package}-{version}.lock"))).await?;
    if complete.is_file() {
        return Ok(programs);
    }
    Tool::new("python3", guest, PYTHON)
        .args(["-m", "venv", "--clear"])
        .arg(&venv)
        .run()
        .await?;
    Tool::new(programs.join("python"), guest, PYTHON)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .arg(format!("{package}=={version}"))
        .run()
        .await?;
    std::fs::write(&complete, "").map_err(io_error(&complete))?;
    Ok(programs)
}

/// A machine without a home has them in the project.
fn tools(guest: &Path) -> PathBuf {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let usual = || usual_cache().map(|cache| cache.join("tools"));
    let tools = named
        .or_else(usual)
        .unwrap_or_else(|| guest.join(".windlass/tools"));
    std::path::absolute(&tools).unwrap_or(tools)
}
