//! A min-heap whose items can be found, so that one can be moved or taken out. Entry point: [`Heap`].
//!
//! An item and what it stands under are one number: comparing is cheap, and does not make a processor guess. Where the items stand
//! is kept apart from them and close together, as moving one item moves others, whose own memory lies anywhere.

/// What an item of a heap stands under, and which item it is: the least is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing(u128);

impl Standing {
    /// The higher priority is less, then the lower virtual time, then the lower number.
    pub(super) fn new(priority: i32, vtime: u64, id: u32) -> Self {
        // Flipping all bits but the sign's makes an unsigned number of a signed one, in reverse.
        let reverse = priority.cast_unsigned() ^ i32::MAX.cast_unsigned();
        Self(u128::from(reverse) << 96 | u128::from(vtime) << 32 | u128::from(id))
    }

    pub(super) fn priority(self) -> i32 {
        ((self.0 >> 96) as u32 ^ i32::MAX.cast_unsigned()).cast_signed()
    }

    pub(super) fn vtime(self) -> u64 {
        (self.0 >> 32) as u64
    }

    pub(super) fn id(self) -> u32 {
        self.0 as u32
    }
}

/// Where the items of some heaps stand. An item is in one heap at most.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<u32>);

/// The place of an item that is in no heap.
const NOWHERE: u32 = u32::MAX;

impl Places {
    fn of(&self, id: u32) -> Option<usize> {
        let place = *self.0.get(id as usize)?;
        (place != NOWHERE).then_some(place as usize)
    }

    fn make_room(&mut self, id: u32) {
        let id = id as usize;
        if id >= self.0.len() {
            self.0.resize(id + 1, NOWHERE);
        }
    }
}

/// Items with four children each, which is shallower and kinder to caches than two.
const CHILDREN: usize = 4;

/// A min-heap. Every call that looks for items takes their places along.
#[derive(Debug, Default)]
pub(super) struct Heap {
    items: Vec<Standing>,
}

impl Heap {
    /// The least item.
    pub(super) fn first(&self) -> Option<Standing> {
        self.items.first().copied()
    }

    /// What an item stands under, if it is here.
    pub(super) fn standing(&self, id: u32, places: &Places) -> Option<Standing> {
        self.items.get(places.of(id)?).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Puts an item in that is in no heap.
    pub(super) fn push(&mut self, item: Standing, places: &mut Places) {
        places.make_room(item.id());
        self.items.push(item);
        self.rise(self.items.len() - 1, item, places);
    }

    /// Takes an item out, if it is here.
    pub(super) fn remove(&mut self, id: u32, places: &mut Places) {
        let Some(at) = places.of(id) else { return };
        let Some(last) = self.items.pop() else { return };
        places.0[id as usize] = NOWHERE;
        if at < self.items.len() {
            self.sink(at, last, places);
        }
    }

    /// Puts an item that is here under something else.
    pub(super) fn change(&mut self, item: Standing, places: &mut Places) {
        if let Some(at) = places.of(item.id()) {
            self.sink(at, item, places);
        }
    }

    /// Puts an item in at a place or above it.
    fn rise(&mut self, mut at: usize, item: Standing, places: &mut Places) {
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.items[parent] <= item {
                break;
            }
            self.put(at, self.items[parent], places);
            at = parent;
        }
        self.put(at, item, places);
    }

    /// Puts an item in at a place, below it, or above it.
    fn sink(&mut self, mut at: usize, item: Standing, places: &mut Places) {
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
            self.put(at, child, places);
            at = least;
        }
        self.rise(at, item, places);
    }

    fn put(&mut self, at: usize, item: Standing, places: &mut Places) {
        self.items[at] = item;
        places.0[item.id() as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn priority_comes_before_virtual_time_and_that_before_numbers() {
        let of = Standing::new;
        for (first, then) in [
            (of(1, u64::MAX, 7), of(0, 0, 0)),
            (of(i32::MAX, 5, 7), of(i32::MIN, 5, 0)),
            (of(-1, 5, 7), of(-100, 4, 0)),
            (of(0, 4, u32::MAX), of(0, 5, 0)),
            (of(0, u64::MAX, 6), of(0, u64::MAX, 7)),
        ] {
            assert!(first < then);
        }
        let all = of(-100, u64::MAX - 1, 7);
        assert_eq!(
            (all.priority(), all.vtime(), all.id()),
            (-100, u64::MAX - 1, 7)
        );
    }

    #[test]
    fn a_heap_is_a_sorted_set_in_which_items_are_found() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut places = Places::default();
        let mut heap = Heap::default();
        let mut naive = BTreeSet::new();
        for _ in 0..20_000 {
            let id = rng.u32(0..100);
            let item = Standing::new(0, rng.u64(0..50), id);
            match heap.standing(id, &places) {
                None => {
                    heap.push(item, &mut places);
                    naive.insert(item);
                }
                Some(earlier) => {
                    assert!(naive.remove(&earlier));
                    if rng.bool() {
                        heap.remove(id, &mut places);
                    } else {
                        heap.change(item, &mut places);
                        naive.insert(item);
                    }
                }
            }
            assert_eq!(heap.first(), naive.first().copied());
            assert_eq!(heap.is_empty(), naive.is_empty());
        }
        assert_eq!(heap.items.len(), naive.len());
    }
}
