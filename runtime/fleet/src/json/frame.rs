//! One event of a watch. Entry point: [`Frame::scan`].

use super::{JsonError, JsonProblem, Scanner, Span};

/// The type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FrameType {
    /// The object exists now.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted, or does not match the watch any more; it is in its last state.
    Deleted,
    /// Progress: the object has only a resource version.
    Bookmark,
    /// The watch ended; the object is a Status.
    Error,
}

impl FrameType {
    fn read(word: &str) -> Option<Self> {
        Some(match word {
            "ADDED" => Self::Added,
            "MODIFIED" => Self::Modified,
            "DELETED" => Self::Deleted,
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => return None,
        })
    }
}

/// One event of a watch: `{"type": …, "object": …}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its type.
    pub(crate) frame_type: FrameType,
    /// The position of the object in the line.
    pub(crate) object: Span,
}

impl Frame {
    /// Checks a whole line of a watch; the object's fields are not read.
    ///
    /// # Errors
    /// [`JsonError`] when the line is not one JSON object with a known `type` and an `object` that is an object.
    pub(crate) fn scan(line: &[u8]) -> Result<Self, JsonError> {
        let mut scanner = Scanner::new(line)?;
        let mut frame_type = None;
        let mut object = Span::default();
        scanner.space();
        scanner.object(|scanner, key| {
            if key.is("type") {
                let at = scanner.position();
                let word = if scanner.peek()? == b'"' {
                    FrameType::read(&scanner.string()?.value())
                } else {
                    None
                };
                let expected = "ADDED, MODIFIED, DELETED, BOOKMARK or ERROR";
                frame_type = Some(word.ok_or_else(|| JsonError::wrong_type("type", expected, at))?);
                return Ok(());
            }
            if key.is("object") {
                if scanner.peek()? != b'{' {
                    return Err(JsonError::wrong_type(
                        "object",
                        "an object",
                        scanner.position(),
                    ));
                }
                object = scanner.value()?;
                return Ok(());
            }
            scanner.skip()
        })?;
        scanner.end()?;
        let missing = |field| JsonError::new(JsonProblem::Missing { field }, 0);
        let frame_type = frame_type.ok_or_else(|| missing("type"))?;
        if object.is_absent() {
            return Err(missing("object"));
        }
        Ok(Self { frame_type, object })
    }
}
