//! Kubernetes objects as raw JSON text, scanned and never turned into a tree. Entry point: [`Object`].
//!
//! One pass over the text checks all of it (JSON grammar, UTF-8, depth) and keeps the positions of the few fields that caches and
//! predicates read. Later reads return slices of that text. Errors contain the byte position and never quote the text, which may
//! contain a Secret.
//!
//! If an object has a key twice, the last one counts, as in serde_json and in Go.

mod frame;
#[cfg(test)]
mod fuzz_tests;
mod head;
mod list;
mod moved;
mod object;
mod scan;
mod version;
#[cfg(test)]
mod tests;

pub(crate) use frame::{Frame, FrameType};
pub(crate) use head::{Head, Span};
pub(crate) use list::List;
pub(crate) use moved::moved;
pub(crate) use object::{Labels, Object};
pub(crate) use scan::{Raw, Scanner};
pub(crate) use version::ObjectVersion;

/// Deepest nesting of objects and arrays.
pub(crate) const MAX_DEPTH: u32 = 128;

/// Largest text, in bytes: positions are kept in 32 bits.
pub(crate) const MAX_LENGTH: usize = u32::MAX as usize;

/// Why a text is not the JSON that was expected. Bounded, and never quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {at}")]
pub(crate) struct JsonError {
    /// What is wrong.
    pub(crate) problem: JsonProblem,
    /// Where, in bytes from the start of the text that was scanned.
    pub(crate) at: usize,
}

/// What is wrong with a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonProblem {
    /// The text is over [`MAX_LENGTH`].
    #[error("the JSON text is too long")]
    TooLong,
    /// The text is not UTF-8.
    #[error("the JSON text is not UTF-8")]
    NotUtf8,
    /// The text ends inside a value.
    #[error("the JSON text is cut off")]
    CutOff,
    /// The text breaks the grammar.
    #[error("invalid JSON: expected {expected}")]
    Syntax {
        /// What the grammar allows there.
        expected: &'static str,
    },
    /// Nesting is deeper than [`MAX_DEPTH`].
    #[error("the JSON text nests more than {MAX_DEPTH} levels")]
    TooDeep,
    /// A field has a value of another type than its kind allows.
    #[error("{field} must be {expected}")]
    WrongType {
        /// Path of the field.
        field: &'static str,
        /// The type it must have.
        expected: &'static str,
    },
    /// A required field is missing.
    #[error("{field} is missing")]
    Missing {
        /// Path of the field.
        field: &'static str,
    },
}

impl JsonError {
    fn new(problem: JsonProblem, at: usize) -> Self {
        Self { problem, at }
    }

    fn syntax(expected: &'static str, at: usize) -> Self {
        Self::new(JsonProblem::Syntax { expected }, at)
    }

    fn wrong_type(field: &'static str, expected: &'static str, at: usize) -> Self {
        Self::new(JsonProblem::WrongType { field, expected }, at)
    }
}

/// Checks that a text is one JSON value and nothing else.
#[cfg(test)]
fn check(text: &[u8]) -> Result<(), JsonError> {
    let mut scanner = Scanner::new(text)?;
    scanner.space();
    scanner.skip()?;
    scanner.end()
}
