//! Other texts and bytes of the same kind. Entry point: [`Noise`].

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

/// Makes stand-ins of values. Those of one scope say nothing about those of another one.
#[derive(Debug, Default)]
pub(super) struct Noise {
    scope: String,
}

impl Noise {
    pub(super) fn of(scope: &str) -> Self {
        let scope = scope.to_owned();
        Self { scope }
    }

    /// A text of the same length with other letters and digits.
    pub(super) fn text(&self, value: &str) -> String {
        let mut numbers = self.numbers(value.as_bytes());
        let other = |from| other(from, numbers.next());
        value.chars().map(other).collect()
    }

    /// A number of the same length with other digits.
    pub(super) fn number(&self, value: &str) -> String {
        let mut numbers = self.numbers(value.as_bytes());
        let mut is_first = true;
        let digit = |from: char| {
            if !from.is_ascii_digit() {
                return from;
            }
            let digit = other(from, numbers.next());
            // A number does not begin with a zero.
            let begins = std::mem::take(&mut is_first);
            if begins && digit == '0' { '1' } else { digit }
        };
        value.chars().map(digit).collect()
    }

    /// Other bytes of the same number.
    pub(super) fn binary(&self, value: &[u8]) -> Vec<u8> {
        let mut numbers = self.numbers(value);
        let other = |byte: &u8| byte.wrapping_add(1 + (numbers.next() % 255) as u8);
        value.iter().map(other).collect()
    }

    /// Numbers that follow from a value, for those who have the key.
    fn numbers(&self, value: &[u8]) -> Numbers {
        let seed = KEY.as_ref().map(|key| {
            let mut tag = hmac::Context::with_key(key);
            tag.update(self.scope.as_bytes());
            tag.update(&[0]);
            tag.update(value);
            tag.sign()
        });
        Numbers {
            seed: seed.map(|seed| seed.as_ref().to_vec()).unwrap_or_default(),
            block: 0,
            left: Vec::new(),
        }
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

/// Numbers without end.
struct Numbers {
    /// Empty on a machine without random numbers: the stand-ins say nothing of the value at all then.
    seed: Vec<u8>,
    block: u64,
    left: Vec<u8>,
}

impl Numbers {
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
                tag.update(&self.seed);
                tag.update(&block);
                tag.sign().as_ref().to_vec()
            }
            None => block.to_vec(),
        }
    }
}
