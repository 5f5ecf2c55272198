//! Standard base64 with padding, as in Secrets: [`encode`], [`decode`] and [`check`].

use ::base64::DecodeError;
use ::base64::alphabet::STANDARD;
use ::base64::engine::general_purpose::{GeneralPurpose, PAD};
use ::base64::prelude::{BASE64_STANDARD, Engine as _};

/// Ignores the unused bits of the last digit, as Go does.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, PAD.with_decode_allow_trailing_bits(true));

pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    LENIENT.decode(text).ok()
}

/// Whether `text` is base64.
///
/// # Errors
/// The offset of the first byte that is not.
pub(crate) fn check(text: &str) -> Result<(), usize> {
    match LENIENT.decode(text) {
        Ok(_) => Ok(()),
        Err(DecodeError::InvalidByte(at, _)) => Err(at),
        Err(_) => Err(text.len() - text.len() % 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_every_length_and_finds_what_is_not_base64() {
        for (plain, coded) in [
            ("", ""),
            ("a", "YQ=="),
            ("ab", "YWI="),
            ("abc", "YWJj"),
            ("abcd", "YWJjZA=="),
        ] {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(check(coded), Ok(()));
        }
        assert_eq!(check("YW*j"), Err(2));
        assert!(check("YWJ").is_err());
    }
}
