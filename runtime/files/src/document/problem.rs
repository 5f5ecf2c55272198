//! Problems of configuration, with their location. Entry point: [`Problem`].

use crate::document::Position;
use std::fmt;
use std::sync::Arc;

/// A file, and a position in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file's path as the user wrote it.
    pub file: Arc<str>,
    /// `None` for the whole file.
    pub position: Option<Position>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(Position { line, column }) => write!(f, "{}:{line}:{column}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// A problem of configuration, in one line: where, what, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The location of the problem.
    pub location: Location,
    /// The problem and the remedy, lower case, without the location.
    pub message: String,
}

impl Problem {
    /// A problem with a whole file.
    pub fn of_file(file: &Arc<str>, message: impl Into<String>) -> Self {
        Self {
            location: Location {
                file: file.clone(),
                position: None,
            },
            message: message.into(),
        }
    }

    /// A problem at a position.
    pub fn at(file: &Arc<str>, position: Position, message: impl Into<String>) -> Self {
        Self {
            location: Location {
                file: file.clone(),
                position: Some(position),
            },
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// The known word that is most like `word`.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| {
            (
                strsim::jaro_winkler(&folded, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_a_far_one_is_not() {
        let known = ["tenant", "guest", "clusters", "rules"];
        assert_eq!(nearest("tenat", known), Some("tenant"));
        assert_eq!(nearest("Cluster", known), Some("clusters"));
        assert_eq!(nearest("zzz", known), None);
    }
}
