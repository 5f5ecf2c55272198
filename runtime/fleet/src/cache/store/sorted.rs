//! A sorted map whose copy is made in constant time and never changes (copy on write). Entry point: [`Sorted`].
//!
//! Keys are in chunks that copies share; a change replaces a shared chunk. So a reader may take its time, and pause, while the watch
//! goes on, and still sees one state of the store.
//!
//! Cost: a change moves half a chunk or copies one, which takes some microseconds. The first change after a copy also copies the list
//! of chunks, which takes as long again with 100 000 keys.

use crate::request::ObjectKey;
use crate::workspace;
use std::sync::Arc;

/// Most keys of a chunk.
const MAX_CHUNK: usize = 256;
/// Two neighbouring chunks are joined if they have no more keys together.
const MIN_CHUNK: usize = MAX_CHUNK / 2;

/// Values by key.
#[derive(Debug)]
pub(super) struct Sorted<V> {
    /// No chunk is empty, and each begins after the end of the previous one.
    chunks: Arc<Vec<Chunk<V>>>,
    len: usize,
}

#[derive(Debug)]
struct Chunk<V> {
    /// No later than the first key, and later than all keys of the previous chunk.
    from: ObjectKey,
    entries: Arc<Vec<(ObjectKey, V)>>,
}

/// The position of a key: `Ok` if it is in the map, `Err` if it would be inserted there.
struct Position {
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
        let position = self.find(key);
        let (_, value) = self
            .chunks
            .get(position.chunk)?
            .entries
            .get(position.at.ok()?)?;
        Some(value)
    }

    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.find(key).at.is_ok()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &V)> {
        let chunks = self.chunks.iter();
        chunks.flat_map(|chunk| chunk.entries.iter().map(|(key, value)| (key, value)))
    }

    /// The entries of a [part](crate::workspace).
    pub(super) fn in_part(&self, part: &Arc<str>) -> impl Iterator<Item = (&ObjectKey, &V)> {
        let part = part.clone();
        let first = ObjectKey {
            namespace: Some(part.clone()),
            name: "".into(),
        };
        let mut cursor = self.seek(&first, false);
        std::iter::from_fn(move || self.read(&mut cursor))
            .take_while(move |(key, _)| workspace::holds(&part, key.namespace.as_deref()))
    }

    /// The first entry at or after a key.
    pub(super) fn first_from(&self, key: &ObjectKey) -> Option<(&ObjectKey, &V)> {
        self.at(&mut self.seek(key, false))
    }

    /// The last entry before a key.
    pub(super) fn last_before(&self, key: &ObjectKey) -> Option<(&ObjectKey, &V)> {
        let position = self.find(key);
        let entries = |chunk: usize| self.chunks.get(chunk).map(|chunk| &*chunk.entries);
        let at = position.at.unwrap_or_else(|at| at);
        let entry = match at.checked_sub(1) {
            Some(at) => entries(position.chunk)?.get(at)?,
            None => entries(position.chunk.checked_sub(1)?)?.last()?,
        };
        Some((&entry.0, &entry.1))
    }

    /// A cursor at a key or, with `after`, after it.
    pub(super) fn seek(&self, key: &ObjectKey, after: bool) -> Cursor {
        let Position { chunk, at } = self.find(key);
        let at = match at {
            Ok(at) => at + usize::from(after),
            Err(at) => at,
        };
        Cursor { chunk, at }
    }

    /// The entry at a cursor, which advances by one; `None` at the end. The cursor must be of this very state.
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

    fn find(&self, key: &ObjectKey) -> Position {
        let after = self.chunks.partition_point(|chunk| chunk.from <= *key);
        let chunk = after.saturating_sub(1);
        let at = match self.chunks.get(chunk) {
            Some(found) => found.entries.binary_search_by(|(held, _)| held.cmp(key)),
            None => Err(0),
        };
        Position { chunk, at }
    }
}

impl<V: Clone> Sorted<V> {
    /// Puts a value, and returns the one that it replaces.
    pub(super) fn insert(&mut self, key: ObjectKey, value: V) -> Option<V> {
        let Position { chunk, at } = self.find(&key);
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
        if entries.len() < MAX_CHUNK {
            if entries.len() == entries.capacity() {
                entries.reserve_exact(entries.len().min(MAX_CHUNK - entries.len()));
            }
            entries.insert(at, (key, value));
            return None;
        }
        // Lists come in order: a new chunk after a full one keeps all chunks full.
        let mut rest = match at {
            MAX_CHUNK => Vec::new(),
            _ => entries.split_off(MAX_CHUNK / 2),
        };
        match at.checked_sub(entries.len()) {
            Some(at) => rest.insert(at, (key, value)),
            None => entries.insert(at, (key, value)),
        }
        chunks.insert(chunk + 1, Chunk::of(rest)?);
        None
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<V> {
        let Position { chunk, at } = self.find(key);
        let at = at.ok()?;
        let entries = self.entries(chunk)?;
        let (_, value) = entries.remove(at);
        let left = entries.len();
        self.len -= 1;
        if left == 0 {
            Arc::make_mut(&mut self.chunks).remove(chunk);
        } else if left < MIN_CHUNK {
            self.join(chunk.saturating_sub(1));
            self.join(chunk);
        }
        Some(value)
    }

    fn entries(&mut self, chunk: usize) -> Option<&mut Vec<(ObjectKey, V)>> {
        let chunk = Arc::make_mut(&mut self.chunks).get_mut(chunk)?;
        Some(Arc::make_mut(&mut chunk.entries))
    }

    /// Joins a chunk and the next one if both are small.
    fn join(&mut self, chunk: usize) {
        let len = |chunk: usize| self.chunks.get(chunk).map(|chunk| chunk.entries.len());
        let (Some(here), Some(next)) = (len(chunk), len(chunk + 1)) else {
            return;
        };
        if here + next > MIN_CHUNK {
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

/// A position in one state of a [`Sorted`].
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
                .all(|chunk| (1..=MAX_CHUNK).contains(&chunk.entries.len()))
        );
    }

    /// Checks the surroundings of a key.
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
    fn it_is_a_map_whose_copies_do_not_change() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut sorted, mut model) = (Sorted::default(), Model::new());
            let mut copies: Vec<(Sorted<u64>, Model)> = Vec::new();
            let keys = random.u64(1..3000);
            for step in 0..4000 {
                // The map grows at first, and is small in the end.
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
    fn a_list_in_order_fills_its_chunks_and_removed_keys_leave_few() {
        let mut sorted = Sorted::default();
        let keys: Vec<_> = (0..10 * MAX_CHUNK)
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
        for n in 0..10 * MAX_CHUNK {
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
