//! What the engine makes of servers and networks that fail. Entry points: the modules below, one per sort of failure.
//!
//! A test starts a [`rig::Rig`]: simulated clusters with a manager over all of them, whose reconciler keeps a child of each
//! object equal to it. It disturbs one or some of the clusters, ends the disturbance and asks the [`oracle`], which proves that everything
//! is correct, stays so, and that nothing is left behind.

#![allow(
    clippy::expect_used,
    reason = "a test asserts by unwrapping, in its fixture too"
)]

mod answers;
mod credentials;
mod departures;
mod history;
mod keeper;
mod oracle;
mod outages;
mod partitions;
mod provided;
mod providers;
mod proxies;
mod real;
mod restarts;
mod rig;
mod shards;
mod silence;
mod simulation;
mod soak;
mod throttling;
mod watches;
