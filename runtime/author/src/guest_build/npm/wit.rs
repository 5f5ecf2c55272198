//! The WIT for a guest in JavaScript: the contract, and the host's random numbers. Entry point: [`folder`].
//!
//! The engine of a guest has numbers of its own, which are the same in every instance. The SDK takes a seed from the host instead.

use crate::guest_build::settings::World;
use crate::guest_build::{BuildError, contract, io_error};
use std::path::{Path, PathBuf};

/// The world of a guest in JavaScript.
pub(super) const WORLD: &str = "in-javascript";

/// The part of WASI that the SDK calls.
const RANDOM: &str = "package wasi:random@0.2.0;

interface random {
  get-random-bytes: func(len: u64) -> list<u8>;
}
";

/// The folder of the WIT that a guest of this world is built against.
pub(super) fn folder(package: &Path, work: &Path, world: World) -> Result<PathBuf, BuildError> {
    let (from, into) = (contract::folder(package)?, work.join("wit"));
    // Without what an earlier contract had more.
    if into.is_dir() {
        std::fs::remove_dir_all(&into).map_err(io_error(&into))?;
    }
    std::fs::create_dir_all(into.join("deps")).map_err(io_error(&into))?;
    for entry in std::fs::read_dir(&from).map_err(io_error(&from))? {
        let path = entry.map_err(io_error(&from))?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            std::fs::copy(&path, into.join(name)).map_err(io_error(&path))?;
        }
    }
    let write = |name: &str, text: &str| {
        let path = into.join(name);
        std::fs::write(&path, text).map_err(io_error(&path))
    };
    write("deps/random.wit", RANDOM)?;
    let world = world.name();
    write(
        "in-javascript.wit",
        &format!("world {WORLD} {{\n  include {world};\n  import wasi:random/random@0.2.0;\n}}\n"),
    )?;
    Ok(into)
}
