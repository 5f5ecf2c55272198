//! Resources that calls and guests wait for before they begin, fairly by tenant: instance slots, memory, compile permits.
//! Entry point: [`semaphore::FairSemaphore`], of [`slots::Slots`], [`memory::Memory`] or [`compilations::Compilations`].

pub(crate) mod compilations;
pub(crate) mod evictable;
pub(crate) mod memory;
pub(crate) mod semaphore;
pub(crate) mod slots;
mod wait_list;
