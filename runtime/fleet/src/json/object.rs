//! An object as caches keep it: its text, and the positions of the fields of its head. Entry point: [`Object`].

use super::{Head, JsonError, Raw, Scanner, Span};
use crate::kind::GroupVersionKind;
use crate::request::ObjectKey;
use crate::workspace;
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;

/// A named Kubernetes object as JSON text that has been validated from end to end. Cheap to clone: the text is shared.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    inner: Arc<Inner>,
    /// Its logical cluster, in a cache of many: a part of its key.
    workspace: Option<Arc<str>>,
}

/// Shared by everything that has the object: caches, requests that changed it, readers.
#[derive(Debug)]
struct Inner {
    json: Bytes,
    /// Made from `json`, so that every span is a range of it.
    head: Head,
}

impl Object {
    fn new(json: Bytes, head: Head) -> Self {
        Self {
            inner: Arc::new(Inner { json, head }),
            workspace: None,
        }
    }

    /// Makes an object of a text, without a copy.
    ///
    /// # Errors
    /// [`JsonError`] when the text is not one JSON object with a `metadata.name`.
    pub(crate) fn parse(json: Bytes) -> Result<Self, JsonError> {
        let head = Head::scan(&json)?.named()?;
        Ok(Self::new(json, head))
    }

    /// Copies a text into memory of its own, without `metadata.managedFields`. Adds the given `apiVersion` and `kind` if they are missing, as
    /// in items of lists. Everything else is verbatim.
    ///
    /// # Errors
    /// [`JsonError`] when the text is not one JSON object with a `metadata.name`.
    pub(crate) fn ingest(text: &[u8], kind: &GroupVersionKind) -> Result<Self, JsonError> {
        let (head, cuts) = Head::scan_with_cuts(text)?;
        let head = head.named()?;
        // An object with a name has a member, so that the inserted text may end in a comma.
        let at = text
            .iter()
            .position(|byte| *byte == b'{')
            .map_or(0, |brace| brace + 1);
        let mut prefix = String::new();
        let mut insert = |span: Span, field: &str, value: &str| {
            if !span.is_absent() {
                return None;
            }
            prefix.push_str(field);
            let start = at + prefix.len();
            prefix.push_str(&serde_json::Value::from(value).to_string());
            let end = at + prefix.len();
            prefix.push(',');
            Some(Span::new(start, end))
        };
        let api_version = insert(head.api_version, "\"apiVersion\":", &kind.api_version());
        let kind = insert(head.kind, "\"kind\":", &kind.kind);
        let mut head = head.moved(&cuts, at, prefix.len());
        head.api_version = api_version.unwrap_or(head.api_version);
        head.kind = kind.unwrap_or(head.kind);
        Ok(Self::new(edited(text, &cuts, at, &prefix), head))
    }

    /// The object as one of the logical cluster that its annotation names; `None` if it names none.
    #[must_use]
    pub(crate) fn of_its_workspace(self) -> Option<Self> {
        let workspace = self.annotations().get(workspace::ANNOTATION)?;
        let workspace = Some(workspace.as_ref().into());
        Some(Self { workspace, ..self })
    }

    /// The object if it is one of a logical cluster, without that in its key.
    #[must_use]
    pub(crate) fn out_of_workspace(self, workspace: &str) -> Option<Self> {
        (self.workspace.as_deref() == Some(workspace)).then(|| Self {
            workspace: None,
            ..self
        })
    }

    /// Its logical cluster, in a cache of many.
    #[must_use]
    pub(crate) fn workspace(&self) -> Option<&Arc<str>> {
        self.workspace.as_ref()
    }

    /// The whole text.
    #[must_use]
    pub(crate) fn json(&self) -> &Bytes {
        &self.inner.json
    }

    /// The positions of the head's fields in [`Object::json`].
    #[cfg(test)]
    pub(super) fn head(&self) -> &Head {
        &self.inner.head
    }

