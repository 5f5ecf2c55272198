//! Bases: what a tool makes once, and many saves of a guest are made of. Entry points: [`make_once`] and [`Bases`].

use super::inputs::Inputs;
use super::tool::Tool;
use super::{BuildError, io_error};
use futures::future::BoxFuture;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Why a base does not become a guest.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// The base does not take the program. In its own words.
    #[error("the base does not take the program: {0}")]
    Refused(String),
    /// Anything else.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

/// Runs bases, which is for a sandbox to do.
pub trait Bases: Send + Sync {
    /// Has the base take a program, and returns the component that it then is. `guest` is the file of the component that was made of
    /// the same base before, if there is one. Dropping the future abandons the result.
    fn snapshot<'a>(
        &'a self,
        base: &'a Path,
        guest: &'a Path,
        program: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, NotTaken>>;
}

/// The component of a base in its folder.
pub(super) fn component(folder: &Path) -> PathBuf {
    folder.join("base.wasm")
}

/// Makes a base unless it is there, or could not be made of the same inputs before. Returns whether it is there. `tool` makes it.
///
/// # Errors
/// When the tool is missing, or a file cannot be written. A tool that fails is no error.
pub(super) async fn make_once(
    inputs: &Inputs,
    folder: &Path,
    guest: &Path,
    tool: impl FnOnce() -> Result<Tool, BuildError>,
) -> Result<bool, BuildError> {
    let (component, failed) = (component(folder), folder.join("failed"));
    if inputs.made(&component) {
        return Ok(true);
    }
    if inputs.made(&failed) {
        return Ok(false);
    }
    if tool()?.ask().await?.is_some() {
        inputs.note(&component)?;
        return Ok(true);
    }
    tracing::info!(guest = %guest.display(), "no base for the guest can be made: each save builds it as a whole");
    std::fs::write(&failed, "").map_err(io_error(&failed))?;
    inputs.note(&failed)?;
    Ok(false)
}
