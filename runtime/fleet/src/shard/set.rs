//! A set of shards, and its text. Entry point: [`ShardSet`].

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub, SubAssign};

/// The most shards that a fleet may have.
pub(crate) const MAX_SHARDS: u16 = 1024;

const WORDS: usize = MAX_SHARDS as usize / 64;

/// A set of shards below [`MAX_SHARDS`]. It prints as ascending ranges: `0-12,15`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ShardSet([u64; WORDS]);

/// Why a text is not a set of shards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RangesError {
    /// A part is neither a number nor two numbers with `-`.
    #[error("{0:?} is not a range of shards: write \"3\" or \"3-7\"")]
    Range(String),
    /// The ranges are not in ascending order, or overlap.
    #[error("the range {0:?} does not ascend: sort the ranges and let none overlap")]
    Order(String),
    /// A shard is not below the number of shards.
    #[error("shard {shard} is not one of {shards} shards")]
    Beyond {
        /// The shard.
        shard: u16,
        /// The number of shards.
        shards: u16,
    },
}

impl ShardSet {
    /// No shard.
    pub(crate) const EMPTY: Self = Self([0; WORDS]);

    /// The first `shards` shards.
    pub(crate) fn first(shards: u16) -> Self {
        let mut set = Self::EMPTY;
        for (word, from) in set.0.iter_mut().zip((0..).step_by(64)) {
            let bits: u16 = shards.saturating_sub(from).min(64);
            *word = u64::MAX.checked_shr(u32::from(64 - bits)).unwrap_or(0);
        }
        set
    }

    /// Reads ranges of a fleet with `shards` shards.
    ///
    /// # Errors
    /// [`RangesError`].
    pub(crate) fn parse(text: &str, shards: u16) -> Result<Self, RangesError> {
        let mut set = Self::EMPTY;
        let mut least = 0;
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (from, to) = range(part)?;
            if from < least || to < from {
                return Err(RangesError::Order(cut(part)));
            }
            if to >= shards.min(MAX_SHARDS) {
                return Err(RangesError::Beyond { shard: to, shards });
            }
            set |= (from..=to).collect();
            least = to + 1;
        }
        Ok(set)
    }

    /// Adds a shard. One that is not below [`MAX_SHARDS`] is left out.
    pub(crate) fn insert(&mut self, shard: u16) {
        if let Some(word) = self.0.get_mut(usize::from(shard / 64)) {
            *word |= 1 << (shard % 64);
        }
    }

    pub(crate) fn remove(&mut self, shard: u16) {
        if let Some(word) = self.0.get_mut(usize::from(shard / 64)) {
            *word &= !(1 << (shard % 64));
        }
    }

    pub(crate) fn contains(&self, shard: u16) -> bool {
        let word = self.0.get(usize::from(shard / 64));
        word.is_some_and(|word| word >> (shard % 64) & 1 == 1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The shards in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let words = self.0.iter().zip((0..MAX_SHARDS).step_by(64));
        words.flat_map(|(word, from)| {
            let rest = |rest: &u64| (*rest != 0).then_some(*rest);
            let rests = std::iter::successors(rest(word), move |last| rest(&(last & (last - 1))));
            rests.zip(std::iter::repeat(from)).map(|(rest, from)| {
                // Below 64, so that the cast loses nothing.
                from + rest.trailing_zeros() as u16
            })
        })
    }

    fn zip(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        let mut words = self.0;
        for (word, other) in words.iter_mut().zip(other.0) {
            *word = each(*word, other);
        }
        Self(words)
    }
}

fn range(part: &str) -> Result<(u16, u16), RangesError> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    let ends = match part.split_once('-') {
        Some((from, to)) => number(from).zip(number(to)),
        None => number(part).map(|shard| (shard, shard)),
    };
    ends.ok_or_else(|| RangesError::Range(cut(part)))
}

/// Texts in errors are short: the whole may be damaged.
fn cut(part: &str) -> String {
    part.chars().take(20).collect()
}

impl FromIterator<u16> for ShardSet {
    fn from_iter<T: IntoIterator<Item = u16>>(shards: T) -> Self {
        let mut set = Self::EMPTY;
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

impl BitOr for ShardSet {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.zip(other, |mine, other| mine | other)
    }
}

impl BitAnd for ShardSet {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        self.zip(other, |mine, other| mine & other)
    }
}

impl Sub for ShardSet {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.zip(other, |mine, other| mine & !other)
    }
}

impl BitOrAssign for ShardSet {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl SubAssign for ShardSet {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl fmt::Display for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shards = self.iter().peekable();
        let mut comma = "";
        while let Some(from) = shards.next() {
            let mut to = from;
            while let Some(next) = shards.next_if(|next| *next == to + 1) {
                to = next;
            }
            write!(f, "{comma}{from}")?;
            if to > from {
                write!(f, "-{to}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_round_trips_through_its_text() {
        for text in ["", "0", "0-12,15", "3,5,7-1023", "0-1023", "63-64,127"] {
            let set = ShardSet::parse(text, MAX_SHARDS).unwrap();
            assert_eq!(set.to_string(), text);
            assert_eq!(set.iter().count(), set.len() as usize);
        }
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..50 {
            let set: ShardSet = (0..MAX_SHARDS).filter(|_| rng.bool()).collect();
            assert_eq!(ShardSet::parse(&set.to_string(), MAX_SHARDS), Ok(set));
        }
    }

    #[test]
    fn a_damaged_text_is_refused() {
        use RangesError::{Beyond, Order, Range};
        for text in ["a", "1-", "-1", "1,,2", "1-2-3", "+1", " 1", "99999", ","] {
            assert!(
                matches!(ShardSet::parse(text, 256), Err(Range(_))),
                "{text}"
            );
        }
        for text in ["5-3", "3,3", "3,1", "1-4,4", "1-4,2"] {
            assert!(
                matches!(ShardSet::parse(text, 256), Err(Order(_))),
                "{text}"
            );
        }
        for text in ["256", "0-256", "65535"] {
            assert!(matches!(ShardSet::parse(text, 256), Err(Beyond { .. })));
        }
        for text in ["1024", "65535"] {
            assert!(ShardSet::parse(text, u16::MAX).is_err());
        }
    }

    #[test]
    fn sets_are_joined_cut_and_taken_away() {
        let set = |text| ShardSet::parse(text, MAX_SHARDS).unwrap();
        assert_eq!(set("1-5") | set("5-7,99"), set("1-7,99"));
        assert_eq!(set("1-5") & set("4-9"), set("4-5"));
        assert_eq!(set("1-5,900") - set("2-3"), set("1,4-5,900"));
        assert!((set("4") - set("4")).is_empty() && !set("4").contains(5));
        for shards in [0, 1, 63, 64, 65, 256, MAX_SHARDS] {
            assert_eq!(ShardSet::first(shards), (0..shards).collect());
        }
        let mut beyond = ShardSet::EMPTY;
        beyond.insert(MAX_SHARDS);
        assert!(beyond.is_empty());
    }
}
