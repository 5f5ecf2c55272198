//! A client for one cluster, within a grant. Entry point: [`Client`], from [`Cluster::client`](super::Cluster::client).
//!
//! Every call is checked against the grant before anything else. The check decides on the group, resource, subresource, verb, namespace,
//! name and cluster of the call's URL, whether the answer comes from a cache or from the server.

mod applied;
mod cache_effect;
mod charged;
mod held;
mod list;
mod made;
mod owners;
mod pod;
mod raw;
mod read;
mod schemas;
mod service;
mod target;
mod typed;
mod write;

use super::Cluster;
use super::call_policy::{CallPolicy, LimitsOnly, MemoryCharge, Permit};
use super::call_scope::{CallScope, Caller};
use crate::api::{
    ApiCode, ApiError, ApplyOptions, DeleteOptions, Event, GetOptions, Json, ListOptions, ListPage,
    Operation, PatchType, Reply, Selection, WriteOptions,
};
use crate::breaks::collected;
use crate::grant::{ClusterFacts, Grant};
use crate::http::fence::Fence;
use crate::http::transport::{AnswerAccount, Owner};
use crate::kind::GroupVersionKind;
use crate::name::ClusterName;
use crate::pairs::Pairs;
use crate::request::ObjectKey;
use crate::trace;
use futures::StreamExt;
use futures::future::BoxFuture;
use std::ops::ControlFlow;
use std::sync::Arc;
use target::WAIT;
use tracing::Span;

pub use held::HeldPage;
pub use pod::{PodAnswer, PodCall};
pub use typed::TypedClient;

pub(crate) use write::WRITE_DEADLINE;

pub(super) use target::check_reference;

/// Operations of a batch that run at once.
const BATCH_WIDTH: usize = 16;

/// A client for one cluster. Cheap to clone.
///
/// # Cancellation
/// Dropping a read's future cancels it. A write goes on until its own deadline (10 s) even if its future is dropped, and its controller
/// waits for it before it runs the same key again.
///
/// # Errors
/// Every call may answer `denied`, `unknown-kind`, `timeout`, `unavailable`, `cluster-gone` or `cancelled` besides what the
/// server answers.
#[derive(Clone)]
pub struct Client {
    cluster: Arc<Cluster>,
    grant: Arc<Grant>,
    scope: Arc<CallScope>,
    /// The cluster of the reconciled request, if it is another one than this: rules without `clusters` apply to none but that.
    home: Option<Arc<Cluster>>,
    /// Limits its calls. `None`: they are not limited.
    policy: Option<Arc<dyn CallPolicy>>,
    /// Charged for answers, in addition to the process.
    account: Option<Arc<dyn AnswerAccount>>,
    /// Whether only caches may answer.
    cached_only: bool,
}

