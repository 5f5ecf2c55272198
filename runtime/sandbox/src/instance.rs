//! One instance of a component, with all that the host keeps for its calls. Entry point: [`pooled::PooledInstance`].
//!
//! * [`call`]: the data of a store while a call runs, and its limits.
//! * [`pooled`]: instances in use, and idle ones that serve a later call.
//! * [`memory`] and [`answers`]: what a call may take, charged to its tenant.
//! * [`failure`]: what the guest did wrong, in words for people.
//! * [`teardown`]: a thread that gives large instances' memory back.

pub(crate) mod answers;
pub(crate) mod call;
pub(crate) mod failure;
pub(crate) mod memory;
pub(crate) mod pooled;
pub(crate) mod teardown;
