//! Which objects of a store are wanted, and a page of them. Entry point: [`Query`].

use super::index::IndexPath;
use crate::api::{ListPage, Projection};
use crate::json::Object;
use crate::request::ObjectKey;
use crate::selector::{FieldSelector, LabelSelector};
use std::ops::Bound;

/// What a page holds.
pub(crate) struct Page {
    pub(crate) objects: Vec<Object>,
    /// Key of the last object.
    pub(crate) last: Option<ObjectKey>,
    /// Whether objects follow.
    pub(crate) more: bool,
    pub(crate) version: String,
}

impl Page {
    /// The page as callers see it, with the projection they asked for.
    pub(crate) fn into_list(
        self,
        projection: Projection,
        continue_token: Option<String>,
    ) -> ListPage {
        let json = |object: Object| match projection {
            Projection::Full => object.json().clone(),
            Projection::Metadata => object.metadata_only().json().clone(),
        };
        ListPage {
            items: self.objects.into_iter().map(json).collect(),
            continue_token,
            resource_version: self.version,
        }
    }
}

/// A value at the path of an index.
#[derive(Clone, Copy)]
pub(crate) struct ByIndex<'a> {
    /// The stores' name of the index. A store that lacks it is looked through.
    pub(crate) name: &'a str,
    pub(crate) path: &'a IndexPath,
    pub(crate) value: &'a str,
}

/// Which objects of a store are wanted.
#[derive(Default)]
pub(crate) struct Query<'a> {
    pub(crate) namespace: Option<&'a str>,
    pub(crate) labels: Option<&'a LabelSelector>,
    /// Of `metadata.name` and `metadata.namespace` only.
    pub(crate) fields: Option<&'a FieldSelector>,
    pub(crate) index: Option<ByIndex<'a>>,
}

impl Query<'_> {
    pub(super) fn matches(&self, key: &ObjectKey, object: &Object) -> bool {
        self.namespace
            .is_none_or(|namespace| key.namespace.as_deref() == Some(namespace))
            && self
                .labels
                .is_none_or(|labels| labels.matches(&object.labels()))
            && self.fields.is_none_or(|fields| {
                fields.matches(|field| match field {
                    "metadata.name" => &*key.name,
                    _ => key.namespace.as_deref().unwrap_or_default(),
                })
            })
    }

    pub(super) fn from(&self, after: Option<&ObjectKey>) -> Bound<ObjectKey> {
        match (after, self.namespace) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(namespace)) => Bound::Included(ObjectKey::namespaced(namespace, "")),
            (None, None) => Bound::Unbounded,
        }
    }

    /// Whether no key from here on can be of the namespace.
    pub(super) fn is_past(&self, key: &ObjectKey) -> bool {
        self.namespace
            .is_some_and(|namespace| key.namespace.as_deref() > Some(namespace))
    }
}
