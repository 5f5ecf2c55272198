//! What tells one state of an object from every other, read without keeping the object. Entry point: [`Identity::scan`].

use super::{Head, JsonError, Scanner, Span};
use crate::request::ObjectKey;
use std::borrow::Cow;

/// Key, uid and version of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity<'a> {
    pub(crate) key: ObjectKey,
    /// Empty when absent.
    pub(crate) uid: Cow<'a, str>,
    /// Empty when absent.
    pub(crate) version: Cow<'a, str>,
}

impl<'a> Identity<'a> {
    /// Checks a whole text and reads who it is about.
    ///
    /// # Errors
    /// [`JsonError`] when the text is not one JSON object with a `metadata.name`.
    pub(crate) fn scan(text: &'a [u8]) -> Result<Self, JsonError> {
        let head = Head::scan(text)?.named()?;
        let string = |span: Span| {
            // Checked by the scan that made the head.
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
