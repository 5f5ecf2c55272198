//! What a guest can reach, a file per interface of `wit/`. Nothing to call: each implements its generated trait for
//! [`Call`](crate::call::Call).

mod client;
mod clock;
mod config;
mod convert;
mod fleet;
mod handle;
mod log;
mod response;
mod stdio;

#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub use handle::ClusterHandle;
pub(crate) use handle::{Reach, Refused, StaleHandle};
pub(crate) use log::Journal;
pub(crate) use stdio::Stdio;
