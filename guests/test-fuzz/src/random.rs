//! Random numbers that follow from a seed, and texts made with them. Entry point: [`Random`].

use crate::words::WORDS;

/// A generator: xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // A few rounds, so that similar seeds do not begin with the same numbers.
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.below(2);
        }
        random
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end.max(1)
    }

    /// True once in this number of calls, on average.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn number(&mut self) -> u32 {
        match self.below(4) {
            0 => u32::MAX,
            1 => self.below(1 << 31) as u32,
            _ => self.below(5) as u32,
        }
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    pub(crate) fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.once_in(2) {
            Some(make(self))
        } else {
            None
        }
    }

    /// One of these, as it is or mangled.
    pub(crate) fn text(&mut self, of: &[&str]) -> String {
        let mut text: Vec<char> = self.pick(of).chars().collect();
        if self.once_in(3) {
            return text.into_iter().collect();
        }
        for _ in 0..=self.below(4) {
            self.mangle(&mut text);
        }
        if self.once_in(100) {
            text = text.repeat(1 + self.below(200));
        }
        text.into_iter().collect()
    }

    fn mangle(&mut self, text: &mut Vec<char>) {
        let from = self.below(text.len());
        let to = (from + self.below(12)).min(text.len());
        let at = self.below(text.len() + 1);
        match self.below(4) {
            0 => drop(text.drain(from..to)),
            1 => {
                let piece = text[from..to].to_vec();
                drop(text.splice(at..at, piece));
            }
            2 => text.truncate(at),
            _ => drop(text.splice(at..at, self.pick(WORDS).chars())),
        }
    }
}
