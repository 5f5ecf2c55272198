//! A kcp in memory, asked over HTTP: workspaces, exports, bindings and virtual workspaces.

mod asking;
mod exports;

use asking::Failure;
