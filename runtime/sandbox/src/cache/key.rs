//! The secret that authenticates entries. Entry point: [`Key`].

use super::{CacheError, check_private};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const BYTES: usize = 32;

/// Random bytes, made once for a folder, readable by this user alone.
pub(super) struct Key(hmac::Key);

impl Key {
    /// The folder's key. The first process that needs it makes it.
    pub(super) fn of(folder: &Path) -> Result<Self, CacheError> {
        let path = folder.join("key");
        let unusable = |source| CacheError::Unusable {
            path: path.clone(),
            source,
        };
        match File::open(&path) {
            Ok(file) => Self::read(&path, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(folder, &path).map_err(unusable)?;
                Self::read(&path, File::open(&path).map_err(unusable)?)
            }
            Err(error) => Err(unusable(error)),
        }
    }

    fn read(path: &Path, mut file: File) -> Result<Self, CacheError> {
        let unusable = |source| CacheError::Unusable {
            path: path.to_owned(),
            source,
        };
        check_private(path, &file.metadata().map_err(unusable)?)?;
        let mut key = [0; BYTES];
        file.read_exact(&mut key).map_err(unusable)?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }

    /// A keyed hash.
    pub(super) fn sign(&self, words: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, words)
    }

    /// Whether a hash was made with this key.
    pub(super) fn verify(&self, words: &[u8], hash: &[u8]) -> bool {
        hmac::verify(&self.0, words, hash).is_ok()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Makes a key, whole or not at all. An existing key stays.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let mut key = [0; BYTES];
    SystemRandom::new()
        .fill(&mut key)
        .map_err(|_| io::Error::other("the system gives no random bytes"))?;
    let draft = folder.join(format!("key.{}", super::entry::unique()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(&key)?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
