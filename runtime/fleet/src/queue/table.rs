//! Places of keys, and of lanes, by hash. Entry point: [`Table`].

use hashbrown::HashTable;

/// A set of places, each with a hash. Equal hashes are fine; the caller tells which place it means.
#[derive(Debug, Default)]
pub(super) struct Table(HashTable<Slot>);

/// A place, and the hash that it is found by.
#[derive(Debug, Clone, Copy)]
struct Slot {
    place: u32,
    hash: u32,
}

impl Slot {
    /// The table looks at both ends of a hash: the short one stands at both.
    fn wide(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All places, in no order.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|slot| slot.place)
    }

    /// The place with this hash that `is` the one.
    pub(super) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self
            .0
            .find(Slot::wide(hash), |slot| slot.hash == hash && is(slot.place));
        found.map(|slot| slot.place)
    }

    /// Puts a place in that is not there.
    pub(super) fn insert(&mut self, hash: u32, place: u32) {
        let rehash = |slot: &Slot| Slot::wide(slot.hash);
        self.0
            .insert_unique(Slot::wide(hash), Slot { place, hash }, rehash);
    }

    /// Takes a place out, if it is there.
    pub(super) fn remove(&mut self, hash: u32, place: u32) {
        let found = self
            .0
            .find_entry(Slot::wide(hash), |slot| slot.place == place);
        if let Ok(found) = found {
            found.remove();
        }
    }
}
