//! Items by id. Each kind of item has an id type of its own, so that no id finds an item of another kind. Entry point: [`Slab`].

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// Which item of a slab.
pub(super) trait Id: Copy {
    fn new(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(super) struct $name(NonZeroU32);

        impl Id for $name {
            fn new(index: usize) -> Self {
                // Memory ends long before four billion items.
                Self(NonZeroU32::MIN.saturating_add(index as u32))
            }

            fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    )*};
}

ids! {
    /// A tenant.
    TenantId,
    /// A controller in its slab. [`super::ControllerId`] is what callers get.
    ControllerIndex,
    /// A controller's keys of one cluster.
    FlowId,
    /// A cluster.
    ClusterId,
    /// A tenant's part of a cluster.
    TenantClusterId,
    /// A limit that many flows share.
    GateId,
    /// A key.
    KeyId,
}

/// Items by id. The id of a removed item is used again.
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
        self.insert_with(|_| item)
    }

    /// Inserts an item that knows its id.
    pub(super) fn insert_with(&mut self, make: impl FnOnce(I) -> T) -> I {
        if let Some(id) = self.free.pop() {
            self[id] = make(id);
            return id;
        }
        let id = I::new(self.items.len());
        self.items.push(make(id));
        id
    }

    /// Frees an id. The item itself stays until the id is used again.
    pub(super) fn remove(&mut self, id: I) {
        self.free.push(id);
    }

    /// The item of an id, which may be a removed one; `None` if the slab has never been so large.
    pub(super) fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    pub(super) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.index())
    }

    /// How many ids there are, free ones included.
    pub(super) fn capacity(&self) -> usize {
        self.items.len()
    }

    /// All ids, free ones included.
    pub(super) fn ids(&self) -> impl Iterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// All items, removed ones included.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut()
    }
}

impl<I: Id, T> Index<I> for Slab<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Slab<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}
