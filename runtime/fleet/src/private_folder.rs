//! Folders of this user alone. Entry point: [`make_private`].

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

/// Makes a folder for this user alone, or checks that it is one.
///
/// # Errors
/// When it cannot be made, or others can use it.
pub fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)?;
    let metadata = fs::symlink_metadata(path)?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if metadata.is_dir() && is_ours && metadata.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(io::Error::other(
            "it is not a folder of this user alone: make it so with mode 0700, or name another one",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_folder_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        make_private(&folder.path().join("deep/own")).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let error = make_private(folder.path()).unwrap_err();
        assert!(error.to_string().contains("0700"), "{error}");
    }
}
