//! The name of what has exactly these bytes: a component's revision, a part of an image. Entry point: [`Digest`].

use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::Read;

/// A SHA-256. Prints as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of the first `most` bytes of a file, and how many bytes these are. Blocks.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of_file(file: std::fs::File, most: u64) -> std::io::Result<(Self, u64)> {
        let mut hash = Sha256::new();
        let size = std::io::copy(&mut file.take(most), &mut hash)?;
        Ok((Self(hash.finalize().into()), size))
    }

    /// Reads 64 hexadecimal digits, as a digest prints. `None`: it is none.
    #[must_use]
    pub fn parse(hex: &str) -> Option<Self> {
        let hex = hex.as_bytes();
        if hex.len() != 64 {
            return None;
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// The first 12 hexadecimal digits, enough for people to distinguish revisions.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }

    /// The hash itself.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Digest {
    fn from(hash: [u8; 32]) -> Self {
        Self(hash)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
