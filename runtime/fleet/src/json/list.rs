//! The answer to a list call, split into its items. Entry point: [`List::split`].

use super::head::{array, string};
use super::{JsonError, JsonProblem, Scanner, Span};
use bytes::Bytes;

/// A page of a list: its metadata, and the positions of its items.
#[derive(Debug, Clone)]
pub(crate) struct List {
    body: Bytes,
    /// `metadata.resourceVersion`; empty when absent.
    pub(crate) resource_version: String,
    /// `metadata.continue`; `None` on the last page.
    pub(crate) continue_token: Option<String>,
    items: Vec<Span>,
}

impl List {
    /// Checks a whole body and finds its items; their fields are not read.
    ///
    /// # Errors
    /// [`JsonError`] when the body is not one JSON object with an array `items` (or null, as Go writes an empty one).
    pub(crate) fn split(body: Bytes) -> Result<Self, JsonError> {
        let mut found = Found::default();
        let mut scanner = Scanner::new(&body)?;
        scanner.space();
        if scanner.peek()? != b'{' {
            return Err(JsonError::syntax("an object", scanner.position()));
        }
        scanner.object(|scanner, key| match &*key.value() {
            "metadata" => found.scan_metadata(scanner),
            "items" => found.scan_items(scanner),
            _ => scanner.skip(),
        })?;
        scanner.end()?;
        let items = found
            .items
            .ok_or(JsonError::new(JsonProblem::Missing { field: "items" }, 0))?;
        let text = scanner.text();
        let read = |span: Span| {
            Scanner::of(&text[span.range()])
                .string()
                .map(|raw| raw.value().into_owned())
                .unwrap_or_default()
        };
        Ok(Self {
            resource_version: read(found.resource_version),
            continue_token: Some(read(found.continue_token)).filter(|token| !token.is_empty()),
            items,
            body,
        })
    }

    /// The items' texts; [`super::Object::ingest`] makes objects of them.
    pub(crate) fn items(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.items.iter().map(|span| &self.body[span.range()])
    }
}

#[derive(Default)]
struct Found {
    resource_version: Span,
    continue_token: Span,
    items: Option<Vec<Span>>,
}

impl Found {
    fn scan_metadata(&mut self, scanner: &mut Scanner<'_>) -> Result<(), JsonError> {
        (self.resource_version, self.continue_token) = Default::default();
        if scanner.peek()? == b'n' {
            return scanner.literal("null");
        }
        scanner.object(|scanner, key| match &*key.value() {
            "resourceVersion" => {
                string(scanner, "metadata.resourceVersion").map(|span| self.resource_version = span)
            }
            "continue" => {
                string(scanner, "metadata.continue").map(|span| self.continue_token = span)
            }
            _ => scanner.skip(),
        })
    }

    fn scan_items(&mut self, scanner: &mut Scanner<'_>) -> Result<(), JsonError> {
        let mut items = Vec::new();
        if scanner.peek()? == b'[' {
            scanner.array(|scanner| scanner.value().map(|span| items.push(span)))?;
        } else {
            array(scanner, "items")?;
        }
        self.items = Some(items);
        Ok(())
    }
}
