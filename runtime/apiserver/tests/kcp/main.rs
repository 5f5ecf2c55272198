//! A kcp in memory, asked over HTTP: workspaces, exports, bindings and virtual workspaces.

mod asking;
mod claims;
mod exports;
mod shards;
mod workspaces;

use asking::Failure;
