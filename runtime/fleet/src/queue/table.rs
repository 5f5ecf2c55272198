//! Keys by hash. Entry point: [`Table`].

use super::slab::KeyId;
use hashbrown::HashTable;

/// A set of keys, each with a hash. Equal hashes are fine; the caller says which key it means.
#[derive(Debug, Default)]
pub(super) struct Table(HashTable<Slot>);

/// A key and its hash, so that most lookups read no other key, and growing reads none.
#[derive(Debug, Clone, Copy)]
struct Slot {
    key: KeyId,
    hash: u32,
}

impl Slot {
    /// The hash table uses both ends of a hash: the short one stands at both.
    fn wide(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The key with this hash for which `is` holds.
    pub(super) fn find(&self, hash: u32, is: impl Fn(KeyId) -> bool) -> Option<KeyId> {
        let found = self
            .0
            .find(Slot::wide(hash), |slot| slot.hash == hash && is(slot.key));
        found.map(|slot| slot.key)
    }

    /// Inserts a key that is not in the table.
    pub(super) fn insert(&mut self, hash: u32, key: KeyId) {
        let rehash = |slot: &Slot| Slot::wide(slot.hash);
        self.0
            .insert_unique(Slot::wide(hash), Slot { key, hash }, rehash);
    }

    /// Removes a key, if it is in the table.
    pub(super) fn remove(&mut self, hash: u32, key: KeyId) {
        let found = self.0.find_entry(Slot::wide(hash), |slot| slot.key == key);
        if let Ok(found) = found {
            found.remove();
        }
    }
}
