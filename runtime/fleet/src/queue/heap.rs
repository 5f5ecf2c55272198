//! A min-heap whose items know where they stand, so that one can be moved or taken out. Entry point: [`Heap`].

/// The place of an item that is in no heap.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Something that can stand in a heap, and keeps its place there.
pub(super) trait Placed {
    /// Where it stands; [`NOWHERE`] when in no heap.
    fn place(&mut self) -> &mut u32;
}

/// Items with four children each, which is shallower and kinder to caches than two.
const CHILDREN: usize = 4;

/// A min-heap of numbers into a slice of [`Placed`] items, which every call that moves items takes along.
#[derive(Debug)]
pub(super) struct Heap<K> {
    items: Vec<(K, u32)>,
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

impl<K: Ord + Copy> Heap<K> {
    /// The smallest key and its item; equal keys in the order of their numbers.
    pub(super) fn first(&self) -> Option<(K, u32)> {
        self.items.first().copied()
    }

    /// The key that the item at a place stands under.
    pub(super) fn key(&self, place: u32) -> K {
        self.items[place as usize].0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Puts an item in.
    pub(super) fn push<P: Placed>(&mut self, key: K, id: u32, placed: &mut [P]) {
        self.items.push((key, id));
        self.rise(self.items.len() - 1, placed);
    }

    /// Takes out the item at a place.
    pub(super) fn remove<P: Placed>(&mut self, place: u32, placed: &mut [P]) {
        let at = place as usize;
        let (_, id) = self.items.swap_remove(at);
        *placed[id as usize].place() = NOWHERE;
        if at < self.items.len() {
            let at = self.rise(at, placed);
            self.sink(at, placed);
        }
    }

    /// Gives the item at a place another key.
    pub(super) fn change<P: Placed>(&mut self, place: u32, key: K, placed: &mut [P]) {
        let at = place as usize;
        let grows = key > self.items[at].0;
        self.items[at].0 = key;
        if grows {
            self.sink(at, placed);
        } else {
            self.rise(at, placed);
        }
    }

    fn rise<P: Placed>(&mut self, mut at: usize, placed: &mut [P]) -> usize {
        let item = self.items[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.items[parent] <= item {
                break;
            }
            self.put(at, self.items[parent], placed);
            at = parent;
        }
        self.put(at, item, placed);
        at
    }

    fn sink<P: Placed>(&mut self, mut at: usize, placed: &mut [P]) {
        let item = self.items[at];
        loop {
            let first = at * CHILDREN + 1;
            let end = (first + CHILDREN).min(self.items.len());
            let Some((head, rest)) = self.items.get(first..end).and_then(<[_]>::split_first) else {
                break;
            };
            let (mut least, mut child) = (first, *head);
            for (other, place) in rest.iter().zip(first + 1..) {
                if *other < child {
                    (least, child) = (place, *other);
                }
            }
            if child >= item {
                break;
            }
            self.put(at, child, placed);
            at = least;
        }
        self.put(at, item, placed);
    }

    fn put<P: Placed>(&mut self, at: usize, item: (K, u32), placed: &mut [P]) {
        self.items[at] = item;
        *placed[item.1 as usize].place() = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    struct Item(u32);

    impl Placed for Item {
        fn place(&mut self) -> &mut u32 {
            &mut self.0
        }
    }

    #[test]
    fn a_heap_is_a_sorted_set_with_places() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut items: Vec<Item> = (0..100).map(|_| Item(NOWHERE)).collect();
        let mut keys = [0u64; 100];
        let mut heap = Heap::default();
        let mut naive = BTreeSet::new();
        for _ in 0..20_000 {
            let id = rng.u32(0..100);
            let key = rng.u64(0..50);
            let place = items[id as usize].0;
            if place == NOWHERE {
                heap.push(key, id, &mut items);
                naive.insert((key, id));
            } else if rng.bool() {
                heap.remove(place, &mut items);
                naive.remove(&(keys[id as usize], id));
            } else {
                heap.change(place, key, &mut items);
                naive.remove(&(keys[id as usize], id));
                naive.insert((key, id));
            }
            keys[id as usize] = key;
            assert_eq!(heap.first(), naive.first().copied());
        }
    }
}
