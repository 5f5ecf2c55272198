//! Real guests on a simulated fleet: what they can do, what they cannot, and that nobody notices. Entry points: the modules
//! below.

#![allow(
    clippy::expect_used,
    reason = "a test asserts by unwrapping, in its fixture too"
)]

mod calls;
mod compiling;
mod fixture;
mod fleet;
mod grants;
mod limits;
mod loading;
mod logs;
mod mapping;
mod reuse;
mod shares;
mod swapping;
