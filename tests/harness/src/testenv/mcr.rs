//! The work of benches with Go's multicluster-runtime. Entry point: [`mcr`].

use super::binaries::made_from;
use anyhow::Result;
use std::path::PathBuf;

/// The program.
///
/// # Errors
/// When `tests/testenv/build mcr` did not run.
pub fn mcr() -> Result<PathBuf> {
    Ok(made_from("mcr")?.join("mcr"))
}