impl Client {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        grant: Arc<Grant>,
        scope: Arc<CallScope>,
        home: Option<Arc<Cluster>>,
    ) -> Self {
        Self {
            cluster,
            grant,
            scope,
            home,
            policy: None,
            account: None,
            cached_only: false,
        }
    }

    /// The same client, whose calls a policy limits.
    #[must_use]
    pub fn with_policy(self, policy: Arc<dyn CallPolicy>) -> Self {
        Self {
            policy: Some(policy),
            ..self
        }
    }

    /// The same client, whose answers are charged to an account for as long as they are held.
    #[must_use]
    pub fn charged_to(self, account: Arc<dyn AnswerAccount>) -> Self {
        Self {
            account: Some(account),
            ..self
        }
    }

    /// The same client for cached reads only. Writes are `denied`, and so are reads that no cache can answer for certain.
    #[must_use]
    pub(crate) fn cached_only(self) -> Self {
        Self {
            cached_only: true,
            ..self
        }
    }

    /// The cluster's name.
    #[must_use]
    pub fn cluster_name(&self) -> &ClusterName {
        self.cluster.name()
    }

    /// The caller of its calls.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.scope.caller
    }

    /// The owner of the request slots that its calls take. With a policy it is always a tenant.
    pub(crate) fn owner(&self) -> Owner {
        let caller = &self.scope.caller;
        if caller.controller.is_some() || self.policy.is_some() {
            Owner::Tenant(caller.tenant.clone())
        } else {
            Owner::Program
        }
    }

    pub(crate) fn fence(&self) -> Option<&Arc<Fence>> {
        self.scope.fence.as_ref()
    }

    /// Its current rights.
    fn grant(&self) -> Arc<Grant> {
        match &self.policy {
            Some(policy) => policy.current_grant(&self.grant),
            None => self.grant.clone(),
        }
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// A client that writes this client's events: it impersonates the same user and has the same limits, but all rights.
    pub(crate) fn for_events(&self, scope: Arc<CallScope>) -> Self {
        let identity = self.grant().identity().cloned();
        let limits = |policy: &Arc<dyn CallPolicy>| Arc::new(LimitsOnly(policy.clone()));
        Self {
            cluster: self.cluster.clone(),
            grant: Arc::new(Grant::all().impersonate(identity)),
            scope,
            home: None,
            policy: self.policy.as_ref().map(|policy| limits(policy) as _),
            // The call that recorded the event may have ended, and its account with it. The tenant's bound still applies.
            account: None,
            cached_only: false,
        }
    }

    /// Charges memory to the caller, if it has a policy.
    pub(crate) fn charge(&self, bytes: usize) -> Result<Option<MemoryCharge>, ApiError> {
        let policy = self.policy.as_ref();
        policy.map(|policy| policy.charge(bytes)).transpose()
    }

    pub(crate) fn event_refused(&self) {
        if let Some(policy) = &self.policy {
            policy.event_refused();
        }
    }

    /// A permit for one call to the server that was checked against this grant.
    async fn permit(&self, checked: &Grant) -> Result<Option<Permit>, ApiError> {
        let Some(policy) = &self.policy else {
            return Ok(None);
        };
        let permit = tokio::select! {
            biased;
            permit = policy.acquire(self.patience(WAIT)) => permit?,
            () = self.scope.token.cancelled() => return Err(super::call_scope::cancelled()),
            () = self.cluster.token().cancelled() => return Err(self.cluster.gone()),
        };
        if *self.grant() != *checked {
            let message = "the grant was changed while the call waited for a permit: try again";
            return Err(ApiError::host(ApiCode::Cancelled, message));
        }
        Ok(Some(permit))
    }

    /// The span of a call.
    fn span(&self, verb: &'static str, kind: &GroupVersionKind, key: Option<&ObjectKey>) -> Span {
        trace::call(verb, self.cluster_name(), kind, key)
    }

    /// What rules match of its cluster, which has these labels.
    fn facts<'a>(&'a self, labels: &'a Pairs) -> ClusterFacts<'a> {
        self.cluster.facts(labels, self.home.is_none())
    }

    /// Reads an object; `None` means that it is absent.
    ///
    /// # Errors
    /// See [`Client`].
    pub async fn get(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<Json>, ApiError> {
        let span = self.span("get", kind, Some(key));
        match span.in_scope(|| self.read_at_once(kind, key, options)) {
            ControlFlow::Break(result) => self.scope.ended(&span, result),
            ControlFlow::Continue(begun) => {
                let rest = self.read_on(begun, kind, key, options);
                self.scope.call(span, rest).await
            }
        }
    }

    /// Lists objects, a page at a time.
    ///
    /// # Errors
    /// See [`Client`]; `expired` when the continue token is too old, `invalid` when the cache cannot answer the selector.
    pub async fn list(
        &self,
        kind: &GroupVersionKind,
        options: &ListOptions,
    ) -> Result<ListPage, ApiError> {
        let span = self.span("list", kind, None);
        self.scope.call(span, self.read_page(kind, options)).await
    }

    /// Creates an object and returns it as the server keeps it.
    ///
    /// # Errors
    /// See [`Client`]; `already-exists`.
    pub async fn create(
        &self,
        kind: &GroupVersionKind,
        object: Json,
        options: &WriteOptions,
    ) -> Result<Json, ApiError> {
        let span = self.span("create", kind, None);
        self.scope
            .call(span, self.write_create(kind, object, options))
            .await
    }

    /// Replaces an object and returns it as the server keeps it.
    ///
    /// # Errors
    /// See [`Client`]; `conflict` when the object's resourceVersion is not the newest.
    pub async fn update(
        &self,
        kind: &GroupVersionKind,
        object: Json,
        options: &WriteOptions,
    ) -> Result<Json, ApiError> {
        let span = self.span("update", kind, None);
        self.scope
            .call(span, self.write_update(kind, object, options))
            .await
    }

    /// Patches an object and returns it as the server keeps it.
    ///
    /// # Errors
    /// See [`Client`]; `not-found`.
    pub async fn patch(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch_type: PatchType,
        patch: Json,
        options: &WriteOptions,
    ) -> Result<Json, ApiError> {
        let span = self.span("patch", kind, Some(key));
        self.scope
            .call(
                span,
                self.write_patch(kind, key, patch_type, patch, options),
            )
            .await
    }

    /// Applies an object (server-side) under the caller's field manager and returns it as the server keeps it.
    ///
    /// # Errors
    /// See [`Client`]; `conflict` when another manager owns a field and `force` is not set.
    pub async fn apply(
        &self,
        kind: &GroupVersionKind,
        object: Json,
        options: &ApplyOptions,
    ) -> Result<Json, ApiError> {
        let span = self.span("apply", kind, None);
        self.scope
            .call(span, self.write_apply(kind, object, options))
            .await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// See [`Client`]; `not-found`; `conflict` when a precondition fails.
    pub async fn delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let span = self.span("delete", kind, Some(key));
        self.scope
            .call(span, self.write_delete(kind, key, options))
            .await
    }

    /// Deletes a selection of objects.
    ///
    /// # Errors
    /// See [`Client`]. What was deleted before the error stays deleted.
    pub async fn delete_collection(
        &self,
        kind: &GroupVersionKind,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let span = self.span("delete-collection", kind, None);
        self.scope
            .call(span, self.write_delete_collection(kind, selection, options))
            .await
    }

    /// Records an event in the background, about an object that the caller may get. Never fails: events that are refused or too many are
    /// counted. Writing an event counts as a call of the caller.
    pub fn record_event(&self, event: Event) {
        self.cluster.events().record(self, event);
    }

    /// Runs operations concurrently, a bounded number at a time. Answers are in the order of the operations.
    pub async fn batch(&self, operations: Vec<Operation>) -> Vec<Result<Reply, ApiError>> {
        let runs = operations.into_iter().map(|operation| self.run(operation));
        collected(futures::stream::iter(runs).buffered(BATCH_WIDTH)).await
    }

    /// Runs one operation.
    ///
    /// # Errors
    /// As the operation's own call.
    pub fn run(&self, operation: Operation) -> BoxFuture<'static, Result<Reply, ApiError>> {
        self.clone().into_run(operation)
    }

    /// As [`Self::run`], for a caller that needs the client for nothing else: the future holds it.
    ///
    /// # Errors
    /// As the operation's own call.
    pub fn into_run(self, operation: Operation) -> BoxFuture<'static, Result<Reply, ApiError>> {
        let object = |json| Ok(Reply::Object(json));
        // Each kind of operation is a future of its own. One with room for the largest would be moved by every caller around it.
        match operation {
            Operation::Get(kind, key, options) => Box::pin(async move {
                let found = self.get(&kind, &key, &options).await?;
                Ok(found.map_or(Reply::Nothing, Reply::Object))
            }),
            Operation::Create(kind, json, options) => {
                Box::pin(async move { object(self.create(&kind, json, &options).await?) })
            }
            Operation::Update(kind, json, options) => {
                Box::pin(async move { object(self.update(&kind, json, &options).await?) })
            }
            Operation::Patch(kind, key, patch_type, patch, options) => Box::pin(async move {
                object(self.patch(&kind, &key, patch_type, patch, &options).await?)
            }),
            Operation::Apply(kind, json, options) => {
                Box::pin(async move { object(self.apply(&kind, json, &options).await?) })
            }
            Operation::Delete(kind, key, options) => Box::pin(async move {
                self.delete(&kind, &key, &options).await?;
                Ok(Reply::Nothing)
            }),
            Operation::List(kind, options) => {
                Box::pin(async move { Ok(Reply::Page(self.list(&kind, &options).await?)) })
            }
        }
    }
}
