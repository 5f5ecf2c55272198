//! Real guests on a simulated fleet: what they can do, what they cannot, and that nobody notices. Entry points: the modules
//! below.

mod calls;
mod fixture;
mod fleet;
mod grants;
mod limits;
mod loading;
mod logs;
mod mapping;
mod swapping;
