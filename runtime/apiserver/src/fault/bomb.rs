//! Much that is sent as little: [`zeros`], compressed.

use bytes::Bytes;

/// The longest copy that deflate knows.
const COPY: u64 = 258;

/// A gzip file (RFC 1952) of about so many zeros, a hundred and fifty times smaller: one literal, then copies of it, in deflate's fixed
/// code (RFC 1951, 3.2.6).
pub(super) fn zeros(size: u64) -> Bytes {
    let mut bits = Bits::default();
    // The only block, in the fixed code.
    bits.push(0b011, 3);
    // The literal 0: code 48, most significant bit first.
    bits.push_code(0b0011_0000, 8);
    let copies = size / COPY;
    for _ in 0..copies {
        // Length 258 is symbol 285: code 197. Distance 1 is symbol 0.
        bits.push_code(0b1100_0101, 8);
        bits.push_code(0, 5);
    }
    // The end of the block: symbol 256.
    bits.push_code(0, 7);
    let length = 1 + copies * COPY;
    // Magic, method, no flags, no time, no hints; the checksum is left out, because no reader should get that far.
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    file.extend(bits.finish());
    file.extend([0; 4]);
    file.extend(
        u32::try_from(length % (1 << 32))
            .unwrap_or_default()
            .to_le_bytes(),
    );
    file.into()
}

/// Bits in deflate's order: the least significant of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    current: u8,
    filled: u8,
}

impl Bits {
    fn push(&mut self, bits: u16, count: u8) {
        for at in 0..count {
            self.current |= u8::from(bits >> at & 1 == 1) << self.filled;
            self.filled += 1;
            if self.filled == 8 {
                self.bytes.push(std::mem::take(&mut self.current));
                self.filled = 0;
            }
        }
    }

    /// Huffman codes go most significant bit first.
    fn push_code(&mut self, code: u16, length: u8) {
        self.push(code.reverse_bits() >> (16 - length), length);
    }

    fn finish(mut self) -> Vec<u8> {
        if self.filled > 0 {
            self.bytes.push(self.current);
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_is_in_deflates_fixed_code_and_small_for_what_it_holds() {
        // zlib inflates these four bytes to 259 zeros.
        let small = zeros(258);
        assert_eq!(small[10..small.len() - 8], [0x63, 0x18, 0x05, 0x00]);
        assert_eq!(small[small.len() - 4..], 259_u32.to_le_bytes());
        assert!(zeros(64 << 20).len() < (64 << 20) / 150);
    }
}
