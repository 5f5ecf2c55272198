//! The objects that a primary object should have. Entry point: [`Dependents`].

mod apply;
mod failures;
mod order;
#[cfg(test)]
mod tests;

use crate::cluster::{Cluster, status_fields};
use crate::error::{ApiError, Result};
use crate::readiness;
use crate::resource::{Condition, Object, Resource, Typed};
use crate::types::{
    Action, ApiCode, Description, Enqueue, GroupVersionKind, Index, ListOptions, ObjectKey,
    Operation, Watch,
};
use failures::summary;
use order::{is_definition, remove};
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// The label with the owner's uid, and the index of it.
pub(crate) const OWNER: &str = "windlass.dev/owner";

/// Why an object is not ready.
type Ready<'a> = dyn Fn(&Object) -> Option<String> + 'a;

const RECHECK: Duration = Duration::from_secs(10);

/// The kinds of the objects that primary objects should have. A dependent of the same namespace, or of a cluster-scoped primary object, is
/// owned by it; another one has only the label `windlass.dev/owner`.
///
/// ```
/// # use windlass_sdk::prelude::*;
/// # use windlass_sdk::{Dependents, GroupVersionKind, Object};
/// # use serde_json::json;
/// fn parts() -> Dependents<'static> {
///     Dependents::new().kind("v1", "ConfigMap")
/// }
///
/// fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
///     let kind = GroupVersionKind::new("example.com/v1", "Website");
///     let Some(site) = cluster.of(kind).get(&request.key)? else {
///         return Ok(Action::Done);
///     };
///     let page = Object(json!({
///         "apiVersion": "v1", "kind": "ConfigMap", "metadata": Metadata::of(&request.key), "data": site.at("/spec/data"),
///     }));
///     parts().reconcile(cluster, &site, [page])
/// }
/// ```
pub struct Dependents<'a> {
    kinds: Vec<GroupVersionKind>,
    /// Those of the kinds whose objects may be deleted and created again.
    recreate: Vec<GroupVersionKind>,
    finalizer: Option<String>,
    ready: Box<Ready<'a>>,
    recheck: Duration,
    status: Result<Value, ApiError>,
    cleanup: Box<dyn Fn() -> Result<()> + 'a>,
}

impl fmt::Debug for Dependents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependents")
            .field("kinds", &self.kinds)
            .field("finalizer", &self.finalizer)
            .finish_non_exhaustive()
    }
}

