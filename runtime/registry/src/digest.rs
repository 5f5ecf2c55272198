//! The digest of a manifest or a blob. Entry point: [`ImageDigest`].

use sha2::{Digest as _, Sha256};
use std::fmt;

/// How every digest begins here. Registries allow other hashes; none is in use.
const PREFIX: &str = "sha256:";

/// A SHA-256. Prints as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageDigest([u8; 32]);

impl ImageDigest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of what was hashed.
    pub(crate) fn finish(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }

    /// Reads `sha256:…`. `None`: it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix(PREFIX)?.as_bytes();
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

    /// The hexadecimal digits alone.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.hex())
    }
}

impl fmt::Debug for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_printed_and_nothing_else_is() {
        let digest = ImageDigest::of(b"guest");
        let text = digest.to_string();
        assert_eq!(ImageDigest::parse(&text), Some(digest));
        for other in [
            text.to_uppercase(),
            text.replace("sha256", "sha512"),
            text[..70].to_owned(),
            format!("{text}0"),
        ] {
            assert_eq!(ImageDigest::parse(&other), None, "{other}");
        }
    }
}
