//! Parses YAML documents. Every value has its line and column, and every error names them. Entry points, in this order: [`split()`],
//! [`Part::parse`] and [`Node::decode`].

mod decode;
mod problem;
mod split;
mod tree;

pub(crate) use decode::DecodeError;
pub(crate) use problem::{Problem, nearest};
pub(crate) use split::{Part, split};
pub(crate) use tree::{Node, Position, Step, Value};