    fn text(&self) -> &str {
        // Checked by the scan that made the head.
        std::str::from_utf8(&self.inner.json).unwrap_or_default()
    }

    fn raw(&self, span: Span) -> &[u8] {
        &self.inner.json[span.range()]
    }

    fn text_of(&self, span: Span) -> &str {
        std::str::from_utf8(self.raw(span)).unwrap_or_default()
    }

    fn string(&self, span: Span) -> Option<Cow<'_, str>> {
        if span.is_absent() {
            return None;
        }
        // Only this slice is validated again: validating the whole text would cost more than reading the field.
        let text = std::str::from_utf8(self.raw(span)).ok()?;
        Scanner::of(text).string().ok().map(|raw| raw.value())
    }

    /// `kind`; empty when absent.
    #[must_use]
    pub(crate) fn kind(&self) -> Cow<'_, str> {
        self.string(self.inner.head.kind).unwrap_or_default()
    }

    /// `metadata.name`; never empty.
    #[must_use]
    pub(crate) fn name(&self) -> Cow<'_, str> {
        self.string(self.inner.head.name).unwrap_or_default()
    }

    /// `metadata.namespace`; `None` for cluster-scoped objects.
    #[must_use]
    pub(crate) fn namespace(&self) -> Option<Cow<'_, str>> {
        self.string(self.inner.head.namespace)
            .filter(|namespace| !namespace.is_empty())
    }

    /// Namespace and name, newly allocated.
    #[must_use]
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.stored_namespace(),
            name: self.name().as_ref().into(),
        }
    }

    /// The namespace of its key.
    #[must_use]
    pub(crate) fn stored_namespace(&self) -> Option<Arc<str>> {
        let namespace = self.namespace();
        match &self.workspace {
            Some(workspace) => Some(workspace::stored(workspace, namespace.as_deref())),
            None => namespace.map(|namespace| namespace.as_ref().into()),
        }
    }

    /// `metadata.uid`; empty when absent.
    #[must_use]
    pub(crate) fn uid(&self) -> Cow<'_, str> {
        self.string(self.inner.head.uid).unwrap_or_default()
    }

    /// `metadata.resourceVersion`; empty when absent.
    #[must_use]
    pub(crate) fn resource_version(&self) -> Cow<'_, str> {
        self.string(self.inner.head.resource_version)
            .unwrap_or_default()
    }

    /// `metadata.generation`, which not every kind has.
    #[must_use]
    pub(crate) fn generation(&self) -> Option<i64> {
        (self.inner.head.generation != 0).then_some(self.inner.head.generation)
    }

    /// Whether `metadata.deletionTimestamp` is set.
    #[must_use]
    pub(crate) fn is_deleting(&self) -> bool {
        self.inner.head.deleting
    }

    /// `metadata.labels`.
    #[must_use]
    pub(crate) fn labels(&self) -> Labels<'_> {
        Labels(self.text_of(self.inner.head.labels))
    }

    /// `metadata.ownerReferences`, without those that lack kind, name or uid: no API server accepts them.
    #[must_use]
    pub(crate) fn owners(&self) -> Vec<OwnerReference<'_>> {
        let mut owners = Vec::new();
        if self.inner.head.owners.is_absent() {
            return owners;
        }
        let mut scanner =
            Scanner::of(std::str::from_utf8(self.raw(self.inner.head.owners)).unwrap_or_default());
        // The text has been validated: an error can only be an element that is no object, and ends the list.
        let _ = scanner.array(|scanner| {
            owners.extend(OwnerReference::scan(scanner)?);
            Ok(())
        });
        owners
    }

    /// The same object with another text. `None`: that is not one with this name and version.
    #[must_use]
    pub(crate) fn with_text(&self, json: Vec<u8>) -> Option<Self> {
        let parsed = Self::parse(json.into()).ok()?;
        let identity = |of: &Self| {
            let (name, namespace) = (of.name().into_owned(), of.namespace().map(Cow::into_owned));
            (name, namespace, of.resource_version().into_owned())
        };
        (identity(&parsed) == identity(self)).then(|| Self {
            workspace: self.workspace.clone(),
            ..parsed
        })
    }

    /// `apiVersion`, `kind` and `metadata` alone, in memory of their own.
    #[must_use]
    pub(crate) fn metadata_only(&self) -> Self {
        let mut json = Vec::with_capacity(self.inner.head.metadata.range().len() + 64);
        json.push(b'{');
        for (key, span) in [
            ("apiVersion", self.inner.head.api_version),
            ("kind", self.inner.head.kind),
            ("metadata", self.inner.head.metadata),
        ] {
            if span.is_absent() {
                continue;
            }
            if json.len() > 1 {
                json.push(b',');
            }
            json.push(b'"');
            json.extend_from_slice(key.as_bytes());
            json.extend_from_slice(b"\":");
            json.extend_from_slice(self.raw(span));
        }
        json.push(b'}');
        json.shrink_to_fit();
        let json = Bytes::from(json);
        // Parts of a validated text make a text that scans.
        let head = Head::scan(&json).unwrap_or_default();
        Self::new(json, head)
    }

    /// The metadata alone, under the given kind: servers send it as a PartialObjectMetadata.
    #[must_use]
    pub(crate) fn metadata_of(&self, kind: &GroupVersionKind) -> Self {
        let words = serde_json::json!({"apiVersion": kind.api_version(), "kind": &*kind.kind});
        let mut json = words.to_string().into_bytes();
        json.pop();
        json.extend_from_slice(b",\"metadata\":");
        json.extend_from_slice(self.raw(self.inner.head.metadata));
        json.push(b'}');
        json.shrink_to_fit();
        // Parts of a validated object make an object.
        let parsed = Self::parse(json.into()).unwrap_or_else(|_| self.metadata_only());
        Self {
            workspace: self.workspace.clone(),
            ..parsed
        }
    }

    /// The object with `to` in place of the namespace `from` in the members `parents`.
    #[must_use]
    pub(crate) fn moved(&self, parents: &[&str], from: &str, to: &str) -> Self {
        // The text has been validated, and another namespace leaves it an object: neither step can fail.
        let moved = super::moved(&self.inner.json, parents, from, to).and_then(Self::parse);
        moved.unwrap_or_else(|_| self.clone())
    }

    /// Whether everything but `metadata` and `status` is the same. Texts are compared byte by byte: the same content in another
    /// spelling or order counts as different, which costs a reconcile and never loses one.
    #[must_use]
    pub(crate) fn same_content(&self, other: &Self) -> bool {
        self.content() == other.content()
    }

    fn content(&self) -> Vec<(Cow<'_, str>, &str)> {
        let mut members = Vec::new();
        let mut scanner = Scanner::of(self.text());
        scanner.space();
        // The text has been validated: this cannot fail.
        let _ = scanner.object(|scanner, key| {
            let value = scanner.value()?;
            let key = key.value();
            if key != "metadata" && key != "status" {
                members.push((key, &scanner.text()[value.range()]));
            }
            Ok(())
        });
        members
    }

    /// Whether `metadata.labels` are the same, byte by byte as in [`Object::same_content`].
    #[must_use]
    pub(crate) fn same_labels(&self, other: &Self) -> bool {
        self.part(self.inner.head.labels) == other.part(other.inner.head.labels)
    }

    /// `metadata.annotations`, read as labels are.
    #[must_use]
    pub(crate) fn annotations(&self) -> Labels<'_> {
        Labels(self.text_of(self.inner.head.annotations))
    }

    /// Whether `metadata.annotations` are the same, byte by byte as in [`Object::same_content`].
    #[must_use]
    pub(crate) fn same_annotations(&self, other: &Self) -> bool {
        self.part(self.inner.head.annotations) == other.part(other.inner.head.annotations)
    }

    /// Whether `status` is the same, byte by byte as in [`Object::same_content`].
    #[must_use]
    pub(crate) fn same_status(&self, other: &Self) -> bool {
        self.part(self.inner.head.status) == other.part(other.inner.head.status)
    }

    /// The text of a part; an absent one equals the empty object.
    fn part(&self, span: Span) -> &[u8] {
        match self.raw(span) {
            b"{}" | b"null" => b"",
            part => part,
        }
    }
}

