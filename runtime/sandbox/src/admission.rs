//! What calls and guests wait for before they begin, fairly by tenant, each a resource of a [`FairSemaphore`](windlass_fleet::fair):
//! [`slots`] for instances, [`memory`], and permits for [`compilations`]. [`evictable`]: idle instances, which make room.

pub(crate) mod compilations;
pub(crate) mod evictable;
pub(crate) mod memory;
pub(crate) mod slots;
