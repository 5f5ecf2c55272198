//! Items that are found by ids of their own type. Entry point: [`Slab`].

use std::ops::{Index, IndexMut};

/// Which item of a slab.
pub(super) trait Id: Copy {
    fn new(place: u32) -> Self;
    fn place(self) -> usize;
}

/// Items at places that are used again.
#[derive(Debug)]
pub(super) struct Slab<I, T> {
    items: Vec<T>,
    free: Vec<I>,
}

impl<I, T> Default for Slab<I, T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<I: Id, T> Slab<I, T> {
    pub(super) fn insert(&mut self, item: T) -> I {
        if let Some(id) = self.free.pop() {
            self[id] = item;
            return id;
        }
        self.items.push(item);
        I::new((self.items.len() - 1) as u32)
    }

    /// Frees a place. What stands there stays until the place is used again.
    pub(super) fn remove(&mut self, id: I) {
        self.free.push(id);
    }

    /// How many places there are, free ones included.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.items.len()
    }
}

impl<I: Id, T> Index<I> for Slab<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.items[id.place()]
    }
}

impl<I: Id, T> IndexMut<I> for Slab<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.place()]
    }
}
