//! What calls and guests wait for before they begin, each shared fairly between tenants: instance slots, memory, compilations.
//! Entry point: [`semaphore::FairSemaphore`], of [`slots::Slots`], [`memory::Memory`] or [`compilations::Compilations`].

pub(crate) mod compilations;
pub(crate) mod evictable;
pub(crate) mod memory;
pub(crate) mod semaphore;
pub(crate) mod slots;
mod wait_list;
