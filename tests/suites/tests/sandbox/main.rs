//! Real guests on a simulated fleet: what they can do, what they cannot, and that nobody notices. Entry points: the modules
//! below.

#![allow(
    clippy::expect_used,
    reason = "a test asserts by unwrapping, in its fixture too"
)]

mod answers;
mod calls;
mod cancelling;
mod compiling;
mod fixture;
mod fleet;
mod fuzz;
mod mutate;
mod mutated;
mod grants;
mod handles;
mod http;
mod huge;
mod javascript;
mod limits;
mod loading;
mod logs;
mod mapping;
mod neighbour;
mod requests;
mod reuse;
mod rights;
mod shares;
mod sharing;
mod storms;
mod swapping;
mod taken_away;
mod wasi;
