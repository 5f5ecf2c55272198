//! The digest of a manifest or a blob. Entry point: [`ImageDigest`].

use sha2::{Digest as _, Sha256};
use std::fmt;
use windlass_fleet::Digest;

/// How every digest begins here. Registries allow other hashes; none is in use.
const PREFIX: &str = "sha256:";

/// A SHA-256, as registries write it: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageDigest(pub(crate) Digest);

impl ImageDigest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Digest::of(bytes))
    }

    /// The digest of what was hashed.
    pub(crate) fn finish(hash: Sha256) -> Self {
        let hash: [u8; 32] = hash.finalize().into();
        Self(hash.into())
    }

    /// Reads `sha256:…`. `None`: it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Digest::parse(text.strip_prefix(PREFIX)?).map(Self)
    }

    /// The hexadecimal digits alone.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.to_string()
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
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
