//! Places of keys, and of lanes, by hash. Entry point: [`Table`].
//!
//! Open addressing with linear probing: a lookup touches one cache line, where a table that keeps its control bytes apart touches
//! two. With a million keys that is what a lookup costs.

/// A place, and the hash that it is found by. [`FREE`] places are none.
#[derive(Debug, Clone, Copy)]
struct Slot {
    place: u32,
    hash: u32,
}

const FREE: u32 = u32::MAX;
const EMPTY: Slot = Slot {
    place: FREE,
    hash: 0,
};

/// A set of places, each with a hash. Equal hashes are fine; the caller tells which place it means.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// A power of two of them, or none. Every place stands at or behind the slot of its hash, with no free slot between.
    slots: Vec<Slot>,
    len: usize,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All places, in no order.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        let places = self.slots.iter().map(|slot| slot.place);
        places.filter(|place| *place != FREE)
    }

    /// The place with this hash that `is` the one.
    pub(super) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.position(hash, is).map(|at| self.slots[at].place)
    }

    fn position(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at & mask];
            if slot.place == FREE {
                return None;
            }
            if slot.hash == hash && is(slot.place) {
                return Some(at & mask);
            }
            at += 1;
        }
    }

    /// Loads the slot that a lookup of this hash begins at.
    pub(super) fn warm(&self, hash: u32) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        Some(self.slots[hash as usize & mask].place)
    }

    /// Puts a place in that is not there.
    pub(super) fn insert(&mut self, hash: u32, place: u32) {
        if (self.len + 1) * 8 > self.slots.len() * 5 {
            self.grow();
        }
        self.put(Slot { place, hash });
        self.len += 1;
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.hash as usize & mask;
        while self.slots[at].place != FREE {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    fn grow(&mut self) {
        let larger = vec![EMPTY; (self.slots.len() * 2).max(16)];
        for slot in std::mem::replace(&mut self.slots, larger) {
            if slot.place != FREE {
                self.put(slot);
            }
        }
    }

    /// Takes a place out, if it is there.
    pub(super) fn remove(&mut self, hash: u32, place: u32) {
        let Some(mut hole) = self.position(hash, |of| of == place) else {
            return;
        };
        // Those behind it move up, unless that would put them before the slot of their hash.
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.place == FREE {
                break;
            }
            let home = slot.hash as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_table_is_a_map_whatever_the_hashes() {
        for bits in [0, 2, 5, 32] {
            let mut rng = fastrand::Rng::with_seed(bits);
            let mut table = Table::default();
            let mut naive = BTreeMap::new();
            for _ in 0..20_000 {
                let place = rng.u32(0..300);
                if let Some(hash) = naive.remove(&place) {
                    table.remove(hash, place);
                    table.remove(hash, place);
                } else {
                    // Few bits make many equal hashes, and long runs that wrap around the end.
                    let hash = if bits == 32 {
                        rng.u32(..)
                    } else {
                        u32::MAX - rng.u32(0..1 << bits)
                    };
                    table.insert(hash, place);
                    naive.insert(place, hash);
                }
                let place = rng.u32(0..300);
                let hash = naive.get(&place).copied();
                assert_eq!(
                    table.find(hash.unwrap_or(u32::MAX), |of| of == place),
                    hash.map(|_| place)
                );
                assert_eq!(table.len(), naive.len());
            }
            let mut places: Vec<u32> = table.places().collect();
            places.sort_unstable();
            assert!(places.iter().eq(naive.keys()));
        }
    }
}
