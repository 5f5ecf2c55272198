//! What a guest can reach, a file per interface of `wit/`. Nothing to call: each implements its generated trait for
//! [`Call`](crate::instance::call::Call).

mod access;
mod client;
mod clock;
mod config;
mod convert;
mod fleet;
mod log;
mod response;
