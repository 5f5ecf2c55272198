//! The allocator of components: a fixed arena first, then the standard library's. Entry point: [`Arena`].
//!
//! A guest has a fresh instance for each call, and most calls need little memory. Growing linear memory costs a call more than
//! all of its allocations, because the host changes the protection of pages, and changes it back when the instance ends.
//! The arena is part of the initial memory, so allocations that fit into it avoid this cost.
#![allow(unsafe_code, reason = "an allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr;

/// Bytes of a component's arena.
#[cfg(target_arch = "wasm32")]
const SIZE: usize = 128 << 10;

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: Arena<SIZE, std::alloc::System> = Arena::new(std::alloc::System);

/// Allocates from its own bytes, from first to last, and then from `A`. Only the last allocation can be freed for reuse:
/// other freed memory stays unused until the instance ends, at most the size of the arena.
struct Arena<const SIZE: usize, A> {
    bytes: UnsafeCell<MaybeUninit<[u8; SIZE]>>,
    /// Where the free bytes begin. Everything below may be in use; nothing at or above it is.
    next: Cell<usize>,
    beyond: A,
}

// SAFETY: a component has one thread (it is built without atomics), so threads never share the arena. Native tests use
// an arena only from the thread that owns it.
#[cfg(target_arch = "wasm32")]
unsafe impl<const SIZE: usize, A: Sync> Sync for Arena<SIZE, A> {}

impl<const SIZE: usize, A> Arena<SIZE, A> {
    const fn new(beyond: A) -> Self {
        Self {
            bytes: UnsafeCell::new(MaybeUninit::uninit()),
            next: Cell::new(0),
            beyond,
        }
    }

    fn base(&self) -> *mut u8 {
        self.bytes.get().cast()
    }

    /// The offset of a pointer in the arena; `None` if it points elsewhere.
    fn offset(&self, pointer: *const u8) -> Option<usize> {
        (pointer as usize)
            .checked_sub(self.base() as usize)
            .filter(|offset| *offset < SIZE)
    }

    /// Takes bytes from the arena, if they fit.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let free = self.base() as usize + self.next.get();
        let start = free.checked_next_multiple_of(layout.align())? - self.base() as usize;
        let end = start
            .checked_add(layout.size())
            .filter(|end| *end <= SIZE)?;
        // The address after the last byte is not in the arena, so an empty tail is not allocated.
        if start == SIZE {
            return None;
        }
        self.next.set(end);
        Some(self.base().wrapping_add(start))
    }

    /// Resizes the arena's last allocation; `false` if the allocation is not the last one, or does not fit.
    fn resize_last(&self, offset: usize, old: usize, new: usize) -> bool {
        let last = offset + old == self.next.get();
        match offset.checked_add(new) {
            Some(end) if last && end <= SIZE => {
                self.next.set(end);
                true
            }
            _ => false,
        }
    }
}

// SAFETY: every allocation of the arena is a range of `bytes` below `next`, and allocated once, because `next` only moves back
// over a range that is freed or shrunk. All other allocations belong to `beyond`, which keeps the contract itself.
unsafe impl<const SIZE: usize, A: GlobalAlloc> GlobalAlloc for Arena<SIZE, A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some(pointer) => pointer,
            // SAFETY: the caller keeps the contract of `beyond`.
            None => unsafe { self.beyond.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match self.offset(pointer) {
            Some(offset) => {
                self.resize_last(offset, layout.size(), 0);
            }
            // SAFETY: what is not of the arena came from `beyond`.
            None => unsafe { self.beyond.dealloc(pointer, layout) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(offset) = self.offset(pointer) else {
            // SAFETY: what is not of the arena came from `beyond`.
            return unsafe { self.beyond.realloc(pointer, layout, size) };
        };
        if size <= layout.size() || self.resize_last(offset, layout.size(), size) {
            return pointer;
        }
        // SAFETY: the caller promises that size and alignment make a valid layout. The old range has `layout.size()` bytes, the new
        // range has more, and they do not overlap.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(pointer, moved, layout.size());
                self.dealloc(pointer, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn what_fits_is_of_the_arena_and_the_rest_is_not() {
        let arena: Arena<100, System> = Arena::new(System);
        // SAFETY: each pointer is freed once, with its layout.
        unsafe {
            let small = arena.alloc(layout(60, 1));
            let large = arena.alloc(layout(60, 1));
            assert_eq!((arena.offset(small), arena.offset(large)), (Some(0), None));
            arena.dealloc(large, layout(60, 1));
            arena.dealloc(small, layout(60, 1));
        }
        assert_eq!(arena.next.get(), 0);
    }

    #[test]
    fn alignment_is_kept() {
        let arena: Arena<256, System> = Arena::new(System);
        // SAFETY: the arena outlives what it handed out, which is not used.
        let pointers = unsafe {
            [
                arena.alloc(layout(1, 1)),
                arena.alloc(layout(8, 8)),
                arena.alloc(layout(1, 1)),
                arena.alloc(layout(64, 64)),
            ]
        };
        assert!(
            (pointers[1] as usize).is_multiple_of(8) && (pointers[3] as usize).is_multiple_of(64)
        );
    }

    #[test]
    fn the_last_allocation_grows_in_place_and_others_move_with_their_bytes() {
        let arena: Arena<256, System> = Arena::new(System);
        // SAFETY: sizes and layouts are those of the allocations.
        unsafe {
            let first = arena.alloc(layout(4, 1));
            first.copy_from(b"abcd".as_ptr(), 4);
            let last = arena.alloc(layout(4, 1));
            assert_eq!(arena.realloc(last, layout(4, 1), 40), last);
            let moved = arena.realloc(first, layout(4, 1), 8);
            assert_ne!(moved, first);
            assert_eq!(std::slice::from_raw_parts(moved, 4), b"abcd");
            let beyond = arena.realloc(moved, layout(8, 1), 4096);
            assert_eq!(arena.offset(beyond), None);
            assert_eq!(std::slice::from_raw_parts(beyond, 4), b"abcd");
            arena.dealloc(beyond, layout(4096, 1));
        }
    }
}
