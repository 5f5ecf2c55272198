//! helm. Entry point: [`helm`].

use super::binaries::made_from;
use anyhow::Result;
use std::path::PathBuf;

/// The program.
///
/// # Errors
/// When `tests/testenv/build` did not run.
pub fn helm() -> Result<PathBuf> {
    Ok(made_from("helm")?.join("helm"))
}
