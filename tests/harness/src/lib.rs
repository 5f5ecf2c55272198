//! The base of every test suite: real servers, a simulated fleet, built guests, the running program, waiting.
//!
//! * [`testenv`] starts real `kube-apiserver`s.
//! * [`fleet`] starts simulated clusters and a manager.
//! * [`guests`] builds the components under `guests/`; [`program`] runs the `windlass` binary, and [`http`] sends requests to it.
//! * [`alone`] gives a test a process of its own.
//! * [`eventually()`] is the one way to wait in a test: for a condition, with a deadline.
//! * [`footprint`] measures the tasks, sockets and memory that a test uses.
//! * [`proxy`] is a network that fails.
//! * [`logs`] shows `tracing` output of a test that fails.

pub mod alone;
pub mod eventually;
pub mod fleet;
pub mod footprint;
pub mod guests;
pub mod http;
pub mod outside;
pub mod logs;
pub mod program;
pub mod proxy;
pub mod testenv;

pub use eventually::eventually;

use std::path::{Path, PathBuf};

/// The root folder of the repository.
pub fn repository() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    match manifest.ancestors().nth(2) {
        Some(root) => root.to_path_buf(),
        None => unreachable!("the harness lies two folders below the repository's root"),
    }
}
