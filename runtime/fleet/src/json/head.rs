//! The positions of the fields of an object that caches and predicates read. Entry point: [`Head`].

use super::{JsonError, JsonProblem, Raw, Scanner};

type Result<T> = std::result::Result<T, JsonError>;

/// A range of bytes in a JSON text; of a string, its quotes included. The empty range means that the field is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Both positions are in a text of at most [`super::MAX_LENGTH`] bytes.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= super::MAX_LENGTH);
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// Whether the field is absent.
    #[must_use]
    pub(crate) fn is_absent(self) -> bool {
        self.start == self.end
    }

    /// The range as indexes.
    #[must_use]
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The same bytes once `cuts` (in order) are taken out of the text and `prefix` bytes are put in at `at`, which lies before them.
    fn moved(self, cuts: &[Span], at: usize, prefix: usize) -> Self {
        if self.is_absent() {
            return self;
        }
        let moved = |position: u32| {
            let cut: u32 = cuts
                .iter()
                .filter(|cut| cut.end <= position)
                .map(|cut| cut.end - cut.start)
                .sum();
            let added = if position as usize > at { prefix } else { 0 };
            position as usize + added - cut as usize
        };
        Self::new(moved(self.start), moved(self.end))
    }
}

/// The fields of an object that caches and predicates read, as positions in its text: 112 bytes and no allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Head {
    /// `apiVersion`.
    pub(crate) api_version: Span,
    /// `kind`.
    pub(crate) kind: Span,
    /// `metadata`, all of it.
    pub(crate) metadata: Span,
    /// `metadata.namespace`.
    pub(crate) namespace: Span,
    /// `metadata.name`.
    pub(crate) name: Span,
    /// `metadata.uid`.
    pub(crate) uid: Span,
    /// `metadata.resourceVersion`.
    pub(crate) resource_version: Span,
    /// `metadata.labels`.
    pub(crate) labels: Span,
    /// `metadata.annotations`.
    pub(crate) annotations: Span,
    /// `metadata.ownerReferences`.
    pub(crate) owners: Span,
    /// `metadata.finalizers`.
    pub(crate) finalizers: Span,
    /// `status`.
    pub(crate) status: Span,
    /// `metadata.generation`; 0, which no server sets, when it is absent.
    pub(crate) generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
}

impl Head {
    /// Checks the whole text, which must be one JSON object, and finds its head. Every field may be absent: bookmarks, for example, have
    /// no name.
    ///
    /// # Errors
    /// [`JsonError`] when the text is not JSON or a field of the head has the wrong type.
    pub(crate) fn scan(text: &[u8]) -> Result<Self> {
        Ok(Self::scan_with_cuts(text)?.0)
    }

    /// As [`Head::scan`]; also returns the ranges of `metadata.managedFields` to cut out, in order.
    pub(super) fn scan_with_cuts(text: &[u8]) -> Result<(Self, Vec<Span>)> {
        let mut scanner = Scanner::new(text)?;
        let mut head = Self::default();
        let mut cuts = Vec::new();
        scanner.space();
        scanner.object(|scanner, key| match key.text {
            "apiVersion" => string(scanner, "apiVersion").map(|span| head.api_version = span),
            "kind" => string(scanner, "kind").map(|span| head.kind = span),
            "metadata" => head.scan_metadata(scanner, &mut cuts),
            "status" => scanner.value().map(|span| head.status = span),
            _ => head.scan_member(scanner, key, &mut cuts),
        })?;
        scanner.end()?;
        Ok((head, cuts))
    }

