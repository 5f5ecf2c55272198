//! One file of the cache: a keyed hash, then the code. Entry points: [`read`] and [`write`].

use super::check_private;
use super::key::Key;
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_fleet::Digest;

/// Bytes of the hash.
const HASH: usize = 32;

/// The name of an entry. It is hashed too, so that a file that was moved to another name is ignored.
pub(super) struct Name<'a> {
    pub(super) fingerprint: &'a str,
    pub(super) digest: &'a Digest,
}

impl Name<'_> {
    /// The input of the keyed hash: the name, and a hash of the code.
    fn words(&self, code: &[u8]) -> Vec<u8> {
        let mut words = self.fingerprint.as_bytes().to_vec();
        words.push(b' ');
        words.extend_from_slice(self.digest.as_bytes());
        words.extend_from_slice(Digest::of(code).as_bytes());
        words
    }
}

/// The code, if the file was written for this name with this key.
pub(super) fn read(path: &Path, key: &Key, name: &Name<'_>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    check_private(path, &metadata).map_err(io::Error::other)?;
    let mut hash = [0; HASH];
    file.read_exact(&mut hash)?;
    let size = usize::try_from(metadata.len()).unwrap_or(0);
    let mut code = Vec::with_capacity(size.saturating_sub(HASH));
    file.read_to_end(&mut code)?;
    // The same bytes are checked and used, so a change of the file meanwhile does no harm.
    if key.verify(&name.words(&code), &hash) {
        Ok(code)
    } else {
        Err(io::Error::other("its keyed hash does not fit"))
    }
}

/// Writes the code, whole or not at all. Of several writers any may win: they write the same.
pub(super) fn write(path: &Path, key: &Key, name: &Name<'_>, code: &[u8]) -> io::Result<()> {
    let draft = path.with_extension(unique());
    let hash = key.sign(&name.words(code));
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| {
            file.write_all(hash.as_ref())?;
            file.write_all(code)
        })
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// A suffix that no other writer has, of this process or another.
pub(super) fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Processes of several containers may have the same id.
    let mut random = [0; 8];
    // Without random bytes, the process and the number still distinguish drafts of living processes.
    let _ = SystemRandom::new().fill(&mut random);
    let random = u64::from_ne_bytes(random);
    format!("{}-{number}-{random:016x}.tmp", std::process::id())
}
