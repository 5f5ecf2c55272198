//! The host functions, a file per interface of `wit/`. There is no function to call: each file implements its generated trait for
//! [`Call`](crate::instance::call::Call); [`taped`] all of them for a call that is recorded or played.

mod access;
mod client;
mod clock;
mod config;
mod convert;
mod fleet;
mod http;
mod log;
mod response;
pub(crate) mod taped;
pub(crate) mod wasi_http;