/// The text without `cuts` and with `prefix` inserted at `at`, in memory of exactly its size.
fn edited(text: &[u8], cuts: &[Span], at: usize, prefix: &str) -> Bytes {
    let cut: usize = cuts.iter().map(|cut| cut.range().len()).sum();
    let mut json = Vec::with_capacity(text.len() + prefix.len() - cut);
    json.extend_from_slice(&text[..at]);
    json.extend_from_slice(prefix.as_bytes());
    let mut from = at;
    for cut in cuts {
        json.extend_from_slice(&text[from..cut.range().start]);
        from = cut.range().end;
    }
    json.extend_from_slice(&text[from..]);
    Bytes::from(json)
}

/// The labels of an object. Scans the text each time: objects have few labels, so that this is faster than a map, and costs no memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Labels<'a>(&'a str);

impl<'a> Labels<'a> {
    /// The value of a label.
    #[must_use]
    pub(crate) fn get(self, key: &str) -> Option<Cow<'a, str>> {
        let mut found = None;
        self.each(|label, value| {
            if label.is(key) {
                found = Some(value.value());
            }
        });
        found
    }

    /// All labels.
    pub(crate) fn to_map(self) -> std::collections::BTreeMap<String, String> {
        let mut map = std::collections::BTreeMap::new();
        self.each(|label, value| {
            map.insert(label.value().into_owned(), value.value().into_owned());
        });
        map
    }

    fn each(self, mut label: impl FnMut(Raw<'a>, Raw<'a>)) {
        if self.0.is_empty() {
            return;
        }
        // The text has been validated: this cannot fail.
        let _ = Scanner::of(self.0).object(|scanner, key| {
            if scanner.peek()? == b'n' {
                return scanner.literal("null");
            }
            label(key, scanner.string()?);
            Ok(())
        });
    }
}

