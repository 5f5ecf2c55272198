//! The contract's WIT for a build. Entry point: [`folder`].

use super::{BuildError, io_error, state_folder};
use crate::embedded;
use std::path::{Path, PathBuf};

/// The folder of the WIT that a guest is built against. It is the WIT of the SDK in its project, which matches the SDK's bindings, or
/// else this program's WIT, written into its `.windlass`.
pub(super) fn folder(guest: &Path) -> Result<PathBuf, BuildError> {
    let own = guest.join("sdk/wit");
    if own.is_dir() {
        return Ok(own);
    }
    let folder = state_folder(guest).map_err(io_error(guest))?.join("wit");
    std::fs::create_dir_all(&folder).map_err(io_error(&folder))?;
    for (name, bytes) in embedded::below("wit") {
        let path = folder.join(name);
        if std::fs::read(&path).is_ok_and(|old| old == bytes) {
            continue;
        }
        std::fs::write(&path, bytes).map_err(io_error(&path))?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projects_own_contract_comes_first() {
        let guest = tempfile::tempdir().unwrap();
        let written = folder(guest.path()).unwrap();
        assert!(
            written.join("worlds.wit").is_file()
                && written.starts_with(guest.path().join(".windlass"))
        );
        std::fs::create_dir_all(guest.path().join("sdk/wit")).unwrap();
        assert_eq!(folder(guest.path()).unwrap(), guest.path().join("sdk/wit"));
    }
}
