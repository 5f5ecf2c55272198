//! Short digests for names and labels. Entry point: [`digest`].

use sha2::{Digest, Sha256};

/// Lower-case letters and digits that are not confused with each other.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// A digest of some texts: `length` letters of five bits each, at most 32. Texts that are divided in another way have another digest.
pub(crate) fn digest<'a>(texts: impl IntoIterator<Item = &'a str>, length: usize) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    }
    let bytes = hash.finalize();
    let letters = bytes.iter().take(length);
    letters
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_divided_in_another_way_have_another_digest() {
        assert_eq!(digest(["a", "b"], 10), digest(["a", "b"], 10));
        assert_ne!(digest(["ab", "c"], 10), digest(["a", "bc"], 10));
        assert_eq!(digest(["a"], 26).len(), 26);
    }
}
