//! Instances of components, and the host's state for their calls. Entry point: [`pooled::PooledInstance`].
//!
//! * [`call`]: the data of a store while a call runs, and its limits.
//! * [`pooled`]: instances in use, and idle ones that serve a later call.
//! * [`memory`] and [`answers`]: memory of a call, charged to its tenant.
//! * [`failure`]: why a call did not come back, in words for people.
//! * [`teardown`]: a thread that frees the memory of large instances.

pub(crate) mod answers;
pub(crate) mod call;
pub(crate) mod failure;
pub(crate) mod memory;
pub(crate) mod pooled;
pub(crate) mod teardown;
