//! What stands under keys, in their order, and can be read on while it changes: a copy is made in no time and stays as it is. Entry point: [`Sorted`].
//!
//! Keys stand in chunks; a copy shares them, and who changes a chunk that is shared makes it anew. So a reader may take its time, and pauses,
//! while the watch goes on, and still sees one state of the store.

use crate::request::ObjectKey;
use std::sync::Arc;

/// Most keys of a chunk. A change moves half of one, or makes one anew: some microseconds. The first one after a copy makes the list of chunks
/// anew besides, which for 100 000 keys takes as long again.
const MOST: usize = 256;
/// Keys that two neighbouring chunks have together at most for them to become one.
const FEW: usize = MOST / 2;

/// Values by key.
#[derive(Debug)]
pub(super) struct Sorted<V> {
    /// None is empty, and each begins behind the end of the one before.
    chunks: Arc<Vec<Chunk<V>>>,
    len: usize,
}

#[derive(Debug)]
struct Chunk<V> {
    /// No later than its first key, and later than all keys before.
    from: ObjectKey,
    entries: Arc<Vec<(ObjectKey, V)>>,
}

/// Where a key stands, or would.
struct Place {
    chunk: usize,
    at: Result<usize, usize>,
}

impl<V> Default for Sorted<V> {
    fn default() -> Self {
        Self {
            chunks: Arc::default(),
            len: 0,
        }
    }
}

impl<V> Clone for Sorted<V> {
    fn clone(&self) -> Self {
        Self {
            chunks: self.chunks.clone(),
            len: self.len,
        }
    }
}

impl<V> Clone for Chunk<V> {
    fn clone(&self) -> Self {
        Self {
            from: self.from.clone(),
            entries: self.entries.clone(),
        }
    }
}

impl<V> Sorted<V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&V> {
        let place = self.find(key);
        let (_, value) = self.chunks.get(place.chunk)?.entries.get(place.at.ok()?)?;
        Some(value)
    }

    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.find(key).at.is_ok()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &V)> {
        let chunks = self.chunks.iter();
        chunks.flat_map(|chunk| chunk.entries.iter().map(|(key, value)| (key, value)))
    }

    /// The first that stands no earlier than a key.
    pub(super) fn first_from(&self, key: &ObjectKey) -> Option<(&ObjectKey, &V)> {
        self.at(&mut self.seek(key, false))
    }

    /// The last that stands before a key.
    pub(super) fn last_before(&self, key: &ObjectKey) -> Option<(&ObjectKey, &V)> {
        let place = self.find(key);
        let entries = |chunk: usize| self.chunks.get(chunk).map(|chunk| &*chunk.entries);
        let at = place.at.unwrap_or_else(|at| at);
        let entry = match at.checked_sub(1) {
            Some(at) => entries(place.chunk)?.get(at)?,
            None => entries(place.chunk.checked_sub(1)?)?.last()?,
        };
        Some((&entry.0, &entry.1))
    }

    /// Where to read from on: from a key, or behind it.
    pub(super) fn seek(&self, key: &ObjectKey, behind: bool) -> Cursor {
        let Place { chunk, at } = self.find(key);
        let at = match at {
            Ok(at) => at + usize::from(behind),
            Err(at) => at,
        };
        Cursor { chunk, at }
    }

    /// What a cursor stands at, which goes on by one; `None` at the end. It is to be one of this very state.
    pub(super) fn read(&self, cursor: &mut Cursor) -> Option<(&ObjectKey, &V)> {
        let read = self.at(cursor)?;
        cursor.at += 1;
        Some(read)
    }

    fn at(&self, cursor: &mut Cursor) -> Option<(&ObjectKey, &V)> {
        let mut chunk = self.chunks.get(cursor.chunk)?;
        if cursor.at == chunk.entries.len() {
            *cursor = Cursor {
                chunk: cursor.chunk + 1,
                at: 0,
            };
            chunk = self.chunks.get(cursor.chunk)?;
        }
        let (key, value) = chunk.entries.get(cursor.at)?;
        Some((key, value))
    }

    fn find(&self, key: &ObjectKey) -> Place {
        let after = self.chunks.partition_point(|chunk| chunk.from <= *key);
        let chunk = after.saturating_sub(1);
        let at = match self.chunks.get(chunk) {
            Some(found) => found.entries.binary_search_by(|(held, _)| held.cmp(key)),
            None => Err(0),
        };
        Place { chunk, at }
    }
}

