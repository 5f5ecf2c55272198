//! The objects that a primary object should have. Entry point: [`Dependents::reconcile`].

mod apply;
mod failures;
mod order;

use super::calls::{Calls, read};
use super::finalizers::remove_finalizer;
use super::status::write_status;
use crate::api::{ApiCode, ApiError, ListOptions, Operation, Reply};
use crate::cluster::TypedClient;
use crate::kind::GroupVersionKind;
use crate::object::{Condition, Object, readiness};
use crate::outcome::{Action, Failure};
use crate::path::FieldPath;
use crate::request::ObjectKey;
use crate::source::Index;
use crate::typed::Typed;
use failures::summary;
use futures::future::BoxFuture;
use jiff::Timestamp;
use order::{is_definition, remove};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The label with the owner's uid, and the index of it.
const OWNER: &str = "windlass.dev/owner";

/// Default of [`Dependents::recheck`].
const RECHECK: Duration = Duration::from_secs(10);

/// The reason why an object is not ready.
type Ready = dyn Fn(&Object) -> Option<String> + Send + Sync;

/// The kinds of the objects that primary objects should have. A dependent of the same namespace, or of a cluster-scoped primary object, is
/// owned by it; another one has only the label `windlass.dev/owner`. The controller declares them too:
/// [`Builder::dependents`](crate::controller::Builder::dependents).
pub struct Dependents<'a> {
    pub(crate) kinds: Vec<GroupVersionKind>,
    /// Those of the kinds whose objects may be deleted and created again.
    recreate: Vec<GroupVersionKind>,
    finalizer: Option<String>,
    ready: Arc<Ready>,
    recheck: Duration,
    status: Value,
    /// `None`: nothing to clean up. In a mutex, so that a reference to this value can be sent to another thread.
    cleanup: Mutex<Option<Cleanup<'a>>>,
}

type Cleanup<'a> = BoxFuture<'a, Result<Action, Failure>>;

