//! Other texts and bytes of the same kind. Entry points: [`text`] and [`binary`].

use ring::hmac;
use ring::rand::SystemRandom;
use std::sync::LazyLock;

/// Of this process. Without it a short value could be found by trying.
static KEY: LazyLock<Option<hmac::Key>> =
    LazyLock::new(|| hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok());

/// Characters that are replaced by others of their kind.
const ALPHABETS: [(char, char); 6] = [
    ('a', 'z'),
    ('A', 'Z'),
    ('0', '9'),
    // Any character of two, three and four bytes, by letters of as many.
    ('\u{e0}', '\u{f6}'),
    ('\u{4e00}', '\u{4fff}'),
    ('\u{20000}', '\u{20fff}'),
];

/// A text of the same length with other letters and digits.
pub(super) fn text(value: &str) -> String {
    let mut noise = Noise::of(value.as_bytes());
    value
        .chars()
        .map(|from| other(from, noise.next()))
        .collect()
}

/// A number of the same length with other digits.
pub(super) fn number(value: &str) -> String {
    let digits = text(value);
    // A number does not begin with a zero.
    match digits.strip_prefix('0') {
        Some(rest) => format!("1{rest}"),
        None => digits,
    }
}

/// Another character of the same kind. Each is another one, so that no value is its own stand-in.
fn other(from: char, noise: u32) -> char {
    let ascii = ALPHABETS[..3].iter();
    let own = ascii
        .copied()
        .find(|(first, last)| (*first..=*last).contains(&from));
    let (first, last) = match own {
        Some(alphabet) => alphabet,
        None if from.is_ascii() => return from,
        None => ALPHABETS[1 + from.len_utf8()],
    };
    let (first, count) = (u32::from(first), u32::from(last) - u32::from(first) + 1);
    let at = u32::from(from).wrapping_sub(first) % count;
    let moved = (at + 1 + noise % (count - 1)) % count;
    char::from_u32(first + moved).unwrap_or(from)
}

/// Other bytes of the same number.
pub(super) fn binary(value: &[u8]) -> Vec<u8> {
    let mut noise = Noise::of(value);
    let other = |byte: &u8| byte.wrapping_add(1 + (noise.next() % 255) as u8);
    value.iter().map(other).collect()
}

/// Numbers that follow from a value, for those who have the key.
struct Noise<'a> {
    value: &'a [u8],
    block: u64,
    left: Vec<u8>,
}

impl<'a> Noise<'a> {
    fn of(value: &'a [u8]) -> Self {
        Self {
            value,
            block: 0,
            left: Vec::new(),
        }
    }

    fn next(&mut self) -> u32 {
        let mut number = [0; 4];
        for byte in &mut number {
            if self.left.is_empty() {
                self.left = self.more();
            }
            *byte = self.left.pop().unwrap_or_default();
        }
        u32::from_le_bytes(number)
    }

    fn more(&mut self) -> Vec<u8> {
        let block = self.block.to_le_bytes();
        self.block += 1;
        match &*KEY {
            Some(key) => {
                let mut tag = hmac::Context::with_key(key);
                tag.update(&block);
                tag.update(self.value);
                tag.sign().as_ref().to_vec()
            }
            // A machine without random numbers: the stand-ins say nothing of the value at all.
            None => block.to_vec(),
        }
    }
}
