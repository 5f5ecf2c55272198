//! The suites of controller-runtime, built as programs. Entry point: [`controller_runtime`].

use super::binaries::made_from;
use anyhow::Result;
use std::path::PathBuf;

/// The folder of the programs, each called `<package>.test`, and of the sources below `source/`, where they run.
///
/// # Errors
/// When `tests/testenv/build controller-runtime` did not run.
pub fn controller_runtime() -> Result<PathBuf> {
    made_from("controller-runtime")
}
