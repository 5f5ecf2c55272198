//! Standard base64 with padding, as Secrets hold it: [`encode`] and [`check`].

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = (word >> (18 - 6 * place)) & 63;
            out.push(if place <= chunk.len() {
                char::from(ALPHABET[digit as usize])
            } else {
                '='
            });
        }
    }
    out
}

/// Whether `text` is base64.
///
/// # Errors
/// The offset of the first byte that cannot stand there.
pub(crate) fn check(text: &str) -> Result<(), usize> {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    if let Some(at) = body.bytes().position(|byte| !ALPHABET.contains(&byte)) {
        return Err(at);
    }
    let fine = text.len().is_multiple_of(4) && padding <= 2 && body.len() % 4 != 1;
    if fine {
        Ok(())
    } else {
        Err(text.len() - text.len() % 4)
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
