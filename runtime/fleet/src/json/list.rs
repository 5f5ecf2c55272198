//! The answer to a list call, split into its items. Entry point: [`List::split`].

use super::head::{array, integer, string};
use super::{JsonError, JsonProblem, Scanner, Span};
use bytes::Bytes;

/// A page of a list: its metadata, and where its items stand.
#[derive(Debug, Clone)]
pub struct List {
    body: Bytes,
    /// `apiVersion` of the list, which items of built-in kinds lack; empty when absent.
    pub api_version: String,
    /// `kind` of the list, for example `PodList`; empty when absent.
    pub kind: String,
    /// `metadata.resourceVersion`; empty when absent.
    pub resource_version: String,
    /// `metadata.continue`; `None` on the last page.
    pub continue_token: Option<String>,
    /// `metadata.remainingItemCount`, which servers give without selectors only.
    pub remaining: Option<u64>,
    items: Vec<Span>,
}

impl List {
    /// Checks a whole body and finds its items; they are not looked into.
    ///
    /// # Errors
    /// [`JsonError`] when the body is not one JSON object with an array `items` (or null, as Go writes an empty one).
    pub fn split(body: Bytes) -> Result<Self, JsonError> {
        let mut found = Found::default();
        let mut scanner = Scanner::new(&body)?;
        scanner.space();
        if scanner.peek()? != b'{' {
            return Err(JsonError::syntax("an object", scanner.position()));
        }
        scanner.object(|scanner, key| match &*key.value() {
            "apiVersion" => string(scanner, "apiVersion").map(|span| found.api_version = span),
            "kind" => string(scanner, "kind").map(|span| found.kind = span),
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
            api_version: read(found.api_version),
            kind: read(found.kind),
            resource_version: read(found.resource_version),
            continue_token: Some(read(found.continue_token)).filter(|token| !token.is_empty()),
            remaining: u64::try_from(found.remaining)
                .ok()
                .filter(|remaining| *remaining > 0),
            items,
            body,
        })
    }

    /// The items as they stand in the body; [`super::Object::ingest`] makes objects of them.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.items.iter().map(|span| &self.body[span.range()])
    }

    /// The kind of the items where the list's own kind tells it: `Pod` of a `PodList`.
    #[must_use]
    pub fn item_kind(&self) -> Option<&str> {
        self.kind
            .strip_suffix("List")
            .filter(|kind| !kind.is_empty())
    }
}

#[derive(Default)]
struct Found {
    api_version: Span,
    kind: Span,
    resource_version: Span,
    continue_token: Span,
    remaining: i64,
    items: Option<Vec<Span>>,
}

impl Found {
    fn scan_metadata(&mut self, scanner: &mut Scanner<'_>) -> Result<(), JsonError> {
        (self.resource_version, self.continue_token, self.remaining) = Default::default();
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
            "remainingItemCount" => {
                integer(scanner, "metadata.remainingItemCount").map(|count| self.remaining = count)
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