    /// A member whose raw key is none of the head's: skipped, unless the key with its escapes resolved is one of them.
    fn scan_member<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        key: Raw<'a>,
        cuts: &mut Vec<Span>,
    ) -> Result<()> {
        if key.is("apiVersion") {
            self.api_version = string(scanner, "apiVersion")?;
        } else if key.is("kind") {
            self.kind = string(scanner, "kind")?;
        } else if key.is("metadata") {
            self.scan_metadata(scanner, cuts)?;
        } else if key.is("status") {
            self.status = scanner.value()?;
        } else {
            scanner.skip()?;
        }
        Ok(())
    }

    fn scan_metadata(&mut self, scanner: &mut Scanner<'_>, cuts: &mut Vec<Span>) -> Result<()> {
        let Self {
            api_version,
            kind,
            status,
            ..
        } = *self;
        *self = Self {
            api_version,
            kind,
            status,
            ..Self::default()
        };
        let start = scanner.position();
        if scanner.peek()? == b'n' {
            return scanner.literal("null");
        }
        if scanner.peek()? != b'{' {
            return Err(JsonError::wrong_type("metadata", "an object", start));
        }
        let mut kept = false;
        scanner.object(|scanner, key| {
            if key.is("managedFields") {
                let end = scanner.value()?.range().end;
                cuts.push(cut(scanner.text().as_bytes(), key.start, end, kept));
                return Ok(());
            }
            kept = true;
            self.scan_metadata_member(scanner, key)
        })?;
        self.metadata = Span::new(start, scanner.position());
        Ok(())
    }

    fn scan_metadata_member<'a>(&mut self, scanner: &mut Scanner<'a>, key: Raw<'a>) -> Result<()> {
        match &*key.value() {
            "name" => self.name = string(scanner, "metadata.name")?,
            "namespace" => self.namespace = string(scanner, "metadata.namespace")?,
            "uid" => self.uid = string(scanner, "metadata.uid")?,
            "resourceVersion" => {
                self.resource_version = string(scanner, "metadata.resourceVersion")?
            }
            "generation" => self.generation = integer(scanner, "metadata.generation")?,
            "labels" => self.labels = string_map(scanner, "metadata.labels")?,
            "annotations" => self.annotations = string_map(scanner, "metadata.annotations")?,
            "ownerReferences" => self.owners = array(scanner, "metadata.ownerReferences")?,
            "finalizers" => self.finalizers = array(scanner, "metadata.finalizers")?,
            "deletionTimestamp" => {
                self.deleting = !string(scanner, "metadata.deletionTimestamp")?.is_absent()
            }
            _ => scanner.skip()?,
        }
        Ok(())
    }

    /// The same head for the text with `cuts` taken out and `prefix` bytes put in at `at`.
    pub(super) fn moved(self, cuts: &[Span], at: usize, prefix: usize) -> Self {
        let moved = |span: Span| span.moved(cuts, at, prefix);
        Self {
            api_version: moved(self.api_version),
            kind: moved(self.kind),
            metadata: moved(self.metadata),
            namespace: moved(self.namespace),
            name: moved(self.name),
            uid: moved(self.uid),
            resource_version: moved(self.resource_version),
            labels: moved(self.labels),
            annotations: moved(self.annotations),
            owners: moved(self.owners),
            finalizers: moved(self.finalizers),
            status: moved(self.status),
            generation: self.generation,
            deleting: self.deleting,
        }
    }

    /// Fails unless the object has a name.
    pub(super) fn named(self) -> Result<Self> {
        // Two bytes are the quotes of an empty string.
        if self.name.range().len() > 2 {
            return Ok(self);
        }
        Err(JsonError::new(
            JsonProblem::Missing {
                field: "metadata.name",
            },
            self.metadata.range().start,
        ))
    }
}

/// The range to cut out for a member: with the comma before it if a member before it stays, else with the comma behind it.
fn cut(text: &[u8], key: usize, end: usize, kept: bool) -> Span {
    let space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    if kept {
        let comma = text[..key]
            .iter()
            .rposition(|byte| !space(byte))
            .unwrap_or(key);
        return Span::new(comma, end);
    }
    match text[end..].iter().position(|byte| !space(byte)) {
        Some(at) if text[end + at] == b',' => Span::new(key, end + at + 1),
        _ => Span::new(key, end),
    }
}

/// Consumes a value that must begin with `first`, or is null, which is as if it were absent.
fn typed(
    scanner: &mut Scanner<'_>,
    first: u8,
    field: &'static str,
    expected: &'static str,
) -> Result<Span> {
    match scanner.peek()? {
        b'n' => scanner.literal("null").map(|()| Span::default()),
        byte if byte == first => scanner.value(),
        _ => Err(JsonError::wrong_type(field, expected, scanner.position())),
    }
}

pub(super) fn string(scanner: &mut Scanner<'_>, field: &'static str) -> Result<Span> {
    typed(scanner, b'"', field, "a string")
}

pub(super) fn array(scanner: &mut Scanner<'_>, field: &'static str) -> Result<Span> {
    typed(scanner, b'[', field, "an array")
}

fn integer(scanner: &mut Scanner<'_>, field: &'static str) -> Result<i64> {
    let at = scanner.position();
    match scanner.peek()? {
        b'n' => scanner.literal("null").map(|()| 0),
        b'-' | b'0'..=b'9' => scanner
            .number()?
            .parse()
            .map_err(|_| JsonError::wrong_type(field, "an integer", at)),
        _ => Err(JsonError::wrong_type(field, "an integer", at)),
    }
}

fn string_map(scanner: &mut Scanner<'_>, field: &'static str) -> Result<Span> {
    let start = scanner.position();
    match scanner.peek()? {
        b'n' => return scanner.literal("null").map(|()| Span::default()),
        b'{' => {}
        _ => return Err(JsonError::wrong_type(field, "an object", start)),
    }
    scanner.object(|scanner, _| match scanner.peek()? {
        b'"' => scanner.skip(),
        b'n' => scanner.literal("null"),
        _ => Err(JsonError::wrong_type(
            field,
            "an object of strings",
            scanner.position(),
        )),
    })?;
    Ok(Span::new(start, scanner.position()))
}
