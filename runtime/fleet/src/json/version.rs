//! Which object a text is, and in which version, read without keeping the text. Entry point: [`ObjectVersion::scan`].

use super::{Head, JsonError, Scanner, Span};
use crate::request::ObjectKey;
use std::borrow::Cow;

/// Key, uid and version of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ObjectVersion<'a> {
    pub(crate) key: ObjectKey,
    /// Empty when absent.
    pub(crate) uid: Cow<'a, str>,
    /// Empty when absent.
    pub(crate) version: Cow<'a, str>,
}

impl<'a> ObjectVersion<'a> {
    /// Checks a whole text and reads its key, uid and version.
    ///
    /// # Errors
    /// [`JsonError`] when the text is not one JSON object with a `metadata.name`.
    pub(crate) fn scan(text: &'a [u8]) -> Result<Self, JsonError> {
        let head = Head::scan(text)?.named()?;
        let string = |span: Span| {
            // Validated by the scan that made the head.
            let part = std::str::from_utf8(&text[span.range()]).unwrap_or_default();
            let raw = Scanner::of(part).string();
            raw.map(|raw| raw.value()).unwrap_or_default()
        };
        let namespace = string(head.namespace);
        Ok(Self {
            key: ObjectKey {
                namespace: Some(namespace)
                    .filter(|namespace| !namespace.is_empty())
                    .map(|namespace| namespace.as_ref().into()),
                name: string(head.name).as_ref().into(),
            },
            uid: string(head.uid),
            version: string(head.resource_version),
        })
    }
}
