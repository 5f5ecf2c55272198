//! Configuration text with places: every value knows its line and column, every error names them. Entry point: [`split()`],
//! then [`Part::parse`] and [`Node::decode`].

mod decode;
mod problem;
mod split;
mod tree;

pub(crate) use decode::DecodeError;
pub(crate) use problem::{Problem, nearest};
pub(crate) use split::{Part, split};
pub(crate) use tree::{Node, Position};