/// One of an object's `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnerReference<'a> {
    /// `apiVersion` of the owner.
    pub(crate) api_version: Cow<'a, str>,
    /// `kind` of the owner.
    pub(crate) kind: Cow<'a, str>,
    /// Name of the owner; its namespace is the object's, or none.
    pub(crate) name: Cow<'a, str>,
    /// Uid of the owner.
    pub(crate) uid: Cow<'a, str>,
    /// Whether it is the managing controller.
    pub(crate) controller: bool,
}

impl<'a> OwnerReference<'a> {
    fn scan(scanner: &mut Scanner<'a>) -> Result<Option<Self>, JsonError> {
        let [mut api_version, mut kind, mut name, mut uid] = [const { None }; 4];
        let mut controller = false;
        scanner.object(|scanner, key| {
            let first = scanner.peek()?;
            let field = match &*key.value() {
                "apiVersion" => &mut api_version,
                "kind" => &mut kind,
                "name" => &mut name,
                "uid" => &mut uid,
                "controller" => {
                    controller = first == b't';
                    return scanner.skip();
                }
                _ => return scanner.skip(),
            };
            if first != b'"' {
                *field = None;
                return scanner.skip();
            }
            *field = Some(scanner.string()?.value());
            Ok(())
        })?;
        let (Some(api_version), Some(kind), Some(name), Some(uid)) = (api_version, kind, name, uid)
        else {
            return Ok(None);
        };
        Ok(Some(Self {
            api_version,
            kind,
            name,
            uid,
            controller,
        }))
    }
}
