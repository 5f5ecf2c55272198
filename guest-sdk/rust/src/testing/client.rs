//! The contract's functions on a test cluster. Entry point: the methods `serve_…` of [`TestCluster`], which only
//! [`crate::raw`] calls.

use super::Verb;
use super::cluster::TestCluster;
use super::select::{field_selector, label_selector, labels_of};
use super::store::{Part, Store, invalid, key_of};
use crate::dependents::OWNER;
use crate::error::ApiError;
use crate::types::{
    ApplyOptions, DeleteOptions, Event, GetOptions, GroupVersionKind, ListOptions, ListPage,
    ObjectKey, PatchType, Projection, Selection, WriteOptions,
};
use serde_json::Value;

/// Items of a page if the call sets no limit.
const PAGE: usize = 500;

impl TestCluster {
    /// Counts a call, and fails it if the test asked for it.
    fn call<T>(
        &self,
        verb: Verb,
        serve: impl FnOnce(&mut Store) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let state = &mut *self.state.borrow_mut();
        state.calls.push(verb);
        match state
            .failures
            .iter()
            .position(|(failing, _)| *failing == verb)
        {
            Some(at) => Err(state.failures.remove(at).1),
            None => serve(&mut state.store),
        }
    }

    pub(crate) fn serve_get(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<String>, ApiError> {
        self.call(Verb::Get, |store| {
            Part::of(options.subresource.as_deref())?;
            Ok(store
                .get(kind, key)
                .map(|object| projected(object, options.projection)))
        })
    }

    pub(crate) fn serve_list(
        &self,
        kind: &GroupVersionKind,
        options: &ListOptions,
    ) -> Result<ListPage, ApiError> {
        self.call(Verb::List, |store| {
            let owned = match &options.index {
                None => None,
                Some((name, uid)) if name == OWNER => Some(format!("{OWNER}={uid}")),
                Some(_) => {
                    return Err(invalid(
                        "a test cluster has no indexes: list by label, or test with a real cluster",
                    ));
                }
            };
            let (namespace, labels) = (
                options.namespace.as_deref(),
                owned.as_deref().or(options.label_selector.as_deref()),
            );
            let selected = select(
                store,
                kind,
                namespace,
                labels,
                options.field_selector.as_deref(),
            )?;
            let start: usize = match &options.continue_token {
                Some(token) => token
                    .parse()
                    .map_err(|_| invalid("the continue token is of another list"))?,
                None => 0,
            };
            let size = if options.limit == 0 {
                PAGE
            } else {
                options.limit as usize
            };
            let end = selected.len().min(start.saturating_add(size));
            let page = selected.get(start..end).unwrap_or_default();
            Ok(ListPage {
                items: page
                    .iter()
                    .map(|object| projected(object, options.projection))
                    .collect(),
                continue_token: (end < selected.len()).then(|| end.to_string()),
                resource_version: store.version().to_string(),
            })
        })
    }

    pub(crate) fn serve_create(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &WriteOptions,
    ) -> Result<String, ApiError> {
        self.call(Verb::Create, |store| {
            Ok(store
                .create(kind, parse(object)?, options.dry_run)?
                .to_string())
        })
    }

    pub(crate) fn serve_update(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &WriteOptions,
    ) -> Result<String, ApiError> {
        self.call(Verb::Update, |store| {
            let part = Part::of(options.subresource.as_deref())?;
            Ok(store
                .update(kind, parse(object)?, part, options.dry_run)?
                .to_string())
        })
    }

    pub(crate) fn serve_patch(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch_type: PatchType,
        patch: &str,
        options: &WriteOptions,
    ) -> Result<String, ApiError> {
        self.call(Verb::Patch, |store| {
            if patch_type != PatchType::Merge {
                return Err(invalid("a test cluster knows merge patches only"));
            }
            let part = Part::of(options.subresource.as_deref())?;
            Ok(store
                .merge_patch(kind, key, &parse(patch)?, part, options.dry_run)?
                .to_string())
        })
    }

    pub(crate) fn serve_apply(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &ApplyOptions,
    ) -> Result<String, ApiError> {
        self.call(Verb::Apply, |store| {
            let part = Part::of(options.subresource.as_deref())?;
            Ok(store
                .apply(kind, &parse(object)?, part, options.dry_run)?
                .to_string())
        })
    }

    pub(crate) fn serve_delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        self.call(Verb::Delete, |store| {
            store.delete(
                kind,
                key,
                options.uid.as_deref(),
                options.resource_version.as_deref(),
                options.dry_run,
            )
        })
    }

    pub(crate) fn serve_delete_collection(
        &self,
        kind: &GroupVersionKind,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        self.call(Verb::DeleteCollection, |store| {
            let (namespace, labels) = (
                selection.namespace.as_deref(),
                selection.label_selector.as_deref(),
            );
            let selected = select(
                store,
                kind,
                namespace,
                labels,
                selection.field_selector.as_deref(),
            )?;
            let keys: Vec<ObjectKey> = selected.iter().filter_map(key_of).collect();
            if !options.dry_run {
                keys.iter().for_each(|key| store.remove(kind, key));
            }
            Ok(())
        })
    }

    pub(crate) fn serve_event(&self, event: &Event) {
        self.state.borrow_mut().events.push(event.clone());
    }
}

fn select(
    store: &Store,
    kind: &GroupVersionKind,
    namespace: Option<&str>,
    labels: Option<&str>,
    fields: Option<&str>,
) -> Result<Vec<Value>, ApiError> {
    let (labels_match, fields_match) = (label_selector(labels)?, field_selector(fields)?);
    let selected = store.of_kind(kind).filter(|object| {
        let here = namespace.is_none_or(|namespace| object["metadata"]["namespace"] == namespace);
        here && labels_match(&labels_of(object)) && fields_match(object)
    });
    Ok(selected.cloned().collect())
}

fn projected(object: &Value, projection: Projection) -> String {
    if projection == Projection::Full {
        return object.to_string();
    }
    let kept = ["apiVersion", "kind", "metadata"].iter();
    Value::Object(
        kept.filter_map(|field| Some(((*field).to_owned(), object.get(*field)?.clone())))
            .collect(),
    )
    .to_string()
}

fn parse(text: &str) -> Result<Value, ApiError> {
    serde_json::from_str(text).map_err(|error| invalid(format!("not JSON: {error}")))
}

#[cfg(test)]
mod tests;
