//! Reads files that another process writes, within bounds. Entry points: [`read`] and [`open`].
//!
//! A path may lead to a pipe, a device or an endless file, and to another file a moment later. So the path is opened without waiting,
//! the open file is checked, and at most as many bytes are read as the caller allows.

use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A folder, a pipe, a device, or a file of the kernel that waits for an event.
    #[error("it is no regular file: name one")]
    Irregular,
    /// More than the caller allows.
    #[error("it has {size} bytes or more: at most {most} are read")]
    TooLarge {
        /// How large it is at least.
        size: u64,
        /// The limit.
        most: u64,
    },
    /// The process cannot open another file.
    #[error(
        "this process is out of file descriptors: raise its limit of open files (ulimit -n, LimitNOFILE)"
    )]
    NoDescriptors,
    /// Anything else that the system answers.
    #[error(transparent)]
    Io(io::Error),
}

impl FileError {
    /// Whether no file has that path.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            _ if is_exhausted(&error) => Self::NoDescriptors,
            // Regular files are always ready.
            io::ErrorKind::WouldBlock => Self::Irregular,
            _ => Self::Io(error),
        }
    }
}

/// Whether an error says that the process, or the machine, has no more descriptors.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE];
    let code = error.raw_os_error();
    exhausted
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

/// Opens a regular file for reading. Never waits.
///
/// # Errors
/// [`FileError`], but not [`FileError::TooLarge`].
pub fn open(path: &Path) -> Result<File, FileError> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(FileError::Irregular);
    }
    Ok(file)
}

/// Reads a regular file of at most so many bytes. Blocks on the file system.
///
/// # Errors
/// [`FileError`]; nothing beyond the limit is read or kept.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
    let file = open(path)?;
    let size = file.metadata()?.len();
    if size > most {
        return Err(FileError::TooLarge { size, most });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // It may have grown since, and files of the kernel's say that they have no size.
    let mut within = file.take(most.saturating_add(1));
    within.read_to_end(&mut bytes)?;
    let size = bytes.len() as u64;
    if size > most {
        return Err(FileError::TooLarge { size, most });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_no_further() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "12345").unwrap();
        assert_eq!(read(file.path(), 5).unwrap(), b"12345");
        assert!(matches!(
            read(file.path(), 4),
            Err(FileError::TooLarge { size: 5, most: 4 })
        ));
        let missing = read(&file.path().join("nothing"), 4).unwrap_err();
        assert!(!missing.is_not_found(), "a file is no folder: {missing}");
    }

    #[test]
    fn what_has_no_end_or_waits_for_somebody_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            let refused = read(path, 1 << 20);
            assert!(matches!(refused, Err(FileError::Irregular)), "{path:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_says_it_is_empty_is_read_up_to_the_limit_too() {
        let path = Path::new("/proc/self/maps");
        assert_eq!(std::fs::metadata(path).unwrap().len(), 0);
        assert!(matches!(
            read(path, 100),
            Err(FileError::TooLarge {
                size: 101,
                most: 100
            })
        ));
    }

    #[test]
    fn a_lack_of_descriptors_is_told_in_words() {
        let error = FileError::from(io::Error::from_raw_os_error(Errno::MFILE.raw_os_error()));
        assert!(matches!(error, FileError::NoDescriptors));
        assert!(error.to_string().contains("ulimit -n"), "{error}");
        let waits = FileError::from(io::Error::from(io::ErrorKind::WouldBlock));
        assert!(matches!(waits, FileError::Irregular));
    }
}