impl Default for Dependents<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl Dependents<'_> {
    /// Of no kind; ready by [`readiness`], looked at again after 10 s.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kinds: Vec::new(),
            recreate: Vec::new(),
            finalizer: None,
            ready: Arc::new(readiness),
            recheck: RECHECK,
            status: json!({}),
            cleanup: Mutex::default(),
        }
    }

    /// Adds a type. An object of it that is no longer desired is deleted.
    #[must_use]
    pub fn of<T: Typed>(self) -> Self {
        self.kind(T::gvk())
    }

    /// As [`Self::of`], for a kind that has no type.
    #[must_use]
    pub fn kind(mut self, kind: GroupVersionKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// An object of the kind that was added last is deleted and created again if the server does not take a change (HTTP 422), as of a
    /// field that is immutable. Default: it is not, and the failure is reported.
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
    pub fn ready(self, ready: impl Fn(&Object) -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            ready: Arc::new(ready),
            ..self
        }
    }

    /// When to look again while something is not ready and no event comes. Default: 10 s.
    #[must_use]
    pub fn recheck(self, recheck: Duration) -> Self {
        Self { recheck, ..self }
    }

    /// Further fields of the primary object's status.
    #[must_use]
    pub fn status(self, status: Value) -> Self {
        Self { status, ..self }
    }

    /// Runs when the primary object is being deleted, in each of its reconciles. A requeue keeps the finalizer and comes again.
    #[must_use]
    pub fn cleanup<'c>(
        self,
        cleanup: impl Future<Output = Result<Action, Failure>> + Send + 'c,
    ) -> Dependents<'c> {
        Dependents {
            kinds: self.kinds,
            recreate: self.recreate,
            finalizer: self.finalizer,
            ready: self.ready,
            recheck: self.recheck,
            status: self.status,
            cleanup: Mutex::new(Some(Box::pin(cleanup))),
        }
    }

    /// Applies the desired objects, deletes those that are no longer desired, and sets the conditions `Ready` and `Progressing` of the
    /// primary object, which must have been read. If the primary object is being deleted, it runs the clean-up, deletes the dependents
    /// that are not owned, and removes the finalizer.
    ///
    /// A failure of one keeps none of the others from being applied or deleted.
    ///
    /// # Errors
    /// Those of the calls; `invalid` for an object of another kind, and for one that cannot be owned without a finalizer.
    pub async fn reconcile<T: Typed>(
        self,
        client: &TypedClient,
        primary: &T,
        desired: Vec<Object>,
    ) -> Result<Action, Failure> {
        let primary = Object::of(primary)?;
        self.reconcile_at(client.raw(), &primary, desired, Timestamp::now())
            .await
    }

    pub(super) async fn reconcile_at(
        self,
        calls: &impl Calls,
        primary: &Object,
        desired: Vec<Object>,
        now: Timestamp,
    ) -> Result<Action, Failure> {
        if primary.is_deleting() {
            return self.end(calls, primary, now).await;
        }
        self.keep(calls, primary, desired, now).await
    }

    /// Ends the dependents of an object that is being deleted. The garbage collector takes those that the object owns.
    async fn end(
        mut self,
        calls: &impl Calls,
        primary: &Object,
        now: Timestamp,
    ) -> Result<Action, Failure> {
        let held = |finalizer: &String| primary.has_finalizer(finalizer);
        let Some(finalizer) = self.finalizer.take().filter(held) else {
            return Ok(Action::Done);
        };
        if let Some(cleanup) = self.cleanup.get_mut().take()
            && let later @ Action::RequeueAfter(_) = cleanup.await?
        {
            return Ok(later);
        }
        let mut left = self.not_owned(calls, primary).await?;
        let removed = remove(calls, &left).await;
        if !removed.is_empty() {
            removed.into_iter().try_for_each(|(_, result)| result)?;
            left = self.not_owned(calls, primary).await?;
        }
        if left.is_empty() {
            remove_finalizer(calls, primary.clone(), &finalizer).await?;
            return Ok(Action::Done);
        }
        let names: Vec<String> = left.iter().map(Object::named).collect();
        let message = format!("waits for the deletion of {}", summary(&names));
        let report = Report::new(primary, now);
        report
            .write(calls, "Deleting", &message, &Value::Null)
            .await?;
        Ok(Action::RequeueAfter(self.recheck))
    }

    /// The dependents that exist. There are none of a kind that is not served, if definitions are dependents too, or at the end.
    async fn of_owner(
        &self,
        calls: &impl Calls,
        primary: &Object,
    ) -> Result<Vec<Object>, ApiError> {
        let uid = primary.text_at("/metadata/uid").unwrap_or_default();
        let first = ListOptions {
            index: Some((OWNER.to_owned(), uid.to_owned())),
            ..ListOptions::default()
        };
        let list = |kind: &GroupVersionKind| Operation::List(kind.clone(), first.clone());
        let pages = calls.batch(self.kinds.iter().map(list).collect()).await;
        let may_lack = primary.is_deleting() || self.kinds.iter().any(is_definition);
        let mut found = Vec::new();
        for (kind, page) in self.kinds.iter().zip(pages) {
            let mut reply = match page {
                Err(error) if error.code == ApiCode::UnknownKind && may_lack => continue,
                page => page?,
            };
            while let Reply::Page(page) = reply {
                for json in &page.items {
                    found.push(Object::parse(json)?);
                }
                if page.continue_token.is_none() {
                    break;
                }
                let next = ListOptions {
                    continue_token: page.continue_token,
                    ..first.clone()
                };
                reply = calls.run(Operation::List(kind.clone(), next)).await?;
            }
        }
        Ok(found)
    }

    async fn not_owned(
        &self,
        calls: &impl Calls,
        primary: &Object,
    ) -> Result<Vec<Object>, ApiError> {
        let mut found = self.of_owner(calls, primary).await?;
        let uid = primary.text_at("/metadata/uid").unwrap_or_default();
        found.retain(|object| !object.is_owned_by(uid));
        Ok(found)
    }
}

/// The index by which a kind's dependents are found.
pub(crate) fn owner_index(kind: GroupVersionKind) -> Index {
    Index {
        kind,
        name: OWNER.to_owned(),
        path: FieldPath::of_label(OWNER),
        namespace_path: None,
    }
}

/// Writes the conditions `Ready` and `Progressing` of a primary object.
struct Report<'a> {
    primary: &'a Object,
    now: Timestamp,
}

impl<'a> Report<'a> {
    fn new(primary: &'a Object, now: Timestamp) -> Self {
        Self { primary, now }
    }

    async fn write(
        &self,
        calls: &impl Calls,
        reason: &str,
        message: &str,
        status: &Value,
    ) -> Result<(), ApiError> {
        let (kind, key) = (self.primary.gvk(), self.primary.key());
        let Some(present) = read(calls, &kind, &key).await? else {
            return Ok(());
        };
        let mut next = present.clone();
        let ready = reason == "Ready";
        for (name, is) in [("Ready", ready), ("Progressing", !ready)] {
            let condition = Condition {
                observed_generation: self.primary.0["metadata"]["generation"].as_i64(),
                ..Condition::new(name, is, reason).message(message)
            };
            next.set_condition(condition, self.now);
        }
        let mut wanted = status.as_object().cloned().unwrap_or_default();
        let conditions = next.0["status"]["conditions"].take();
        wanted.insert("conditions".to_owned(), conditions);
        write_status(calls, &kind, &key, Some(present), &wanted.into()).await?;
        Ok(())
    }
}

/// Kind and key.
type Identity = (GroupVersionKind, ObjectKey);

fn identity(object: &Object) -> Identity {
    (object.gvk(), object.key())
}

fn invalid(message: String) -> ApiError {
    ApiError::host(ApiCode::Invalid, message)
}
