//! Writes a file at once. Entry point: [`replace`].

use std::path::Path;

/// Replaces the content of a file in one step, so that nobody reads half of it. A link stays one, and the file's mode stays.
///
/// # Errors
/// When the file is missing, or its folder cannot be written.
pub fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let file = file.canonicalize()?;
    let mut new = file.clone().into_os_string();
    new.push(".new");
    std::fs::write(&new, text)?;
    std::fs::set_permissions(&new, file.metadata()?.permissions())?;
    std::fs::rename(new, file)
}
