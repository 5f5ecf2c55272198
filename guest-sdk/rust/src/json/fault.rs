//! Why a text cannot be read. Entry point: [`Fault`].

use serde::de::{Error, Expected, Unexpected};
use std::fmt;

/// The error, and the fields in which it is or the byte after which it was found.
#[derive(Debug)]
pub(crate) struct Fault {
    message: String,
    /// The names of fields and the positions in lists, the innermost first.
    path: Vec<String>,
    at: usize,
}

impl Fault {
    #[cold]
    #[inline(never)]
    pub(super) fn new(message: &str) -> Self {
        Self {
            message: message.to_owned(),
            path: Vec::new(),
            at: 0,
        }
    }

    /// In a field or an item.
    #[cold]
    #[inline(never)]
    pub(super) fn within(mut self, name: String) -> Self {
        self.path.push(name);
        self
    }

    pub(super) fn at(self, at: usize) -> Self {
        Self { at, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return write!(f, "{} (at byte {})", self.message, self.at);
        }
        for (at, name) in self.path.iter().rev().enumerate() {
            let dot = if at == 0 || name.starts_with('[') {
                ""
            } else {
                "."
            };
            write!(f, "{dot}{name}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    #[cold]
    #[inline(never)]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            path: Vec::new(),
            at: 0,
        }
    }

    /// Leaves the value out: it may be a secret, and code to print every type would be larger than the rest of the reader.
    #[cold]
    #[inline(never)]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Bool(_) => "true or false",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
            Unexpected::Float(_) => "a number",
            Unexpected::Str(_) | Unexpected::Char(_) => "a string",
            Unexpected::Unit | Unexpected::Option => "null",
            Unexpected::Seq => "a list",
            Unexpected::Map => "a map",
            _ => "something else",
        };
        Self::custom(format_args!("expected {expected}, found {found}"))
    }

    #[cold]
    #[inline(never)]
    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("expected {expected}, found another value"))
    }
}
