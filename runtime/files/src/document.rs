//! Parses YAML documents. Every value has its line and column, and every error names them. Entry points, in this order: [`split()`],
//! [`Part::parse`] and [`Node::decode`].

mod decode;
mod problem;
mod split;
mod tree;

pub use decode::DecodeError;
pub use problem::{Location, Problem, nearest};
pub use split::{Part, split};
pub use tree::{Key, Node, Position, Step, Value};

/// The `apiVersion` of every document of this program.
pub const API_VERSION: &str = "windlass.dev/v1alpha1";
