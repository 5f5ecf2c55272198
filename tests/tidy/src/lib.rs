//! The rules of this repository that a machine can check. Entry point: [`Repository::load`], then the [`check`]s.
//!
//! `cargo test -p windlass-tidy` runs all of them; a finding names file, line and remedy.

pub mod check;
pub mod crates;
mod lexer;
mod repository;
mod rust;

use std::fmt;

pub use repository::{Repository, TextFile};
pub use rust::RustFile;

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Relative to the repository's root.
    pub path: String,
    /// Counted from 1.
    pub line: usize,
    /// The error and its remedy.
    pub message: String,
}

impl Finding {
    /// A finding at a line counted from 1.
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}