impl<V: Clone> Sorted<V> {
    /// Puts a value, and returns the one that it takes the place of.
    pub(super) fn insert(&mut self, key: ObjectKey, value: V) -> Option<V> {
        let Place { chunk, at } = self.find(&key);
        let at = match at {
            Ok(at) => {
                let entries = self.entries(chunk)?;
                return Some(std::mem::replace(&mut entries.get_mut(at)?.1, value));
            }
            Err(at) => at,
        };
        self.len += 1;
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(into) = chunks.get_mut(chunk) else {
            chunks.reserve_exact(1); // most values of an index have few keys
            chunks.push(Chunk::of(vec![(key, value)])?);
            return None;
        };
        if key < into.from {
            into.from = key.clone();
        }
        let entries = Arc::make_mut(&mut into.entries);
        if entries.len() < MOST {
            if entries.len() == entries.capacity() {
                entries.reserve_exact(entries.len().min(MOST - entries.len()));
            }
            entries.insert(at, (key, value));
            return None;
        }
        // Lists come in order: behind a chunk that is full begins another, so that all are full.
        let mut rest = match at {
            MOST => Vec::new(),
            _ => entries.split_off(MOST / 2),
        };
        match at.checked_sub(entries.len()) {
            Some(at) => rest.insert(at, (key, value)),
            None => entries.insert(at, (key, value)),
        }
        chunks.insert(chunk + 1, Chunk::of(rest)?);
        None
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<V> {
        let Place { chunk, at } = self.find(key);
        let at = at.ok()?;
        let entries = self.entries(chunk)?;
        let (_, value) = entries.remove(at);
        let left = entries.len();
        self.len -= 1;
        if left == 0 {
            Arc::make_mut(&mut self.chunks).remove(chunk);
        } else if left < FEW {
            self.join(chunk.saturating_sub(1));
            self.join(chunk);
        }
        Some(value)
    }

    fn entries(&mut self, chunk: usize) -> Option<&mut Vec<(ObjectKey, V)>> {
        let chunk = Arc::make_mut(&mut self.chunks).get_mut(chunk)?;
        Some(Arc::make_mut(&mut chunk.entries))
    }

    /// Makes a chunk and the next one if both are small.
    fn join(&mut self, chunk: usize) {
        let len = |chunk: usize| self.chunks.get(chunk).map(|chunk| chunk.entries.len());
        let (Some(here), Some(next)) = (len(chunk), len(chunk + 1)) else {
            return;
        };
        if here + next > FEW {
            return;
        }
        let next = Arc::make_mut(&mut self.chunks).remove(chunk + 1);
        if let Some(entries) = self.entries(chunk) {
            entries.extend(next.entries.iter().cloned());
        }
    }
}

impl<V> Chunk<V> {
    /// `None` without entries.
    fn of(entries: Vec<(ObjectKey, V)>) -> Option<Self> {
        let from = entries.first()?.0.clone();
        Some(Self {
            from,
            entries: Arc::new(entries),
        })
    }
}

/// A place in one state of a [`Sorted`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    chunk: usize,
    at: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Model = BTreeMap<ObjectKey, u64>;

    fn key(number: u64) -> ObjectKey {
        match number % 7 {
            0 => ObjectKey::cluster_scoped(&format!("{number:04}")),
            namespace => ObjectKey::namespaced(&format!("n{namespace}"), &format!("{number:04}")),
        }
    }

    fn check(sorted: &Sorted<u64>, model: &Model) {
        assert_eq!(sorted.len(), model.len());
        assert!(sorted.iter().eq(model.iter()));
        assert!(
            sorted
                .chunks
                .iter()
                .all(|chunk| (1..=MOST).contains(&chunk.entries.len()))
        );
    }

    /// Looks at the surroundings of a key.
    fn check_at(sorted: &Sorted<u64>, model: &Model, key: &ObjectKey) {
        assert_eq!(sorted.get(key), model.get(key));
        assert_eq!(sorted.contains(key), model.contains_key(key));
        assert_eq!(sorted.last_before(key), model.range(..key).next_back());
        assert_eq!(sorted.first_from(key), model.range(key..).next());
        let mut cursor = sorted.seek(key, true);
        let behind = (std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded);
        for next in model.range(behind).take(600) {
            assert_eq!(sorted.read(&mut cursor), Some(next));
        }
    }

    #[test]
    fn it_is_a_map_whose_copies_stay_as_they_are() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut sorted, mut model) = (Sorted::default(), Model::new());
            let mut copies: Vec<(Sorted<u64>, Model)> = Vec::new();
            let keys = random.u64(1..3000);
            for step in 0..4000 {
                // It grows at first, and is small in the end.
                let grows = random.u64(..4000) > step;
                let key = key(random.u64(..keys));
                if grows {
                    assert_eq!(sorted.insert(key.clone(), step), model.insert(key, step));
                } else {
                    assert_eq!(sorted.remove(&key), model.remove(&key));
                }
                if random.u8(..) == 0 {
                    copies.push((sorted.clone(), model.clone()));
                }
                if random.u8(..50) == 0 {
                    check_at(&sorted, &model, &self::key(random.u64(..keys)));
                }
            }
            check(&sorted, &model);
            copies
                .iter()
                .for_each(|(sorted, model)| check(sorted, model));
        }
    }

    #[test]
    fn a_list_in_order_fills_its_chunks_and_what_is_taken_out_leaves_few() {
        let mut sorted = Sorted::default();
        let keys: Vec<_> = (0..10 * MOST)
            .map(|n| ObjectKey::cluster_scoped(&format!("{n:05}")))
            .collect();
        for key in &keys {
            sorted.insert(key.clone(), ());
        }
        assert_eq!(sorted.chunks.len(), 10);
        for key in keys
            .iter()
            .enumerate()
            .filter(|(at, _)| at % 10 != 0)
            .map(|(_, key)| key)
        {
            sorted.remove(key);
        }
        assert!(
            sorted.chunks.len() <= 4,
            "{} chunks of {}",
            sorted.chunks.len(),
            sorted.len()
        );
        for key in &keys {
            sorted.remove(key);
        }
        assert_eq!((sorted.chunks.len(), sorted.len()), (0, 0));
    }

    #[test]
    fn a_copy_shares_what_does_not_change() {
        let mut sorted = Sorted::default();
        for n in 0..10 * MOST {
            sorted.insert(ObjectKey::cluster_scoped(&format!("{n:05}")), n);
        }
        let copy = sorted.clone();
        assert!(Arc::ptr_eq(&copy.chunks, &sorted.chunks));
        sorted.insert(ObjectKey::cluster_scoped("00300"), 0);
        let shared = std::iter::zip(copy.chunks.iter(), sorted.chunks.iter());
        let shared = shared.filter(|(a, b)| Arc::ptr_eq(&a.entries, &b.entries));
        assert_eq!(shared.count(), 9);
    }
}
