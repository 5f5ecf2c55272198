//! Label and field selectors. Entry points: [`LabelSelector`] and [`FieldSelector`].

mod field;
mod label;
mod parse;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelSelector, LabelSet};

/// Why a text is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} selector {selector:?} is wrong: {problem}")]
pub struct SelectorError {
    /// `label` or `field`.
    pub what: &'static str,
    /// The selector, cut to 200 characters.
    pub selector: String,
    /// What is wrong, and what is expected.
    pub problem: String,
}

impl SelectorError {
    fn new(what: &'static str, selector: &str, problem: impl Into<String>) -> Self {
        Self {
            what,
            selector: selector.chars().take(200).collect(),
            problem: problem.into(),
        }
    }
}

/// Longest selector, in bytes: it fits into a URL that every API server accepts.
const MAX: usize = 8192;
