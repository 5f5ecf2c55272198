//! Windlass files: those that people write, for the program that runs them and for the tools of authors. Start at [`split()`], which parses
//! documents, and at [`Watch`], which reports changes.

mod document;
mod field_path;
mod interval;
mod project;
mod replaced_file;
mod watch;

pub use document::{
    API_VERSION, DecodeError, Key, Location, Node, Part, Position, Problem, Step, Value, nearest,
    split,
};
pub use field_path::below;
pub use interval::Interval;
pub use project::{STATE, built, built_path, has_modules, is_left_by_tools};
pub use replaced_file::replace;
pub use watch::{Target, Watch, written_since};