impl Default for Dependents<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Dependents<'a> {
    /// Of no kind; ready by [`readiness`], looked at again after 10 s.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kinds: Vec::new(),
            recreate: Vec::new(),
            finalizer: None,
            ready: Box::new(readiness),
            recheck: RECHECK,
            status: Ok(Value::Null),
            cleanup: Box::new(|| Ok(())),
        }
    }

    /// Adds a kind. An object of it that is no longer desired is deleted.
    #[must_use]
    pub fn kind(mut self, api_version: &str, kind: &str) -> Self {
        self.kinds.push(GroupVersionKind::new(api_version, kind));
        self
    }

    /// As [`Self::kind`], for a kind that has a type.
    #[must_use]
    pub fn of<T: Typed>(mut self) -> Self {
        self.kinds.push(T::KIND.into());
        self
    }

    /// An object of the kind that was added last is deleted and created again if the server does not take a change (HTTP 422), as of a
    /// field that is immutable.
    #[must_use]
    pub fn recreate(mut self) -> Self {
        self.recreate.extend(self.kinds.last().cloned());
        self
    }

    /// The primary object holds this finalizer until its deletion is done. Needed for clean-ups, and for dependents that it cannot
    /// own.
    #[must_use]
    pub fn finalizer(self, finalizer: impl Into<String>) -> Self {
        Self {
            finalizer: Some(finalizer.into()),
            ..self
        }
    }

    /// Why an object is not ready; `None` if it is.
    #[must_use]
    pub fn ready(self, ready: impl Fn(&Object) -> Option<String> + 'a) -> Self {
        Self {
            ready: Box::new(ready),
            ..self
        }
    }

    /// When to look again while something is not ready and no event comes.
    #[must_use]
    pub fn recheck(self, recheck: Duration) -> Self {
        Self { recheck, ..self }
    }

    /// Further fields of the primary object's status, of JSON or of a type. Its conditions are left out.
    #[must_use]
    pub fn status(self, status: impl Serialize) -> Self {
        let status = status_fields(&status);
        Self { status, ..self }
    }

    /// Runs when the primary object is being deleted, and may run several times. It may fail with
    /// [`crate::Error::not_ready`].
    #[must_use]
    pub fn cleanup(self, cleanup: impl Fn() -> Result<()> + 'a) -> Self {
        Self {
            cleanup: Box::new(cleanup),
            ..self
        }
    }

    /// Applies the desired objects, deletes those that are no longer desired, and sets the conditions `Ready` and `Progressing` of the
    /// primary object, which must have been read. If the primary object is being deleted, it runs the clean-up, deletes the dependents
    /// that are not owned, and removes the finalizer.
    ///
    /// A failure of one keeps none of the others from being applied or deleted. [`crate::objects`] makes `desired` of objects of any types.
    ///
    /// # Errors
    /// Those of the calls; `invalid` for an object of another kind, and for one that cannot be owned without a finalizer.
    #[track_caller]
    pub fn reconcile<T: Resource>(
        &self,
        cluster: &Cluster,
        primary: &T,
        desired: impl IntoIterator<Item = Object>,
    ) -> Result<Action> {
        let place = Location::caller();
        let primary = Object::of(primary)?;
        let ended = if primary.is_deleting() {
            self.end(cluster, &primary)
        } else {
            self.keep(cluster, &primary, desired.into_iter().collect())
        };
        ended.map_err(|error| error.or_at(place))
    }

    /// Ends the dependents of an object that is being deleted. The garbage collector takes those that the object owns.
    fn end(&self, cluster: &Cluster, primary: &Object) -> Result<Action> {
        let ours = |finalizer: &&String| primary.has_finalizer(finalizer);
        let Some(finalizer) = self.finalizer.as_ref().filter(ours) else {
            return Ok(Action::Done);
        };
        (self.cleanup)()?;
        let mut left = self.not_owned(cluster, primary)?;
        let removed = remove(cluster, &left);
        if !removed.is_empty() {
            removed.into_iter().try_for_each(|(_, result)| result)?;
            left = self.not_owned(cluster, primary)?;
        }
        if left.is_empty() {
            cluster.remove_finalizer(primary, finalizer)?;
            return Ok(Action::Done);
        }
        let names: Vec<String> = left.iter().map(Object::named).collect();
        let message = format!("waits for the deletion of {}", summary(&names));
        report(cluster, primary, "Deleting", &message, &Value::Null)?;
        Ok(Action::requeue_after(self.recheck))
    }

    /// The dependents that exist. There are none of a kind that is not served, if definitions are dependents too, or at the end.
    fn of_owner(&self, cluster: &Cluster, primary: &Object) -> Result<Vec<Object>> {
        let uid = primary.text_at("/metadata/uid").unwrap_or_default();
        let options = ListOptions::default().index(OWNER, uid);
        let list = |kind: &GroupVersionKind| Operation::List((kind.clone(), options.clone()));
        let operations: Vec<Operation> = self.kinds.iter().map(list).collect();
        let may_lack = primary.is_deleting() || self.kinds.iter().any(is_definition);
        let mut found = Vec::new();
        for (kind, page) in self.kinds.iter().zip(cluster.batch(&operations)) {
            let page = match page {
                Err(error) if error.code == ApiCode::UnknownKind && may_lack => continue,
                page => page?,
            };
            let crate::Reply::Page(page) = page else {
                continue;
            };
            for text in &page.items {
                found.push(text.parse()?);
            }
            if page.continue_token.is_some() {
                let next = ListOptions {
                    continue_token: page.continue_token,
                    ..options.clone()
                };
                for object in cluster.iterate_with(kind.clone(), next) {
                    found.push(object?);
                }
            }
        }
        Ok(found)
    }

    fn not_owned(&self, cluster: &Cluster, primary: &Object) -> Result<Vec<Object>> {
        let mut found = self.of_owner(cluster, primary)?;
        let uid = &primary.0["metadata"]["uid"];
        found.retain(|object| !object.is_owned_by(uid));
        Ok(found)
    }
}

impl Description {
    /// Watches the kinds of dependents, so that an event on one asks for its owner, and indexes them by their owner.
    #[must_use]
    pub fn dependents(mut self, dependents: &Dependents<'_>) -> Self {
        for kind in &dependents.kinds {
            self.watches
                .push(Watch::of(kind.clone()).enqueue(Enqueue::ControllerOwner));
            self.indexes.push(Index {
                kind: kind.clone(),
                name: OWNER.to_owned(),
                path: format!("metadata.labels['{OWNER}']"),
                namespace_path: None,
                options: Vec::new(),
            });
        }
        self
    }
}

/// Writes the conditions `Ready` and `Progressing`.
fn report(
    cluster: &Cluster,
    primary: &Object,
    reason: &str,
    message: &str,
    status: &Value,
) -> Result<(), ApiError> {
    let (kind, key) = (primary.kind(), primary.key());
    let Some(present) = cluster.of(kind.clone()).get(&key)? else {
        return Ok(());
    };
    let mut next = present.clone();
    let ready = reason == "Ready";
    for (of, is) in [("Ready", ready), ("Progressing", !ready)] {
        next.set_condition(Condition {
            observed_generation: primary.0["metadata"]["generation"].as_i64(),
            ..Condition::new(of, is, reason).message(message)
        });
    }
    let mut wanted = status.as_object().cloned().unwrap_or_default();
    let conditions = next.0["status"]["conditions"].take();
    wanted.insert("conditions".to_owned(), conditions);
    cluster.write_status(&kind, &key, Some(present), &wanted.into())?;
    Ok(())
}

/// Kind and key.
type Identity = (GroupVersionKind, ObjectKey);

fn identity(object: &Object) -> Identity {
    (object.kind(), object.key())
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ApiCode::Invalid, message)
}
